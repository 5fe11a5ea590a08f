/* See exec_store.h. The default store is a SQLite file of this user. ./semel.yaml is never looked
 * for: a cron job must not depend on its working directory.
 *
 * An inbox has one retention, which its first use decides and a marker of its own remembers. If
 * calls could choose, one with --retention 1d would sweep away what another was told to remember
 * forever, and the rent would be paid again. */
#include "program/command/exec_store.h"

#include "program/cli.h"
#include "program/config/load.h"
#include "program/config/store_url.h"
#include "program/support/units.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PRIVATE = 0700, OTHERS_WRITE = 022 };

static const char retention_inbox[] = "semel.exec.retention";

#define FAILED(...) (cli_failed("exec", __VA_ARGS__), EXEC_FAILED)

/* --- which store ------------------------------------------------------------------------------ */

static int make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int failed = mkdir(path, PRIVATE) != 0 && errno != EEXIST;
        *slash = '/';
        if (failed)
            return -1;
    }
    return mkdir(path, PRIVATE) != 0 && errno != EEXIST ? -1 : 0;
}

/* What others could write would let them decide what is run. */
static int check_directory(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode))
        return FAILED("%s is not a directory", path);
    if (about.st_uid != geteuid() || (about.st_mode & OTHERS_WRITE))
        return FAILED("%s can be written by others; it is not used", path);
    return 0;
}

static int default_store(const char **url, region *memory)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *path;
    if (state && *state == '/')
        path = region_printf(memory, "%s/semel", state);
    else if (home && *home == '/')
        path = region_printf(memory, "%s/.local/state/semel", home);
    else
        return FAILED("HOME is not set; pass --store");
    if (make_directories(path) != 0)
        return FAILED("cannot create %s: %s", path, strerror(errno));
    *url = region_printf(memory, "sqlite:%s/exec.db", path);
    return check_directory(path);
}

static int of_config(const char **url, exec_store *s, const char *file)
{
    diagnostics found = {0};
    load_options from = {.path = file};
    int loaded = config_load(&s->config, &from, &found);
    if (!loaded)
        diagnostic_print(stderr, &found, file, (diagnostic_form){0});
    else
        *url = s->config->store_url;
    diagnostic_free(&found);
    return loaded ? 0 : EXEC_FAILED;
}

static int of_text(const char **url, exec_store *s, const char *name, const char *text)
{
    *url = store_url_read(&s->memory, name, text);
    return *url ? 0 : EXEC_FAILED;
}

static int choose_store(const char **url, exec_store *s, const exec_options *o)
{
    const char *variable = getenv("SEMEL_STORE");
    if (o->config)
        return of_config(url, s, o->config);
    if (o->store)
        return of_text(url, s, "--store", o->store);
    if (variable && *variable)
        return of_text(url, s, "SEMEL_STORE", variable);
    return default_store(url, &s->memory);
}

/* --- retention -------------------------------------------------------------------------------- */

static semel_status keep_retention(semel_unit *unit, const semel_message *message, void *context,
                                   semel_error *err)
{
    (void)message;
    return semel_unit_set_result(unit, context, strlen(context), err);
}

static const char *shown_retention(region *memory, const char *ms)
{
    uint64_t number = strtoull(ms, NULL, 10);
    if (number == SEMEL_RETENTION_FOREVER)
        return "forever";
    return region_printf(memory, "for %s", units_show_duration(number).text);
}

static int compare_retention(exec_store *s, const exec_options *o, const char *wanted,
                             semel_bytes kept)
{
    const char *known = region_copy(&s->memory, kept.data, kept.len);
    if (strcmp(known, wanted) == 0)
        return 0;
    return FAILED("inbox \"%s\" remembers its keys %s, as its first use said, and not %s; for "
                  "another retention, choose another --inbox",
                  o->inbox, shown_retention(&s->memory, known),
                  shown_retention(&s->memory, wanted));
}

static int check_retention(exec_store *s, const exec_options *o)
{
    semel_inbox_options options = {.size = sizeof options,
                                   .on_duplicate = SEMEL_DUPLICATE_REPLAY,
                                   .retention_ms = SEMEL_RETENTION_FOREVER,
                                   .fingerprint = "none",
                                   .age = SEMEL_AGE_IGNORE};
    semel_message message = {.size = sizeof message, .id = semel_str(o->inbox)};
    char *wanted = region_printf(&s->memory, "%llu", (unsigned long long)o->retention_ms);
    semel_inbox *inbox = NULL;
    semel_result *result = NULL;
    semel_outcome outcome;
    semel_error err = {0};
    if (semel_inbox_open(&inbox, s->store, retention_inbox, &options, &err) ||
        semel_inbox_receive_result(&outcome, &result, inbox, &message, keep_retention, wanted,
                                   &err)) {
        semel_inbox_close(inbox);
        cli_failed("exec", "%s", err.text);
        return err.status == SEMEL_EBUSY ? EXEC_BUSY : EXEC_FAILED;
    }
    int wrong = result ? compare_retention(s, o, wanted, semel_result_bytes(result)) : 0;
    semel_result_free(result);
    semel_inbox_close(inbox);
    return wrong;
}

/* --- opening ---------------------------------------------------------------------------------- */

static uint32_t at_most_32_bits(uint64_t ms)
{
    return ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
}

/* A command is never given up: it may be called as often as its caller likes. */
static semel_status open_inbox(exec_store *s, const exec_options *o, semel_error *err)
{
    semel_inbox_options options = {
        .size = sizeof options,
        .mode = SEMEL_CLAIM,
        .on_duplicate = o->replay ? SEMEL_DUPLICATE_REPLAY : SEMEL_DUPLICATE_SKIP,
        .on_in_flight = o->wait_ms ? SEMEL_IN_FLIGHT_WAIT : SEMEL_IN_FLIGHT_REPORT,
        .age = SEMEL_AGE_IGNORE,
        .wait_ms = at_most_32_bits(o->wait_ms),
        .lease_ms = at_most_32_bits(o->lease_ms),
        .attempts_max = UINT32_MAX,
        .retention_ms = o->retention_ms,
        .fingerprint = "none",
        .sweep_every_ms = SEMEL_SWEEP_OFF,
    };
    return semel_inbox_open(&s->inbox, s->store, o->inbox, &options, err);
}

int exec_store_open(exec_store *out, const exec_options *o)
{
    const char *url = NULL;
    semel_error err = {0};
    *out = (exec_store){0};
    int wrong = choose_store(&url, out, o);
    if (wrong)
        return wrong;
    semel_status status = semel_store_open(&out->store, url, NULL, &err);
    if (!status)
        status = semel_store_migrate(out->store, &err);
    if (!status)
        status = open_inbox(out, o, &err);
    if (status) {
        cli_failed("exec", "%s", err.text);
        return status == SEMEL_EBUSY ? EXEC_BUSY : EXEC_FAILED;
    }
    return check_retention(out, o);
}

void exec_store_close(exec_store *s)
{
    semel_inbox_close(s->inbox);
    semel_store_close(s->store);
    config_free(s->config);
    region_free(&s->memory);
}
