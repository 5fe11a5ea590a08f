#include "store/sql/schema.h"

#include "base/mem.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

int sql_schema_newest(const sql_migration *steps)
{
    int version = 0;
    for (; steps->version; steps++)
        version = steps->version;
    return version;
}

const sql_migration *sql_schema_next(const sql_migration *steps, int64_t version)
{
    while (steps->version && steps->version <= version)
        steps++;
    return steps->version ? steps : NULL;
}

semel_status sql_schema_check_usable(const sql_migration *steps, const sql_versions *found,
                                     semel_error *err)
{
    int newest = sql_schema_newest(steps);
    if (found->needs <= newest)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ESCHEMA,
                      "the database has semel's tables in version %lld, for programs that know "
                      "version %lld or later, and this libsemel knows up to %d: upgrade semel",
                      (long long)found->version, (long long)found->needs, newest);
}

semel_status sql_schema_check(const sql_migration *steps, const sql_versions *found,
                              semel_error *err)
{
    semel_status status = sql_schema_check_usable(steps, found, err);
    if (status || !sql_schema_next(steps, found->version))
        return status;
    if (!found->version)
        return semel_fail(err, SEMEL_ESCHEMA,
                          "semel's tables are not there yet: call semel_store_migrate() first, or "
                          "run semel migrate up");
    return semel_fail(err, SEMEL_ESCHEMA,
                      "semel's tables are of version %lld, and this libsemel needs %d: call "
                      "semel_store_migrate() first, or run semel migrate up",
                      (long long)found->version, sql_schema_newest(steps));
}

semel_status sql_schema_check_target(const sql_migration *steps, int32_t version, semel_error *err)
{
    int newest = sql_schema_newest(steps);
    return version >= 1 && version <= newest
               ? SEMEL_OK
               : semel_fail(err, SEMEL_EINVAL,
                            "there is no version %d of semel's tables: this libsemel knows 1 to %d",
                            (int)version, newest);
}

/* --- the steps, for a tool -------------------------------------------------------------------- */

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void sql_applied_note(sql_applied *all, int64_t version, int64_t at_ms, int64_t needs,
                      const char *name)
{
    if (version < 1)
        return;
    needs = needs ? needs : version;
    all->found.version = larger(all->found.version, version);
    all->found.needs = larger(all->found.needs, needs);
    if (version > SQL_STEPS_MAX)
        return;
    sql_applied_step *step = &all->steps[version];
    *step = (sql_applied_step){.at_ms = at_ms ? at_ms : 1, .needs = needs};
    (void)snprintf(step->name, sizeof step->name, "%s", name ? name : "");
}

enum { OWN_PARTS = 4, REPLACED_MAX = OWN_PARTS + SQL_SCRIPT_PARTS };

/* Adds the text with each of `parts` that has a `from` replaced. */
static void append_replaced(text_buffer *to, const char *text,
                            const sql_script_part parts[REPLACED_MAX])
{
    while (*text) {
        const sql_script_part *found = NULL;
        for (size_t i = 0; !found && i < REPLACED_MAX; i++)
            if (parts[i].from && strncmp(text, parts[i].from, strlen(parts[i].from)) == 0)
                found = &parts[i];
        if (found)
            text_append_z(to, found->to);
        else
            text_append(to, text, 1);
        text += found ? strlen(found->from) : 1;
    }
}

static void append_script(text_buffer *to, const sql_migration *step, const sql_script_frame *frame)
{
    char version[16], needs[16];
    sql_script_part parts[REPLACED_MAX] = {
        {"{}", frame->name}, {"{version}", version}, {"{name}", step->name}, {"{needs}", needs}};
    (void)snprintf(version, sizeof version, "%d", step->version);
    (void)snprintf(needs, sizeof needs, "%d", step->needs);
    append_replaced(to, frame->before, parts);
    memcpy(parts + OWN_PARTS, frame->parts, sizeof frame->parts);
    append_replaced(to, step->sql, parts);
    memset(parts + OWN_PARTS, 0, sizeof frame->parts);
    append_replaced(to, frame->record, parts);
    if (step->version >= SQL_NEEDS_VERSION)
        append_replaced(to, frame->needs, parts);
    append_replaced(to, frame->after, parts);
    text_append(to, "", 1);
}

static semel_status show_step(const sql_migration *step, const sql_applied *applied,
                              const sql_script_frame *frame, semel_schema_visitor *visitor,
                              void *context, semel_error *err)
{
    text_buffer script = {0};
    append_script(&script, step, frame);
    semel_schema_step shown = {.size = sizeof shown,
                               .version = step->version,
                               .name = step->brings,
                               .locks = step->locks,
                               .applied_ms = applied->steps[step->version].at_ms,
                               .sql = script.bytes,
                               .needs = step->needs,
                               .incomplete = applied->incomplete[step->version]};
    semel_status status = script.failed
                              ? semel_fail(err, SEMEL_ENOMEM, "out of memory showing the schema")
                              : visitor(&shown, context, err);
    mem_free(script.bytes);
    return status;
}

/* One that this library does not have. */
static semel_status show_newer(int version, const sql_applied_step *step,
                               semel_schema_visitor *visitor, void *context, semel_error *err)
{
    semel_schema_step shown = {.size = sizeof shown,
                               .version = version,
                               .name = step->name,
                               .locks = "",
                               .applied_ms = step->at_ms,
                               .sql = "",
                               .needs = (int32_t)step->needs,
                               .newer = 1};
    return visitor(&shown, context, err);
}

semel_status sql_schema_show(const sql_migration *steps, const sql_applied *applied,
                             const sql_script_frame *frame, semel_schema_visitor *visitor,
                             void *context, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (const sql_migration *at = steps; !status && at->version <= SQL_STEPS_MAX && at->version;
         at++)
        status = show_step(at, applied, frame, visitor, context, err);
    for (int version = sql_schema_newest(steps) + 1; !status && version <= SQL_STEPS_MAX; version++)
        if (applied->steps[version].at_ms)
            status = show_newer(version, &applied->steps[version], visitor, context, err);
    return status ? status : sql_schema_check_usable(steps, &applied->found, err);
}
