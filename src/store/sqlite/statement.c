/* All SQL of the store, in one table, and the few calls that run it.
 *
 * Statements are prepared when first used and kept. Parameters are bound in the order in which they
 * stand in the text. What errors mean is in errors.c. */
#include "store/sqlite/statement.h"

#include <string.h>

#define MESSAGE_COLUMNS \
    "grp, id, source, type, topic, correlation_id, content_type, time_ms, headers, body"

#define GROUP_COLUMNS "seq, attempts, refusals, " MESSAGE_COLUMNS ", wake_ms, token"

/* A claim is live while it has a token and its lease has not ended. */
#define LIVE "token IS NOT NULL AND lease_until_ms > ?"

/* A dead row stays as long as its letter. When the letter is discarded, the row gets the token
 * 0. */
#define LETTER "state = 2 AND token IS NULL"

/* Of the message; NULL if the inbox does not keep them. sqlite_marker_details() binds them. */
#define DETAILS     "type, source, received_ms"
#define SET_DETAILS "type = ?, source = ?, received_ms = ?"

/* When the first attempt began, for a row whose at_ms is about to change. */
#define FIRST "first_ms = coalesce(first_ms, at_ms)"

/* What a list shows of a marker; its result only if that is asked for. */
#define MARKER_COLUMNS                                                                        \
    "m.key, m.state, m.attempts, m.token, m.lease_until_ms, coalesce(m.first_ms, m.at_ms), "  \
    "m.at_ms, m.error, m.result IS NOT NULL, CASE WHEN ? THEN m.result END, t.name, s.name, " \
    "m.received_ms FROM semel_marker m LEFT JOIN semel_scope t ON t.id = m.type "             \
    "LEFT JOIN semel_scope s ON s.id = m.source"

#define SENT_COLUMNS                                                                             \
    "seq, attempts, captured_ms, sent_ms, grp, id, type, topic, correlation_id FROM semel_sent " \
    "WHERE outbox = ?1"

/* What a list shows of a dead letter; headers and body only if they are wanted (?12). */
#define DEAD_COLUMNS                                                                        \
    "dead_id, origin, name, key, attempts, at_ms, error, first_ms, cause, retry, grp, id, " \
    "source, type, topic, correlation_id, content_type, time_ms, "                          \
    "CASE WHEN ?12 THEN headers END, CASE WHEN ?12 THEN body END FROM semel_dead"

/* The filter of a list. Each statement names the index it is meant for first. A letter without a
 * cause passes: the core knows more. */
#define DEAD_FILTER                                                                          \
    "dead_id > ?1 AND (?2 = 0 OR origin = ?2) AND (?3 IS NULL OR name = ?3) "                \
    "AND (?4 IS NULL OR type = ?4) AND at_ms >= ?5 AND (?6 = 0 OR at_ms < ?6) "              \
    "AND (?8 = 0 OR dead_id <= ?8) AND (?9 IS NULL OR key = ?9) AND (?11 = 0 OR retry = 1) " \
    "AND (?10 = 0 OR cause = ?10 OR cause IS NULL)"

#define OUTGOING_COLUMNS                                                                         \
    "seq, attempts, refusals, captured_ms, wake_ms, token IS NOT NULL, error, grp, id, source, " \
    "type, topic, correlation_id, content_type, time_ms"

/* The rows of the history; the message's id has another name than in the other tables. */
#define HISTORY_NUMBERS                                                                     \
    "at_ms, kind, outcome, refused, attempt, delivery, retry_ms, took_ns, letter, number, " \
    "body_len, kept"
#define HISTORY_HEAD                                                                      \
    HISTORY_NUMBERS ", name, key, process, error, grp, message_id, source, type, topic, " \
                    "correlation_id, content_type, time_ms"
#define HISTORY_COLUMNS                                                                  \
    "id, " HISTORY_HEAD ", CASE WHEN ?10 THEN headers END, CASE WHEN ?10 THEN body END " \
    "FROM semel_history"
