/* The handlers: does the program exist and may it be executed, does the host of a URL resolve, does
 * the store take the statements? Nothing is run and nothing is called. */
#include "program/command/check_statements.h"
#include "program/config/diagnostic.h"
#include "program/handler/program.h"
#include "program/operate/doctor.h"

#include <curl/curl.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

/* --- exec and worker -------------------------------------------------------------------------- */

/* A file that is there is not executable; a file that is not there is to be installed. */
static const char *mend_program(doctor *d, const inbox_config *inbox, const char *name)
{
    const char *path =
        *name == '/'
            ? name
            : region_printf(&d->memory, "%s/%s", d->all->directory ? d->all->directory : ".", name);
    if (strchr(name, '/') && access(path, F_OK) == 0)
        return region_printf(&d->memory, "chmod +x %s",
                             strncmp(name, "./", 2) == 0 ? name + 2 : name);
    return region_printf(&d->memory, "install it, or correct inboxes.%s.%s.command", inbox->name,
                         inbox->handler == HANDLER_EXEC ? "exec" : "worker");
}

static void look_at_program(doctor *d, const inbox_config *inbox)
{
    int is_exec = inbox->handler == HANDLER_EXEC;
    const config_list *command = is_exec ? &inbox->exec.command : &inbox->worker.command;
    program opened = {0};
    semel_error why = {0};
    if (program_open(&opened, d->all, command, is_exec ? &inbox->exec.env : &inbox->worker.env,
                     is_exec ? &inbox->exec.limits : &inbox->worker.limits, &why))
        doctor_find(d, DOCTOR_HANDLERS, SEMEL_SEVERITY_ERROR,
                    mend_program(d, inbox, command->count ? command->items[0] : ""), "%s: %s",
                    inbox->name, why.text);
    else
        doctor_find(d, DOCTOR_HANDLERS, SEMEL_SEVERITY_OK, NULL, "%s: %s can be executed",
                    inbox->name, command->items[0]);
    program_close(&opened);
}

/* --- http ------------------------------------------------------------------------------------- */

static void look_up(doctor *d, const inbox_config *inbox, const char *host)
{
    struct addrinfo *found = NULL, hints = {.ai_socktype = SOCK_STREAM};
    size_t len = strlen(host);
    if (len > 2 && host[0] == '[') /* an address of IPv6 */
        host = region_copy(&d->memory, host + 1, len - 2);
    int error = getaddrinfo(host, NULL, &hints, &found);
    if (error)
        doctor_find(d, DOCTOR_HANDLERS, SEMEL_SEVERITY_ERROR,
                    region_printf(&d->memory,
                                  "correct the host in inboxes.%s.http.url, or the "
                                  "names that this host resolves",
                                  inbox->name),
                    "%s: the host %s cannot be resolved: %s", inbox->name, host,
                    gai_strerror(error));
    else
        doctor_find(d, DOCTOR_HANDLERS, SEMEL_SEVERITY_OK, NULL, "%s: the host %s resolves",
                    inbox->name, host);
    if (found)
        freeaddrinfo(found);
}

static void look_at_url(doctor *d, const inbox_config *inbox)
{
    char *host = NULL;
    CURLU *parsed = curl_url();
    if (parsed && !curl_url_set(parsed, CURLUPART_URL, inbox->http.url, 0) &&
        !curl_url_get(parsed, CURLUPART_HOST, &host, 0))
        look_up(d, inbox, host);
    else
        doctor_find(d, DOCTOR_HANDLERS, SEMEL_SEVERITY_ERROR, NULL, "%s: the URL is not valid",
                    inbox->name);
    curl_free(host);
    curl_url_cleanup(parsed);
}

/* --- sql -------------------------------------------------------------------------------------- */

static int has_sql(const config *all)
{
    for (size_t i = 0; i < all->inbox_count; i++)
        if (all->inboxes[i].handler == HANDLER_SQL)
            return 1;
    return 0;
}

/* What `check` finds of tables whose rows are sent is for doctor_table.c. */
static size_t find_statements(doctor *d, const diagnostics *found)
{
    size_t count = 0;
    for (size_t i = 0; i < found->count; i++) {
        const diagnostic *one = found->items[i];
        if (strcmp(one->code, "rejected-by-store") != 0 && strcmp(one->code, "no-sql") != 0)
            continue;
        doctor_find(d, DOCTOR_HANDLERS, SEMEL_SEVERITY_ERROR,
                    "semel check shows the place in the config", "%s: %s", one->path, one->text);
        count++;
    }
    return count;
}

/* As `check` does it. A store that cannot be reached has been reported already. */
static void look_at_statements(doctor *d)
{
    diagnostics found = {0};
    buffer unchecked = {0};
    if (!has_sql(d->all))
        return;
    if (!d->store && !d->store_is_new) {
        doctor_find(d, DOCTOR_HANDLERS, SEMEL_SEVERITY_OK, NULL,
                    "statements of sql were not checked: the store cannot be opened");
        return;
    }
    check_statements(&found, &unchecked, d->all, NULL);
    size_t wrong = find_statements(d, &found);
    if (unchecked.len)
        doctor_find(d, DOCTOR_HANDLERS, SEMEL_SEVERITY_OK, NULL,
                    "statements of sql were not checked: %s", unchecked.data);
    else if (!wrong)
        doctor_find(d, DOCTOR_HANDLERS, SEMEL_SEVERITY_OK, NULL,
                    "the store takes all statements of sql");
    buffer_free(&unchecked);
    diagnostic_free(&found);
}

void doctor_look_at_handlers(doctor *d)
{
    if (!doctor_wants(d, DOCTOR_HANDLERS))
        return;
    for (size_t i = 0; i < d->all->inbox_count; i++) {
        const inbox_config *inbox = &d->all->inboxes[i];
        if (inbox->handler == HANDLER_EXEC || inbox->handler == HANDLER_WORKER)
            look_at_program(d, inbox);
        else if (inbox->handler == HANDLER_HTTP)
            look_at_url(d, inbox);
    }
    look_at_statements(d);
}
