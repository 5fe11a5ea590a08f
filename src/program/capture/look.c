/* Looking at triggers: the catalogue tells what is there, the configuration what should be. See
 * capture.h. */
#include "program/capture/capture.h"
#include "program/capture/rows.h"

#include <string.h>
#include <strings.h>

/* --- what is there ---------------------------------------------------------------------------- */

typedef struct trigger {
    struct trigger *next;
    const char *table;
    const char *name;
    const char *definition;
    int works; /* 0: PostgreSQL does not call it */
    int ours;  /* 0: it is of the tables of another schema, or not one after each insertion */
    int is_known;
} trigger;

static const char *triggers_query(region *memory, const capture_layout *l)
{
    if (l->kind == SQL_KIND_POSTGRES)
        return region_printf(memory,
                             "SELECT t.tgrelid::regclass, t.tgname, encode(t.tgargs, 'escape'), "
                             "(t.tgenabled IN ('O', 'A'))::int, "
                             "(t.tgfoid = to_regprocedure('\"%s\".semel_capture()'))::int "
                             "FROM pg_trigger t WHERE t.tgname = 'semel_capture' ORDER BY 1",
                             l->place);
    if (l->kind == SQL_KIND_MARIADB)
        return "SELECT event_object_table, trigger_name, action_statement, 1, "
               "event_manipulation = 'INSERT' AND action_timing = 'AFTER' FROM "
               "information_schema.triggers WHERE trigger_schema = DATABASE() AND "
               "LEFT(trigger_name, 14) = 'semel_capture_' ORDER BY 1";
    return "SELECT tbl_name, name, sql, 1, 1 FROM sqlite_master WHERE type = 'trigger' AND "
           "substr(name, 1, 14) = 'semel_capture_' ORDER BY 1";
}

typedef struct looking {
    region memory;
    const config *all;
    sql_kind kind;
    trigger *first, **end;
    capture_visitor *visit;
    void *context;
} looking;

static const char *text_of(looking *k, const char *value)
{
    return region_printf(&k->memory, "%s", value ? value : "");
}

static void keep_trigger(const char *const values[ROWS_COLUMNS_MAX], void *context)
{
    looking *k = context;
    trigger *added = region_alloc(&k->memory, sizeof *added);
    added->table = text_of(k, values[0]);
    added->name = text_of(k, values[1]);
    added->definition = text_of(k, values[2]);
    added->works = values[3] && strcmp(values[3], "1") == 0;
    added->ours = values[4] && strcmp(values[4], "1") == 0;
    *k->end = added;
    k->end = &added->next;
}

/* --- comparing -------------------------------------------------------------------------------- */

/* Spaces and quotes of names do not count: a trigger may have been written by hand. */
static const char *skip(const char *at)
{
    return at + strspn(at, "` \t\r\n");
}

static int is_same(const char *a, const char *b)
{
    for (a = skip(a), b = skip(b); *a && *a == *b; a = skip(a + 1), b = skip(b + 1))
        continue;
    return *a == *b;
}

static trigger *find_trigger(looking *k, const capture_layout *layout, const char *table)
{
    int (*compare)(const char *, const char *) = k->kind == SQL_KIND_SQLITE ? strcasecmp : strcmp;
    const char *name = capture_trigger_name(&k->memory, layout);
    for (trigger *t = k->first; t; t = t->next)
        if (compare(t->table, table) == 0 && strcasecmp(t->name, name) == 0)
            return t;
    return NULL;
}

static capture_state state_of(looking *k, const trigger *t, const capture_layout *layout,
                              const capture_table *table)
{
    const capture_column *body = capture_find_column(table, k->kind, layout->body);
    if (!t)
        return CAPTURE_MISSING;
    if (!t->works)
        return CAPTURE_DISABLED;
    const char *wanted = capture_definition(&k->memory, layout, body && body->is_bytes);
    return t->ours && is_same(wanted, t->definition) ? CAPTURE_AS_WANTED : CAPTURE_DIFFERS;
}

/* --- telling ---------------------------------------------------------------------------------- */

static const char *text_for(looking *k, capture_state state, const capture_layout *l)
{
    static const char *const texts[] = {
        [CAPTURE_AS_WANTED] = "sends its rows",
        [CAPTURE_MISSING] = "is missing: rows are not sent",
        [CAPTURE_DIFFERS] = "was made for other columns or another outbox, or by another version",
        [CAPTURE_DISABLED] = "is disabled: rows are not sent",
        [CAPTURE_LEFT] = ""};
    return region_printf(&k->memory, "the trigger %s of the table %s %s",
                         capture_trigger_name(&k->memory, l), l->table, texts[state]);
}