#define HISTORY_WANTED                                                                         \
    "id < ?1 AND (?2 = 0 OR kind = ?2) AND (?3 IS NULL OR name = ?3) "                         \
    "AND (?4 IS NULL OR key = ?4) AND (?5 = 0 OR outcome = ?5) AND (?6 IS NULL OR type = ?6) " \
    "AND at_ms >= ?7 AND (?8 = 0 OR at_ms < ?8) ORDER BY id DESC LIMIT ?9"

/* Rows of queues are in the same table, and are not unsent. */
#define NO_QUEUE "outbox NOT IN (SELECT id FROM semel_scope WHERE kind = 3)"

static const char *const texts[ST_COUNT] = {
    [ST_BEGIN] = "BEGIN IMMEDIATE",
    [ST_COMMIT] = "COMMIT",
    [ST_ROLLBACK] = "ROLLBACK",
    [ST_SAVEPOINT] = "SAVEPOINT \"semel: unit\"",
    [ST_RELEASE] = "RELEASE \"semel: unit\"",
    [ST_ROLLBACK_TO] = "ROLLBACK TO \"semel: unit\"",
    [ST_SHARE_SAVEPOINT] = "SAVEPOINT \"semel: share\"",
    [ST_SHARE_RELEASE] = "RELEASE \"semel: share\"",
    [ST_SHARE_ROLLBACK_TO] = "ROLLBACK TO \"semel: share\"",
    [ST_CLOCK_READ] = "SELECT store_ms, steady_ms, wall_ms, boot_id FROM semel_clock",
    [ST_CLOCK_WRITE] = "INSERT OR REPLACE INTO semel_clock (one, store_ms, steady_ms, wall_ms, "
                       "boot_id) VALUES (1, ?, ?, ?, ?)",
    [ST_SCOPE_FIND] = "SELECT id FROM semel_scope WHERE kind = ? AND name = ?",
    [ST_SCOPE_ADD] = "INSERT INTO semel_scope (kind, name) VALUES (?, ?)",

    [ST_NOTE_READ] = "SELECT number, text FROM semel_note WHERE inbox = ? AND note = ?",
    [ST_NOTE_ADD] = "INSERT INTO semel_note (inbox, note) VALUES (?, ?) ON CONFLICT DO NOTHING",
    [ST_NOTE_WRITE] = "UPDATE semel_note SET number = ?, text = ? WHERE inbox = ? AND note = ?",
    [ST_NOTE_RAISE] = "INSERT INTO semel_note (inbox, note, number) VALUES (?, ?, ?) "
                      "ON CONFLICT DO UPDATE SET number = max(number, excluded.number)",

    [ST_MARK_INSERT] = "INSERT INTO semel_marker (inbox, key, state, at_ms, fingerprint, " DETAILS
                       ") VALUES (?, ?, 0, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
    [ST_MARK_READ] = "SELECT state, fingerprint, attempts, token, lease_until_ms, first_ms, at_ms "
                     "FROM semel_marker WHERE inbox = ? AND key = ?",
    [ST_MARK_TAKE_OVER] =
        "UPDATE semel_marker SET state = 0, " FIRST ", at_ms = ?, fingerprint = ?, " SET_DETAILS
        ", attempts = NULL, token = NULL, lease_until_ms = NULL, error = NULL "
        "WHERE inbox = ? AND key = ? AND state = 1",
    [ST_MARK_OPEN] = "INSERT INTO semel_marker (inbox, key, state, at_ms, fingerprint, " DETAILS
                     ", attempts, token, lease_until_ms) "
                     "VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?)",
    [ST_MARK_REOPEN] = "UPDATE semel_marker SET " FIRST ", at_ms = ?, fingerprint = ?, " SET_DETAILS
                       ", attempts = ?, "
                       "token = ?, lease_until_ms = ? WHERE inbox = ? AND key = ? AND state = 1",
    [ST_MARK_FINISH] =
        "UPDATE semel_marker SET state = 0, at_ms = ?, attempts = NULL, token = NULL, "
        "lease_until_ms = NULL, error = NULL "
        "WHERE inbox = ? AND key = ? AND state = 1 AND token = ? AND lease_until_ms > ?",
    [ST_MARK_RENEW] =
        "UPDATE semel_marker SET lease_until_ms = ? "
        "WHERE inbox = ? AND key = ? AND state = 1 AND token = ? AND lease_until_ms > ?",
    [ST_MARK_LET_GO] =
        "UPDATE semel_marker SET state = ?, " FIRST ", at_ms = ?, error = ?, attempts = ?, "
        "token = NULL, "
        "lease_until_ms = NULL "
        "WHERE inbox = ? AND key = ? AND state = 1 AND token = ? AND lease_until_ms > ?",
    [ST_MARK_STATE] =
        "INSERT INTO semel_marker (inbox, key, state, at_ms, fingerprint, " DETAILS
        ", attempts, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
        "state = excluded.state, " FIRST ", at_ms = excluded.at_ms, "
        "attempts = excluded.attempts, error = excluded.error, token = NULL, "
        "lease_until_ms = NULL, result = NULL",
    [ST_MARK_DELETE] = "DELETE FROM semel_marker WHERE inbox = ? AND key = ?",
    [ST_MARK_LETTER_GONE] = "UPDATE semel_marker SET at_ms = ?, token = 0, lease_until_ms = 0 "
                            "WHERE inbox = ? AND key = ? AND state = 2",
    [ST_RESULT_SET] =
        "UPDATE semel_marker SET result = ? WHERE inbox = ? AND key = ? AND state = 0",
    [ST_RESULT_GET] = "SELECT result FROM semel_marker WHERE inbox = ? AND key = ? AND state = 0",
    [ST_SWEEP_LOOK] =
        "SELECT key, at_ms < ? AND NOT (" LIVE ") AND NOT (" LETTER ") FROM semel_marker "
        "WHERE inbox = ? AND key > ? ORDER BY key LIMIT ?",
    [ST_SWEEP_DELETE] = "DELETE FROM semel_marker WHERE inbox = ? AND key = ? AND at_ms < ? "
                        "AND NOT (" LIVE ") AND NOT (" LETTER ") RETURNING at_ms",

    [ST_OUTBOX_PUT] =
        "INSERT INTO semel_outbox (outbox, wake_ms, attempts, refusals, "
        "captured_ms, " MESSAGE_COLUMNS ") VALUES (?, ?, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [ST_OUTBOX_FREE] = "SELECT seq, attempts, refusals, " MESSAGE_COLUMNS " FROM semel_outbox "
                       "WHERE outbox = ? AND grp IS NULL AND wake_ms <= ? ORDER BY wake_ms, seq",
    [ST_OUTBOX_NEXT_GROUP] =
        "SELECT grp FROM semel_outbox "
        "WHERE outbox = ? AND parked = 0 AND grp IS NOT NULL AND grp > ? AND typeof(grp) = 'text' "
        "AND length(CAST(grp AS BLOB)) <= 1024 ORDER BY grp LIMIT 1",
    [ST_OUTBOX_OF_GROUP] = "SELECT " GROUP_COLUMNS " FROM semel_outbox "
                           "WHERE outbox = ?1 AND parked = 0 AND grp = ?2 UNION ALL "
                           "SELECT " GROUP_COLUMNS " FROM semel_outbox "
                           "WHERE outbox = ?1 AND parked = 1 AND grp = ?2 ORDER BY seq",
    [ST_OUTBOX_LEASE] =
        "UPDATE semel_outbox SET token = ?, wake_ms = ?, attempts = attempts + 1 WHERE seq = ?",
    [ST_OUTBOX_REMOVE] = "DELETE FROM semel_outbox WHERE seq = ? AND outbox = ? AND token = ?",
    [ST_OUTBOX_RETRY] =
        "UPDATE semel_outbox SET token = NULL, wake_ms = ?, refusals = refusals + ?, "
        "error = coalesce(?, error), parked = grp IS NOT NULL WHERE seq = ? AND outbox = ? AND "
        "token = ?",
    [ST_OUTBOX_RELEASE] =
        "UPDATE semel_outbox SET token = NULL, wake_ms = coalesce(?, captured_ms), "
        "attempts = attempts - 1 WHERE seq = ? AND outbox = ? AND token = ?",
    [ST_OUTBOX_EXTEND] =
        "UPDATE semel_outbox SET wake_ms = ? WHERE seq = ? AND outbox = ? AND token = ?",
    [ST_OUTBOX_COUNT] =
        "SELECT (SELECT count(*) FROM semel_outbox WHERE grp IS NULL AND " NO_QUEUE ") + "
        "(SELECT count(*) FROM semel_outbox WHERE grp IS NOT NULL AND " NO_QUEUE ")",
    [ST_OUTBOX_OLDEST] =
        "SELECT captured_ms FROM semel_outbox WHERE " NO_QUEUE " ORDER BY seq LIMIT 1",

    [ST_GROUP_DUE] =
        "SELECT grp FROM semel_group WHERE outbox = ? AND due_ms <= ? ORDER BY due_ms LIMIT ?",
    [ST_GROUP_PARK] =
        "UPDATE semel_outbox SET parked = 1 WHERE seq IN (SELECT seq FROM semel_outbox "
        "WHERE outbox = ? AND parked = 0 AND grp = ? ORDER BY seq LIMIT ?)",
    [ST_GROUP_SET] = "INSERT INTO semel_group (due_ms, outbox, grp) VALUES (?, ?, ?) "
                     "ON CONFLICT DO UPDATE SET due_ms = excluded.due_ms",
    [ST_GROUP_MOVE] = "UPDATE semel_group SET due_ms = ? WHERE outbox = ? AND grp = ?",
    [ST_GROUP_NOTE] = "INSERT INTO semel_group (outbox, grp, due_ms) SELECT outbox, grp, wake_ms "
                      "FROM semel_outbox WHERE seq = ? AND grp IS NOT NULL "
                      "ON CONFLICT DO UPDATE SET due_ms = min(due_ms, excluded.due_ms)",
    [ST_GROUP_LEAVE] = "DELETE FROM semel_group WHERE outbox = ?1 AND grp = ?2 AND NOT EXISTS "
                       "(SELECT 1 FROM semel_outbox WHERE outbox = ?1 AND parked = 1 AND grp = ?2)",

    [ST_STATS_OUTBOX] =
        "SELECT count(*), coalesce(min(captured_ms), 0), coalesce(sum(wake_ms <= ?2), 0), "
        "coalesce(min(iif(wake_ms <= ?2, wake_ms, NULL)), 0) FROM semel_outbox "
        "WHERE outbox = ?1 OR (?1 = 0 AND " NO_QUEUE ")",
    [ST_STATS_DEAD] = "SELECT count(*) FROM semel_dead WHERE ?1 = 0 OR (origin = ?1 AND name = ?2)",
    [ST_STATS_CLAIMS] = "SELECT count(*), coalesce(sum(state = 1 AND " LIVE "), 0) "
                        "FROM semel_marker WHERE inbox = ?",
    [ST_LIST_MARKERS] = "SELECT " MARKER_COLUMNS " WHERE m.inbox = ? AND m.key > ? "
                        "ORDER BY m.key LIMIT ?",
    [ST_LIST_MARKER] = "SELECT " MARKER_COLUMNS " WHERE m.inbox = ? AND m.key = ?",
    [ST_LIST_OUTGOING] =
        "SELECT " OUTGOING_COLUMNS ", CASE WHEN ?1 THEN headers END, CASE WHEN ?1 THEN body END "
        "FROM semel_outbox WHERE outbox = ?2 AND seq > ?3 ORDER BY seq LIMIT ?4",
    [ST_LIST_SENT] = "SELECT " SENT_COLUMNS " AND sent_ms >= ?2 "
                     "AND (sent_ms > ?2 OR seq > ?3) ORDER BY sent_ms, seq LIMIT ?4",
    [ST_LIST_SENT_BACK] =
        "SELECT " SENT_COLUMNS " AND sent_ms <= ?2 AND (sent_ms < ?2 OR seq < ?3) "
        "ORDER BY sent_ms DESC, seq DESC LIMIT ?4",
    /* A number is given again when the highest row has left: in one millisecond, too. */
    [ST_SENT_KEEP] =
        "INSERT INTO semel_sent (outbox, sent_ms, seq, captured_ms, attempts, grp, id, type, "
        "topic, "
        "correlation_id) SELECT outbox, coalesce((SELECT max(s.sent_ms) + 1 FROM semel_sent s "
        "WHERE s.outbox = ?2 AND s.sent_ms >= ?1 AND s.seq = ?3), ?1), seq, captured_ms, attempts, "
        "grp, id, type, topic, correlation_id FROM semel_outbox "
        "WHERE outbox = ?2 AND seq = ?3 AND token = ?4",
    [ST_SENT_SWEEP] = "DELETE FROM semel_sent WHERE (outbox, sent_ms, seq) IN (SELECT outbox, "
                      "sent_ms, seq FROM semel_sent WHERE outbox = ? AND sent_ms < ? "
                      "ORDER BY sent_ms, seq LIMIT ?)",

    [ST_DEAD_PUT] =
        "INSERT INTO semel_dead (origin, name, key, attempts, at_ms, error, first_ms, "
        "cause, " MESSAGE_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET attempts = excluded.attempts, at_ms = excluded.at_ms, "
        "first_ms = min(coalesce(first_ms, excluded.first_ms), excluded.first_ms), error = "
        "excluded.error, cause = excluded.cause, grp = excluded.grp, id = excluded.id, "
        "source = excluded.source, type = excluded.type, topic = excluded.topic, "
        "correlation_id = excluded.correlation_id, content_type = excluded.content_type, "
        "time_ms = excluded.time_ms, headers = excluded.headers, body = excluded.body",
    [ST_DEAD_DROP] = "DELETE FROM semel_dead WHERE dead_id = ?",
    [ST_DEAD_LIST] = "SELECT " DEAD_COLUMNS " WHERE " DEAD_FILTER " ORDER BY dead_id LIMIT ?7",
    [ST_DEAD_LIST_KEY] =
        "SELECT " DEAD_COLUMNS " WHERE origin = ?2 AND name = ?3 AND key = ?9 AND " DEAD_FILTER
        " ORDER BY dead_id LIMIT ?7",
    [ST_DEAD_LIST_CAUSE] = "SELECT " DEAD_COLUMNS " WHERE cause = ?10 AND " DEAD_FILTER
                           " UNION ALL SELECT " DEAD_COLUMNS " WHERE cause IS NULL AND " DEAD_FILTER
                           " ORDER BY dead_id LIMIT ?7",
    [ST_DEAD_LIST_RETRY] =
        "SELECT " DEAD_COLUMNS " WHERE retry = 1 AND " DEAD_FILTER " ORDER BY dead_id LIMIT ?7",
    [ST_DEAD_LIST_NAME] = "SELECT " DEAD_COLUMNS " WHERE origin = ?2 AND name = ?3 AND " DEAD_FILTER
                          " ORDER BY dead_id LIMIT ?7",
    /* 1: asked for, whatever it was before; 3: failed, with another error, and so another cause */
    [ST_DEAD_RETRY] = "UPDATE semel_dead SET retry = ?3, error = iif(?3 = 3, ?4, error), "
                      "attempts = attempts + (?3 = 3), cause = iif(?3 = 3, NULL, cause) "
                      "WHERE dead_id = ?1 AND (retry = ?2 OR ?3 = 1)",

    [ST_NAMES] = "SELECT name FROM semel_scope WHERE kind = ? AND name > ? ORDER BY name LIMIT ?",
    [ST_OUTBOX_WAKE] = "UPDATE semel_outbox SET wake_ms = min(wake_ms, ?1) "
                       "WHERE seq = ?2 AND outbox = ?3 AND (token IS NULL OR wake_ms <= ?1)",
    [ST_OUTBOX_DISCARD] = "DELETE FROM semel_outbox "
                          "WHERE seq = ?2 AND outbox = ?3 AND (token IS NULL OR wake_ms <= ?1)",
    [ST_OUTBOX_READ] = "SELECT " OUTGOING_COLUMNS ", headers, body "
                       "FROM semel_outbox WHERE outbox = ? AND seq = ?",
    /* Before the row changes or leaves: its group is visited by time if it has parked rows. */
    [ST_GROUP_HASTEN] = "UPDATE semel_group SET due_ms = min(due_ms, ?1) WHERE (outbox, grp) IN "
                        "(SELECT outbox, grp FROM semel_outbox WHERE seq = ?2 AND outbox = ?3)",
    [ST_AUDIT_ADD] = "INSERT INTO semel_audit (at_ms, who, what, result, count) "
                     "VALUES (?, ?, ?, ?, ?)",
    [ST_AUDIT_WRITE] = "UPDATE semel_audit SET result = ?, count = ? WHERE id = ?",
    [ST_AUDIT_LIST] = "SELECT id, at_ms, who, what, result, count FROM semel_audit "
                      "WHERE id > ?1 AND at_ms >= ?2 AND (?3 = 0 OR at_ms < ?3) "
                      "AND (?4 IS NULL OR who = ?4) ORDER BY id LIMIT ?5",
    [ST_PROCESS_PUT] = "INSERT OR REPLACE INTO semel_process (id, host, pid, started_ms, seen_ms, "
                       "socket, data) VALUES (?, ?, ?, ?, ?, ?, ?)",
    [ST_PROCESS_REMOVE] = "DELETE FROM semel_process WHERE id = ? OR seen_ms < ?",
    [ST_PROCESS_LIST] = "SELECT id, host, pid, started_ms, seen_ms, socket, data "
                        "FROM semel_process ORDER BY id",

    [ST_HISTORY_PUT] = "INSERT INTO semel_history (" HISTORY_HEAD ", headers, body) VALUES "
                       "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
                       "?, ?)",
    [ST_HISTORY_LIST] = "SELECT " HISTORY_COLUMNS " WHERE " HISTORY_WANTED,
    [ST_HISTORY_LIST_NAME] = "SELECT " HISTORY_COLUMNS
                             " INDEXED BY semel_history_name WHERE name = ?3 AND " HISTORY_WANTED,
    [ST_HISTORY_LIST_KEY] = "SELECT " HISTORY_COLUMNS
                            " INDEXED BY semel_history_key WHERE key = ?4 AND " HISTORY_WANTED,
    [ST_HISTORY_TRIM] =
        "DELETE FROM semel_history WHERE id IN (SELECT id FROM (SELECT id, at_ms FROM "
        "semel_history ORDER BY id LIMIT ?3) WHERE id <= (SELECT max(id) FROM semel_history) - ?1 "
        "OR at_ms < ?2)",
    [ST_HISTORY_BOUNDS] =
        "SELECT (SELECT min(id) FROM semel_history), (SELECT max(id) FROM semel_history), "
        "(SELECT at_ms FROM semel_history ORDER BY id LIMIT 1)",
};

