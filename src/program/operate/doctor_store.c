/* The store: is it there, and what does it say of itself? A file that is not there yet, or that is
 * no store yet, is not opened, because that would make or change it. */
#include "program/config/definition.h"
#include "program/config/store_url.h"
#include "program/operate/doctor.h"
#include "program/support/sqlite_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* --- a file that is no store yet -------------------------------------------------------------- */

static const char *directory_of(region *memory, const char *file)
{
    const char *slash = strrchr(file, '/');
    return !slash ? "." : slash == file ? "/" : region_copy(memory, file, (size_t)(slash - file));
}

static void find_new_file(doctor *d, const char *file)
{
    const char *directory = directory_of(&d->memory, file);
    if (access(directory, W_OK | X_OK) != 0)
        doctor_find(d, DOCTOR_STORE, SEMEL_SEVERITY_ERROR,
                    region_printf(&d->memory, "mkdir -p %s, or chmod u+wx it", directory),
                    "%s does not exist yet and cannot be made: %s", file, strerror(errno));
    else
        doctor_find(d, DOCTOR_STORE, SEMEL_SEVERITY_OK, NULL, "%s does not exist yet; run makes it",
                    file);
}

/* 1 if there is nothing to open. */
static int is_new(doctor *d)
{
    const char *file = store_url_file(&d->memory, d->store_url);
    if (!file)
        return 0;
    if (access(file, F_OK) != 0) {
        find_new_file(d, file);
        return 1;
    }
    if (sqlite_file_look(file) != SQLITE_FILE_FREE)
        return 0;
    doctor_find(d, DOCTOR_STORE, SEMEL_SEVERITY_OK, NULL,
                "%s is no store yet; run makes semel's tables in it, and its journal mode WAL",
                file);
    return 1;
}

/* --- what the store says ---------------------------------------------------------------------- */

static semel_status keep_finding(const semel_finding *finding, void *context, semel_error *err)
{
    (void)err;
    doctor *d = context;
    int check = doctor_check_named(finding->subject);
    const char *fix = finding->fix;
    if (check == DOCTOR_SCHEMA && finding->severity == SEMEL_SEVERITY_ERROR && !*fix)
        fix = "semel migrate status says which steps are pending, semel migrate up takes them";
    doctor_find(d, check < 0 ? DOCTOR_STORE : (doctor_check)check, finding->severity, fix, "%s",
                finding->text);
    return SEMEL_OK;
}

static void inspect(doctor *d)
{
    semel_error why = {0};
    semel_status status = semel_store_inspect(d->store, keep_finding, d, &why);
    if (status == SEMEL_EUNSUPPORTED)
        doctor_find(d, DOCTOR_STORE, SEMEL_SEVERITY_OK, NULL, "%s", why.text);
    else if (status)
        doctor_find(d, DOCTOR_STORE, SEMEL_SEVERITY_ERROR, NULL, "%s", why.text);
}

static void find_change(void *context, const definition_change *change)
{
    doctor *d = context;
    doctor_find(d, DOCTOR_DEFINITION, SEMEL_SEVERITY_ERROR,
                definition_fix(&d->memory, change->inbox), "%s: " DEFINITION_TEXT,
                change->inbox->name, change->option, change->before, change->now);
}

/* A store that cannot be asked has said so when it was inspected. */
static void look_at_definitions(doctor *d)
{
    if (d->all)
        (void)definition_compare(d->all, d->store, find_change, d, NULL);
}

void doctor_look_at_store(doctor *d)
{
    semel_error why = {0};
    d->store_is_new = is_new(d);
    if (d->store_is_new)
        return;
    semel_status status = semel_store_open(&d->store, d->store_url, &d->store_options, &why);
    if (!status) {
        inspect(d);
        look_at_definitions(d);
        doctor_look_at_tables(d);
    } else
        doctor_find(d, DOCTOR_STORE, SEMEL_SEVERITY_ERROR,
                    status == SEMEL_EUNAVAILABLE
                        ? "start the server, or correct the address in the URL of the store"
                        : NULL,
                    "%s%s", status == SEMEL_EUNAVAILABLE ? "unreachable: " : "", why.text);
}
