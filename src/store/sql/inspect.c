#include "store/sql/inspect.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- findings --------------------------------------------------------------------------------- */

struct sql_finding {
    sql_finding *next;
    semel_finding shown;
};

static const char *format_text(sql_findings *to, const char *format, va_list arguments)
{
    char text[1024];
    int len = vsnprintf(text, sizeof text, format, arguments);
    const char *copy = arena_copy(&to->arena, text, strlen(text));
    to->failed |= len < 0 || !copy;
    return copy ? copy : "";
}

const char *sql_find_text(sql_findings *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = format_text(to, format, arguments);
    va_end(arguments);
    return text;
}

void sql_find(sql_findings *to, semel_severity severity, const char *subject, const char *fix,
              const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = format_text(to, format, arguments);
    va_end(arguments);
    sql_finding *added = arena_alloc(&to->arena, sizeof *added);
    if (!added) {
        to->failed = 1;
        return;
    }
    *added = (sql_finding){.shown = {.size = sizeof added->shown,
                                     .severity = severity,
                                     .subject = subject,
                                     .text = text,
                                     .fix = fix ? sql_find_text(to, "%s", fix) : ""}};
    if (to->last)
        to->last->next = added;
    else
        to->first = added;
    to->last = added;
}

semel_status sql_findings_show(sql_findings *all, semel_status status,
                               semel_finding_visitor *visitor, void *context, semel_error *err)
{
    if (!status && all->failed)
        status = semel_fail(err, SEMEL_ENOMEM, "out of memory inspecting a store");
    for (const sql_finding *at = all->first; !status && at; at = at->next)
        status = visitor(&at->shown, context, err);
    arena_free(&all->arena);
    return status;
}

/* --- subjects --------------------------------------------------------------------------------- */

static void find_usable(sql_findings *to, int64_t version, int newest)
{
    if (version <= newest)
        sql_find(to, SEMEL_SEVERITY_OK, "schema", NULL, "semel's tables are of version %d", newest);
    else
        sql_find(to, SEMEL_SEVERITY_WARNING, "schema", "upgrade semel here, too",
                 "semel's tables are of version %lld; this semel knows up to %d and may use them",
                 (long long)version, newest);
}

semel_status sql_find_schema(sql_findings *to, const sql_migration *steps,
                             const sql_versions *versions, semel_status status, semel_error *why,
                             semel_error *err)
{
    if (!status)
        status = sql_schema_check(steps, versions, why);
    if (!status) {
        find_usable(to, versions->version, sql_schema_newest(steps));
        return SEMEL_OK;
    }
    if (status == SEMEL_ESCHEMA) {
        sql_find(to, SEMEL_SEVERITY_ERROR, "schema", NULL, "%s", why->text);
        return SEMEL_OK;
    }
    if (err)
        *err = *why;
    return status;
}

void sql_find_clock(sql_findings *to, int64_t host_ms, int64_t store_ms)
{
    enum { TOLERATED_MS = 5000 };
    int64_t ahead = host_ms - store_ms, by = ahead < 0 ? -ahead : ahead;
    if (by <= TOLERATED_MS)
        sql_find(to, SEMEL_SEVERITY_OK, "clock", NULL,
                 "the clocks of this host and the store differ by less than %d s",
                 TOLERATED_MS / 1000);
    else
        sql_find(to, SEMEL_SEVERITY_WARNING, "clock", "synchronise this host's clock with NTP",
                 "this host is %lld s %s the store, so %s", (long long)(by / 1000),
                 ahead > 0 ? "ahead of" : "behind",
                 ahead > 0 ? "messages may be taken for older or younger than they are"
                           : "new messages may be treated as stale");
}

void sql_find_connections(sql_findings *to, uint64_t pool, uint64_t allowed, const char *setting)
{
    if (allowed && pool > allowed)
        sql_find(to, SEMEL_SEVERITY_WARNING, "limits",
                 sql_find_text(to, "lower pool= in the URL of the store, or raise %s", setting),
                 "the pool of this process has up to %llu connections, and %s leaves %llu",
                 (unsigned long long)pool, setting, (unsigned long long)allowed);
    else
        sql_find(to, SEMEL_SEVERITY_OK, "limits", NULL,
                 "the pool of up to %llu connections is within %s", (unsigned long long)pool,
                 setting);
}