/* --- connections ------------------------------------------------------------------------------ */

semel_status sqlite_connection_exec(sqlite_connection *on, const char *sql, const char *doing,
                                    semel_error *err)
{
    int code = sqlite3_exec(on->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? SEMEL_OK : sqlite_connection_fail(on, code, doing, err);
}

void sqlite_connection_finalize(sqlite_connection *on)
{
    for (int i = 0; i < ST_COUNT; i++) {
        sqlite3_finalize(on->prepared[i]);
        on->prepared[i] = NULL;
    }
    for (int i = 0; i < QUEUED_KEPT; i++) {
        sqlite3_finalize(on->queued[i].stmt);
        on->queued[i].stmt = NULL;
    }
}

void sqlite_connection_reset_reads(sqlite_connection *on)
{
    for (sqlite3_stmt *at = sqlite3_next_stmt(on->db, NULL); at; at = sqlite3_next_stmt(on->db, at))
        if (sqlite3_stmt_busy(at))
            sqlite3_reset(at);
}

/* --- queries ---------------------------------------------------------------------------------- */

/* A statement of a unit whose transaction is over would commit by itself: it is not run. */
sqlite_query sqlite_query_start(sqlite_connection *on, sqlite_statement which)
{
    sqlite_query q = {.on = on, .stmt = on->prepared[which], .next = 1};
    if (on->in_unit && sqlite3_get_autocommit(on->db)) {
        q.code = SQLITE_ABORT_ROLLBACK;
    } else if (!q.stmt) {
        q.code =
            sqlite3_prepare_v3(on->db, texts[which], -1, SQLITE_PREPARE_PERSISTENT, &q.stmt, NULL);
        on->prepared[which] = q.stmt;
    }
    return q;
}

static void note_code(sqlite_query *q, int code)
{
    if (!q->code && code != SQLITE_OK)
        q->code = code;
}

void sqlite_query_int(sqlite_query *q, int64_t value)
{
    if (!q->code)
        note_code(q, sqlite3_bind_int64(q->stmt, q->next++, value));
}

void sqlite_query_int_or_null(sqlite_query *q, int64_t value)
{
    if (value)
        sqlite_query_int(q, value);
    else if (!q->code)
        note_code(q, sqlite3_bind_null(q->stmt, q->next++));
}

void sqlite_query_bytes(sqlite_query *q, semel_bytes value)
{
    if (!q->code)
        note_code(q, value.data ? sqlite3_bind_blob64(q->stmt, q->next++, value.data, value.len,
                                                      SQLITE_STATIC)
                                : sqlite3_bind_null(q->stmt, q->next++));
}

void sqlite_query_text(sqlite_query *q, const char *value)
{
    if (!q->code)
        note_code(q, sqlite3_bind_text(q->stmt, q->next++, value, -1, SQLITE_STATIC));
}

void sqlite_query_end(sqlite_query *q)
{
    if (q->stmt)
        sqlite3_reset(q->stmt);
}

static semel_status fail_query(const sqlite_query *q, int code, const char *doing, semel_error *err)
{
    return code == SQLITE_ABORT_ROLLBACK ? sqlite_connection_ended(q->on, err)
                                         : sqlite_connection_fail(q->on, code, doing, err);
}

int sqlite_query_row(sqlite_query *q, const char *doing, semel_error *err)
{
    int code = q->code ? q->code : sqlite3_step(q->stmt);
    if (code == SQLITE_ROW)
        return 1;
    if (code != SQLITE_DONE)
        q->status = fail_query(q, code, doing, err);
    sqlite_query_end(q);
    return code == SQLITE_DONE ? 0 : -1;
}

semel_status sqlite_query_run(sqlite_query *q, int *changed, const char *doing, semel_error *err)
{
    int code = q->code ? q->code : sqlite3_step(q->stmt);
    semel_status status =
        code == SQLITE_DONE || code == SQLITE_ROW ? SEMEL_OK : fail_query(q, code, doing, err);
    sqlite_query_end(q);
    if (!status && changed)
        *changed = sqlite3_changes(q->on->db);
    return status;
}

semel_status sqlite_connection_run(sqlite_connection *on, sqlite_statement which, const char *doing,
                                   semel_error *err)
{
    sqlite_query q = sqlite_query_start(on, which);
    return sqlite_query_run(&q, NULL, doing, err);
}

int64_t sqlite_row_int(const sqlite_query *q, int column)
{
    return sqlite3_column_int64(q->stmt, column);
}

int sqlite_row_is_null(const sqlite_query *q, int column)
{
    return sqlite3_column_type(q->stmt, column) == SQLITE_NULL;
}

semel_bytes sqlite_row_bytes(const sqlite_query *q, int column)
{
    const void *data = sqlite3_column_blob(q->stmt, column);
    size_t len = (size_t)sqlite3_column_bytes(q->stmt, column);
    if (!data && !sqlite_row_is_null(q, column))
        data = "";
    return (semel_bytes){data, len};
}

const char *sqlite_row_text(const sqlite_query *q, int column)
{
    return (const char *)sqlite3_column_text(q->stmt, column);
}

int sqlite_row_lost(const sqlite_query *q)
{
    return sqlite3_errcode(q->on->db) == SQLITE_NOMEM;
}