static const char *fix_for(looking *k, capture_state state, const char *table)
{
    if (state == CAPTURE_DISABLED)
        return region_printf(&k->memory, "ALTER TABLE %s ENABLE TRIGGER semel_capture", table);
    if (state == CAPTURE_MISSING)
        return "semel run makes it when it starts; a DBA by the script of semel migrate sql";
    if (state != CAPTURE_DIFFERS)
        return "";
    return k->kind == SQL_KIND_MARIADB
               ? "semel run does not replace it: run the script of semel migrate sql"
               : "semel run replaces it when it starts; a DBA by the script of semel migrate sql";
}

/* An error is what `semel run` stops at. */
static semel_severity severity_of(const looking *k, capture_state state)
{
    int is_error =
        state == CAPTURE_DISABLED || (state == CAPTURE_DIFFERS && k->kind == SQL_KIND_MARIADB);
    return state == CAPTURE_AS_WANTED ? SEMEL_SEVERITY_OK
           : is_error                 ? SEMEL_SEVERITY_ERROR
                                      : SEMEL_SEVERITY_WARNING;
}

static void tell(looking *k, const outbox_config *outbox, const capture_layout *layout,
                 const capture_table *table)
{
    trigger *t = find_trigger(k, layout, table->shown);
    capture_state state = state_of(k, t, layout, table);
    if (t)
        t->is_known = 1;
    k->visit(&(capture_finding){.state = state,
                                .severity = severity_of(k, state),
                                .outbox = outbox,
                                .text = text_for(k, state, layout),
                                .fix = fix_for(k, state, table->shown),
                                .has_rowid = table->has_rowid},
             k->context);
}

/* Triggers of another schema are the business of its own configuration. */
static void tell_left(looking *k)
{
    for (const trigger *t = k->first; t; t = t->next) {
        if (t->is_known || !t->ours)
            continue;
        const char *text = region_printf(
            &k->memory,
            "the trigger %s still puts rows of the table %s into an outbox, but no outbox of this "
            "config has that table",
            t->name, t->table);
        const char *fix = region_printf(&k->memory, "unless another config has it: %s",
                                        capture_removal(&k->memory, k->kind, t->name, t->table));
        k->visit(&(capture_finding){.state = CAPTURE_LEFT,
                                    .severity = SEMEL_SEVERITY_WARNING,
                                    .text = text,
                                    .fix = fix},
                 k->context);
    }
}

/* --- all -------------------------------------------------------------------------------------- */

static semel_status look_at_table(looking *k, semel_unit *unit, const outbox_config *outbox,
                                  semel_error *err)
{
    capture_table table;
    const capture_layout layout = capture_layout_of(&k->memory, k->all, outbox);
    semel_status status = capture_ask_table(&table, &k->memory, unit, &layout, err);
    if (!status && table.shown)
        tell(k, outbox, &layout, &table);
    return status;
}

static semel_status look_in_unit(looking *k, semel_unit *unit, semel_error *err)
{
    const outbox_config none = {.name = "", .table = {.name = ""}};
    const capture_layout any = capture_layout_of(&k->memory, k->all, &none);
    semel_status status =
        rows_ask(unit, k->kind, triggers_query(&k->memory, &any), keep_trigger, k, err);
    for (size_t i = 0; !status && i < k->all->outbox_count; i++)
        if (k->all->outboxes[i].table.name)
            status = look_at_table(k, unit, &k->all->outboxes[i], err);
    if (!status)
        tell_left(k);
    return status;
}

semel_status capture_look(const config *all, semel_store *store, capture_visitor *visit,
                          void *context, semel_error *err)
{
    looking k = {
        .all = all, .kind = sql_kind_of(all->store_url), .visit = visit, .context = context};
    semel_unit *unit = NULL;
    k.end = &k.first;
    if (!k.kind)
        return SEMEL_OK;
    semel_status status = semel_unit_begin(&unit, store, err);
    if (!status)
        status = look_in_unit(&k, unit, err);
    semel_unit_rollback(unit);
    region_free(&k.memory);
    return status;
}
