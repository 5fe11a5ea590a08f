/* SQLite: the trigger has the statements of docs/SQL.md for sending. All statements are one
 * transaction: the rows that the table has are sent if there is no trigger yet, and the trigger is
 * made, or made anew. Relays find the rows when they next look (poll).
 *
 * The statement that inserts a row may say OR REPLACE or OR IGNORE, and that would hold for those
 * of the trigger, too: they meet no constraint. */
#include "program/capture/layout_internal.h"

#define NOW "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"

/* A UUID of version 7, which begins with the time. */
#define NEW_ID                                                                            \
    "printf('%08x-%04x-7%03x-%04x-', w.ms >> 16, w.ms & 65535, random() & 4095, 32768 | " \
    "(random() & 16383)) || lower(hex(randomblob(6)))"

/* A value of the row `of`, as a text or as bytes. */
static const char *value(region *to, const char *of, const char *name, const char *type)
{
    return *name ? region_printf(to, "CAST(%s.\"%s\" AS %s)", of, name, type) : "NULL";
}

static const char *topic(region *to, const char *of, const capture_layout *l)
{
    return *l->topic ? region_printf(to, "'%s' || %s", l->prefix, value(to, of, l->topic, "TEXT"))
                     : "NULL";
}

static const char *insert_rows(region *to, const capture_layout *l, const char *of,
                               const char *from)
{
    const char *type = value(to, of, l->type, "TEXT"), *body = value(to, of, l->body, "BLOB");
    const char *group = value(to, of, l->group, "TEXT"), *id = value(to, of, l->id, "TEXT");
    const char *id_bytes = value(to, of, l->id, "BLOB");
    return region_printf(
        to,
        "INSERT INTO semel_outbox (outbox, wake_ms, attempts, refusals, captured_ms, grp, id, "
        "type, topic, time_ms, body) SELECT s.id, coalesce(c.store_ms, 0), 0, 0, "
        "coalesce(c.store_ms + max(0, w.ms - c.wall_ms), w.ms), nullif(%s, ''), "
        "CASE WHEN coalesce(%s, '') <> '' THEN %s ELSE CAST(%s AS BLOB) END, %s, %s, w.ms, %s "
        "FROM %ssemel_scope s JOIN (SELECT " NOW " AS ms) w LEFT JOIN semel_clock c "
        "WHERE s.kind = 2 AND s.name = '%s'",
        group, id, id_bytes, NEW_ID, type, topic(to, of, l), body, from, l->outbox);
}

static const char *name_outbox(region *to, const capture_layout *l)
{
    return region_printf(to,
                         "INSERT INTO semel_scope (kind, name) SELECT 2, '%s' WHERE NOT EXISTS "
                         "(SELECT 1 FROM semel_scope WHERE kind = 2 AND name = '%s')",
                         l->outbox, l->outbox);
}

/* Of each text at most 1024 bytes, as everywhere. */
static const char *refuse_long(region *to, const capture_layout *l)
{
    return region_printf(
        to,
        "SELECT RAISE(ABORT, 'semel: a text of a message has at most 1024 bytes, a body 16777216') "
        "WHERE max(coalesce(length(%s), 0), coalesce(length(%s), 0), coalesce(length(%s), 0), "
        "coalesce(length(CAST(%s AS BLOB)), 0)) > 1024 OR length(%s) > 16777216",
        value(to, "NEW", l->id, "BLOB"), value(to, "NEW", l->type, "BLOB"),
        value(to, "NEW", l->group, "BLOB"), topic(to, "NEW", l), value(to, "NEW", l->body, "BLOB"));
}

const char *sqlite_trigger(region *to, const capture_layout *l)
{
    return region_printf(to, "CREATE TRIGGER \"%s\" AFTER INSERT ON \"%s\" BEGIN %s; %s; %s; END",
                         capture_trigger_name(to, l), l->table, refuse_long(to, l),
                         name_outbox(to, l), insert_rows(to, l, "NEW", ""));
}

size_t sqlite_statements(region *to, const capture_layout *l, capture_how how,
                         const char *out[CAPTURE_STATEMENTS_MAX])
{
    const char *name = capture_trigger_name(to, l);
    const char *rows = region_printf(to, "\"%s\" AS r JOIN ", l->table);
    size_t n = 0;
    out[n++] = name_outbox(to, l);
    out[n++] = region_printf(to,
                             "%s AND NOT EXISTS (SELECT 1 FROM sqlite_master WHERE "
                             "type = 'trigger' AND name = '%s' COLLATE NOCASE AND "
                             "tbl_name = '%s' COLLATE NOCASE)%s",
                             insert_rows(to, l, "r", rows), name, l->table,
                             how.has_rowid ? " ORDER BY r.rowid" : "");
    out[n++] = region_printf(to, "DROP TRIGGER IF EXISTS \"%s\"", name);
    out[n++] = sqlite_trigger(to, l);
    return n;
}