/* --- rights ----------------------------------------------------------------------------------- */

const char *const sql_right_names[] = {"SELECT", "INSERT", "UPDATE", "DELETE"};

#define ERROR   SEMEL_SEVERITY_ERROR
#define WARNING SEMEL_SEVERITY_WARNING
/* To `run`; tools for operators need it. */
#define NO_MATTER SEMEL_SEVERITY_OK

static const char receive[] = "no message can be received";
static const char names[] = "inboxes, outboxes and queues cannot be opened";
static const char retention[] = "retention cannot run";
static const char relay[] = "messages cannot be relayed";
static const char letters[] = "dead letters cannot be listed or retried";
static const char audit[] = "changes by hand cannot be recorded";
static const char history[] = "no history of deliveries is kept";
static const char processes[] = "running processes cannot be told from each other";

const sql_needed_right sql_needed_rights[] = {
    {"schema", "version", RIGHT_SELECT, ERROR, "the version of the tables is not known", 0},
    {"meta", "one", RIGHT_SELECT, ERROR, "units cannot join transactions of the application", 0},
    {"scope", "name", RIGHT_SELECT, ERROR, names, 0},
    {"scope", "name", RIGHT_INSERT, ERROR, names, 0},
    {"note", "number", RIGHT_SELECT, ERROR, names, 0},
    {"note", "number", RIGHT_INSERT, ERROR, names, 0},
    {"note", "number", RIGHT_UPDATE, ERROR, names, 0},
    {"marker", "state", RIGHT_SELECT, ERROR, receive, 0},
    {"marker", "state", RIGHT_INSERT, ERROR, receive, 0},
    {"marker", "state", RIGHT_UPDATE, ERROR, receive, 0},
    {"marker", "state", RIGHT_DELETE, ERROR, retention, 0},
    {"outbox", "token", RIGHT_SELECT, ERROR, relay, 0},
    {"outbox", "token", RIGHT_INSERT, ERROR, "no message can be sent", 0},
    {"outbox", "token", RIGHT_UPDATE, ERROR, relay, 0},
    {"outbox", "token", RIGHT_DELETE, ERROR, relay, 0},
    {"group", "due_ms", RIGHT_SELECT, ERROR, relay, 0},
    {"group", "due_ms", RIGHT_INSERT, ERROR, relay, 0},
    {"group", "due_ms", RIGHT_UPDATE, ERROR, relay, 0},
    {"group", "due_ms", RIGHT_DELETE, ERROR, relay, 0},
    {"sent", "sent_ms", RIGHT_SELECT, ERROR, relay, 0},
    {"sent", "sent_ms", RIGHT_INSERT, ERROR, relay, 0},
    {"sent", "sent_ms", RIGHT_UPDATE, ERROR, relay, 0},
    {"sent", "sent_ms", RIGHT_DELETE, ERROR, retention, 0},
    {"dead", "error", RIGHT_SELECT, ERROR, letters, 0},
    {"dead", "error", RIGHT_INSERT, ERROR, "no message can become a dead letter", 0},
    {"dead", "error", RIGHT_UPDATE, ERROR, "no message can become a dead letter", 0},
    {"dead", "error", RIGHT_DELETE, ERROR, letters, 0},
    {"audit", "result", RIGHT_SELECT, NO_MATTER, audit, 0},
    {"audit", "result", RIGHT_INSERT, NO_MATTER, audit, 0},
    {"audit", "result", RIGHT_UPDATE, NO_MATTER, audit, 0},
    {"process", "pid", RIGHT_SELECT, WARNING, processes, 0},
    {"process", "pid", RIGHT_INSERT, WARNING, processes, 0},
    {"process", "pid", RIGHT_UPDATE, WARNING, processes, 0},
    {"process", "pid", RIGHT_DELETE, WARNING, processes, 0},
    {"history", "at_ms", RIGHT_SELECT, WARNING, history, 0},
    {"history", "at_ms", RIGHT_INSERT, WARNING, history, 0},
    {"history", "at_ms", RIGHT_DELETE, WARNING, "the history of deliveries grows without end", 0},
    {"scope", "name", RIGHT_UPDATE, ERROR, names, 1}, /* INSERT ... ON DUPLICATE KEY UPDATE */
    {0},
};
