/* See queue_plan.h. */
#include "support/queue_plan.h"

#include <stdio.h>
#include <string.h>

const char insert_effect[] = "INSERT INTO effect (id) VALUES (?)";

static int is_meant(const plan *p, const semel_message *message)
{
    return p->sql && (!p->only || (message->id.len == strlen(p->only) &&
                                   memcmp(message->id.data, p->only, message->id.len) == 0));
}

semel_status queue_plan(semel_unit *unit, const semel_message *message, void *context,
                        semel_error *err)
{
    plan *p = context;
    char id[64];
    memcpy(id, message->id.data, message->id.len);
    semel_value row[] = {{SEMEL_VALUE_TEXT, 0, 0, {id, message->id.len}}};
    p->runs++;
    semel_status status = semel_unit_queue(unit, insert_effect, row, 1, err);
    memset(id, 'x', sizeof id);
    memset(row, 0, sizeof row);
    if (!status && is_meant(p, message)) {
        status = semel_unit_queue(unit, p->sql, p->values, p->count, err);
        p->heard = status;
    }
    if (p->passes_over)
        status = SEMEL_OK;
    if (!status && p->then)
        return semel_fail(err, p->then, "as planned");
    return status;
}

int64_t plan_number(sqlite_case *c, const char *sql)
{
    return lite_number(lite_other(c), sql);
}

int64_t plan_effects_of(sqlite_case *c, const char *id)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM effect WHERE id = '%s'", id);
    return plan_number(c, sql);
}

int64_t plan_attempts(sqlite_case *c)
{
    return plan_number(c, "SELECT ifnull(sum(attempts), 0) FROM semel_marker WHERE state = 1");
}

semel_unit *plan_begin(sqlite_case *c)
{
    semel_unit *unit = NULL;
    OK(semel_unit_begin(&unit, c->store, &last_error));
    return unit;
}
