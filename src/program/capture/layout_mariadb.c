/* MariaDB. It commits before it creates a trigger, so the rows from before the trigger and the
 * trigger cannot be one transaction. Instead, while nothing else can write into the table (LOCK
 * TABLES), the rows are put into semel's outbox under a number that no relay reads (kind 6 of the
 * table scope, with the name of the table); then the trigger is created; then the rows are given
 * the number of the outbox. If the process dies
 *
 *  - before the trigger: the next one removes the rows, which were not sent, and begins anew;
 *  - after it: the next one sees the trigger and gives them their number (capture_release()).
 *
 * So each row that the table had when its trigger was created is sent once. The lock ends with the
 * connection. Under it only the locked tables may be used, without semel's functions, which use
 * others. Their order is that of the primary key.
 *
 * A trigger that is there and does something else is refused by semel_check_capture(), if the
 * statements do not replace it. That is asked before, which also finds out whether the functions
 * are there, and after, when another program may have created it first. */
#include "program/capture/layout_internal.h"

#include <string.h>

#define NEW_ID "CONCAT(UUID())"
#define NOW    "TIMESTAMPDIFF(MICROSECOND, DATE'1970-01-01', UTC_TIMESTAMP(3)) DIV 1000"

/* A value of the row. */
static const char *column(region *to, const char *of, const char *name)
{
    return *name ? region_printf(to, "%s`%s`", of, name) : "NULL";
}

/* As text, also of the type UUID, which would become 16 bytes; bytes stay as they are. */
static const char *text(region *to, const char *of, const char *name)
{
    return *name ? region_printf(to, "CONCAT(%s`%s`)", of, name) : "NULL";
}

static const char *topic(region *to, const char *of, const capture_layout *l)
{
    return *l->topic ? region_printf(to, "CONCAT('%s', %s`%s`)", l->prefix, of, l->topic) : "NULL";
}

const char *mariadb_trigger_body(region *to, const capture_layout *l)
{
    return region_printf(
        to, "SET @semel = %ssend_message('%s', %s, %s, %s, NULL, %s, %s, NULL, NULL, NULL, NULL)",
        l->place, l->outbox, text(to, "NEW.", l->type), column(to, "NEW.", l->body),
        text(to, "NEW.", l->id), topic(to, "NEW.", l), text(to, "NEW.", l->group));
}

/* As a literal of SQL. */
static const char *quoted(region *to, const char *text)
{
    char *out = region_alloc(to, 2 * strlen(text) + 3), *end = out;
    *end++ = '\'';
    for (; *text; text++) {
        if (*text == '\'')
            *end++ = '\'';
        *end++ = *text;
    }
    memcpy(end, "'", sizeof "'");
    return out;
}

static const char *check(region *to, const capture_layout *l)
{
    return region_printf(to, "SELECT %scheck_capture('%s', %s)", l->place, l->table,
                         quoted(to, mariadb_trigger_body(to, l)));
}

static const char *no_trigger(region *to, const capture_layout *l)
{
    return region_printf(to,
                         "NOT EXISTS (SELECT 1 FROM information_schema.triggers WHERE "
                         "trigger_schema = DATABASE() AND trigger_name = '%s' AND "
                         "event_object_table = '%s')",
                         capture_trigger_name(to, l), l->table);
}

static const char *unless_empty(region *to, const char *name, const char *otherwise)
{
    return region_printf(to, "IF(LENGTH(`%s`) > 0, CONCAT(`%s`), %s)", name, name, otherwise);
}

/* The new id is another one for each row. */
static const char *copy(region *to, const capture_layout *l)
{
    const char *id = *l->id ? unless_empty(to, l->id, NEW_ID) : NEW_ID;
    const char *group = *l->group ? unless_empty(to, l->group, "NULL") : "NULL";
    return region_printf(
        to,
        "INSERT INTO `%soutbox` (outbox, wake_ms, attempts, refusals, captured_ms, grp, id, type, "
        "topic, time_ms, `body`) SELECT @semel_rows, " NOW ", 0, 0, " NOW ", %s, %s, %s, %s, " NOW
        ", %s FROM `%s` WHERE %s",
        l->place, group, id, text(to, "", l->type), topic(to, "", l), column(to, "", l->body),
        l->table, no_trigger(to, l));
}

/* A trigger has the rights of the account that creates it, but not those of its roles. */
static const char *create(region *to, const capture_layout *l, capture_how how)
{
    return region_printf(to, "CREATE %s%sTRIGGER %s`%s` AFTER INSERT ON `%s` FOR EACH ROW %s",
                         how.replaces ? "OR REPLACE " : "",
                         how.as_role ? "DEFINER = CURRENT_ROLE " : "",
                         how.replaces ? "" : "IF NOT EXISTS ", capture_trigger_name(to, l),
                         l->table, mariadb_trigger_body(to, l));
}

size_t mariadb_statements(region *to, const capture_layout *l, capture_how how,
                          const char *out[CAPTURE_STATEMENTS_MAX])
{
    const char *p = l->place;
    size_t n = 0;
    if (!how.replaces)
        out[n++] = check(to, l);
    out[n++] = "SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES')";
    out[n++] = region_printf(to,
                             "SET @semel_outbox = %sscope_number(2, '%s'), "
                             "@semel_rows = %sscope_number(6, '%s')",
                             p, l->outbox, p, l->table);
    out[n++] = region_printf(to, "LOCK TABLES `%s` WRITE, `%soutbox` WRITE", l->table, p);
    out[n++] = region_printf(to, "DELETE FROM `%soutbox` WHERE outbox = @semel_rows AND %s", p,
                             no_trigger(to, l));
    out[n++] = copy(to, l);
    out[n++] = create(to, l, how);
    out[n++] = region_printf(
        to, "UPDATE `%soutbox` SET outbox = @semel_outbox WHERE outbox = @semel_rows", p);
    out[n++] = "COMMIT";
    out[n++] = "UNLOCK TABLES";
    if (!how.replaces)
        out[n++] = out[0];
    return n;
}

const char *capture_release(region *to, const capture_layout *l)
{
    return region_printf(to,
                         "UPDATE `%soutbox` SET outbox = (SELECT id FROM `%sscope` WHERE kind = 2 "
                         "AND name = '%s') WHERE outbox = (SELECT id FROM `%sscope` WHERE "
                         "kind = 6 AND name = '%s')",
                         l->place, l->place, l->outbox, l->place, l->table);
}
