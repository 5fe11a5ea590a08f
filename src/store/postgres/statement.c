/* All SQL of the store, in one table; query.c sends it.
 *
 * Parameters stand in the order of the numbers. Where a statement must change a row or else nothing
 * of what follows may happen, it divides by the number of rows: a division by zero stops the
 * pipeline before the COMMIT that is already on its way. */
#include "store/postgres/connection.h"

#include "store/sql/schema.h"
#include "store/sql/sql.h"

#include <stdio.h>

/* The server's clock: at this very moment (after a wait, too), and at the beginning of the
 * statement, which an index can be searched by. And the moment at which the transaction began, by
 * which it is known again. */
#define NOW     "floor(date_part('epoch', clock_timestamp()) * 1000)::bigint"
#define STARTED "floor(date_part('epoch', statement_timestamp()) * 1000)::bigint"
#define BEGAN   "transaction_timestamp()"

#define MARKER "{}.semel_marker"
#define OUTBOX "{}.semel_outbox"
#define GROUP  "{}.semel_group"
#define NOTE   "{}.semel_note"

#define THIS_NOTE NOTE " WHERE inbox = $1 AND note = $2"
#define NOTE_COLUMNS \
    "number, text, " NOW ", (current_setting('transaction_isolation') = 'read committed')::int"

/* A claim is live while it has a token and its lease has not ended. */
#define LIVE(table) "(" table "token IS NOT NULL AND " table "lease_until_ms > " NOW ")"
#define LOOK        "state, fingerprint, attempts, " LIVE("") ", lease_until_ms, first_ms, at_ms"
#define OURS        "inbox = $1 AND key = $2 AND state = 1 AND token = $3 AND lease_until_ms > " NOW

/* A dead row stays as long as its letter. When the letter is discarded, the row gets the token
 * 0. */
#define LETTER "(state = 2 AND token IS NULL)"

/* What a list shows of a marker; its result only if that is asked for. */
#define MARKER_COLUMNS                                                                             \
    "m.key, m.state, m.attempts, " LIVE("m.") ", m.lease_until_ms, coalesce(m.first_ms, "          \
                                              "m.at_ms), m.at_ms, m.error, m.result IS NOT NULL, " \
                                              "CASE WHEN $2 = 1 THEN m.result END, "               \
                                              "t.name, s.name, m.received_ms FROM " MARKER         \
                                              " m LEFT JOIN {}.semel_scope t ON t.id = m.type "    \
                                              "LEFT JOIN {}.semel_scope s ON s.id = m.source"

#define SENT "{}.semel_sent"
#define SENT_COLUMNS                                                                       \
    "seq, attempts, captured_ms, sent_ms, grp, id, type, topic, correlation_id FROM " SENT \
    " WHERE outbox = $1"

/* When the first attempt began, for a row whose at_ms is about to change. */
#define FIRST(table) "first_ms = coalesce(" table "first_ms, " table "at_ms)"

#define MESSAGE_HEAD    "grp, id, source, type, topic, correlation_id, content_type, time_ms"
#define MESSAGE_COLUMNS MESSAGE_HEAD ", headers, body"
#define TAKEN_COLUMNS                                                                           \
    "o.seq, o.attempts, o.refusals, o.grp, o.id, o.source, o.type, o.topic, o.correlation_id, " \
    "o.content_type, o.time_ms, o.headers, o.body"

/* What a list shows of a dead letter, and which: all lists have the same parameters. Each that can
 * be searched by an index says so once more, because a plan that serves all values of a parameter
 * does not. The conditions are one for the planner: of many that it cannot estimate it concludes
 * that hardly a letter remains, and sorts all that the index has. A letter without a cause passes
 * every filter. */
#define DEAD "{}.semel_dead"
#define DEAD_COLUMNS                                                               \
    "SELECT dead_id, origin, name, key, attempts, at_ms, error, first_ms, cause, " \
    "retry, " MESSAGE_HEAD                                                         \
    ", CASE WHEN $8 = 0 THEN headers END, CASE WHEN $8 = 0 THEN body END FROM " DEAD
#define DEAD_WANTED                                                            \
    "dead_id > $1 AND dead_id <= $2 AND CASE WHEN ($3 = 0 OR origin = $3) "    \
    "AND ($4::text IS NULL OR name = $4) AND ($5::text IS NULL OR type = $5) " \
    "AND at_ms >= $6 AND ($7 = 0 OR at_ms < $7) "                              \
    "AND ($9 = 0 OR cause = $9 OR cause IS NULL) AND ($10 = 0 OR retry = 1) "  \
    "AND ($11::bytea IS NULL OR key = $11) THEN true ELSE false END "
#define DEAD_PAGE "ORDER BY dead_id LIMIT $12"

/* The history, in the same way. The message's id has another name than in the other tables. */
#define HISTORY "{}.semel_history"
#define HISTORY_HEAD                                                                        \
    "at_ms, kind, outcome, refused, attempt, delivery, retry_ms, took_ns, letter, number, " \
    "body_len, kept, name, key, process, error, grp, message_id, source, type, topic, "     \
    "correlation_id, content_type, time_ms"
#define HISTORY_COLUMNS                                                 \
    "SELECT id, " HISTORY_HEAD ", CASE WHEN $10 = 1 THEN headers END, " \
    "CASE WHEN $10 = 1 THEN body END FROM " HISTORY
#define HISTORY_WANTED                                                                 \
    "id < $1 AND CASE WHEN ($2 = 0 OR kind = $2) AND ($3::text IS NULL OR name = $3) " \
    "AND ($4::bytea IS NULL OR key = $4) AND ($5 = 0 OR outcome = $5) "                \
    "AND ($6::text IS NULL OR type = $6) AND at_ms >= $7 AND ($8 = 0 OR at_ms < $8) "  \
    "THEN true ELSE false END ORDER BY id DESC LIMIT $9"

/* Only the relay that has a group's lock leases from it, parks it or notes when it is due. */
#define GROUP_NUMBER "hashtextextended(grp, '" OUTBOX "'::regclass::oid::bigint << 24 | $1)"
#define LOCK_GROUP   "pg_try_advisory_xact_lock(" GROUP_NUMBER ")"

/* Of messages that an operator names, those that no live lease holds, locked in their order. */
#define UNLEASED                                                                         \
    "WITH mine AS MATERIALIZED (SELECT seq FROM " OUTBOX " WHERE outbox = $1 AND seq = " \
    "ANY ($2::bigint[]) AND (token IS NULL OR wake_ms <= " NOW ") ORDER BY seq FOR UPDATE) "

/* The first rows of a group: some are parked, some are not. Where no group is known, none is
 * parked. */
#define LANE(group, which, limit)                                                                  \
    "(SELECT seq, wake_ms, token FROM " OUTBOX " WHERE outbox = $1 AND grp = " group " AND " which \
    " ORDER BY seq LIMIT " limit ")"
#define PARKS \
    "parked AND (SELECT grp FROM " GROUP " WHERE outbox = $1 ORDER BY grp LIMIT 1) IS NOT NULL"
#define FIRST_ROWS(group, limit)  \
    "(" LANE(group, "NOT parked", \
             limit) " UNION ALL " LANE(group, PARKS, limit) " ORDER BY seq LIMIT " limit ")"

static const char *const texts[ST_COUNT] = {
    [ST_BEGIN] = "BEGIN",
    [ST_BEGIN_ASKED] = "BEGIN", /* pg_statements_fill() adds the isolation level */
    [ST_BEGIN_RELAXED] = "BEGIN ISOLATION LEVEL READ COMMITTED",
    [ST_RELAX] = "SELECT set_config('synchronous_commit', 'off', true), "
                 "set_config('idle_in_transaction_session_timeout', '60000', true), "
                 "set_config('lock_timeout', $1, true)",
    [ST_COMMIT] = "COMMIT",
    [ST_ROLLBACK] = "ROLLBACK",
    [ST_SAVEPOINT] = "SAVEPOINT semel_unit",
    [ST_RELEASE] = "RELEASE semel_unit",
    [ST_ROLLBACK_TO] = "ROLLBACK TO semel_unit",
    [ST_MARK_SAVEPOINT] = "SAVEPOINT semel_mark",
    [ST_MARK_RELEASE] = "RELEASE semel_mark",
    [ST_MARK_ROLLBACK_TO] = "ROLLBACK TO semel_mark",
    [ST_BEGAN] = "SELECT " BEGAN ", pg_current_xact_id_if_assigned()",
    [ST_COMMITTED] = "SELECT pg_xact_status($1::text::xid8) IS DISTINCT FROM 'aborted'",
    [ST_GUARD] = "SELECT 1 / (" BEGAN " = $1)::int",
    [ST_STOP] = "SELECT 1 / 0 WHERE $1 = 0",
    [ST_WRITTEN] = "SELECT pg_current_xact_id_if_assigned() IS NOT NULL",
    [ST_PATIENCE] = "SELECT set_config('lock_timeout', $1, true)",
    [ST_PATIENCE_WHOLE] = "SELECT set_config('statement_timeout', $1, true)",
    [ST_NOW] = "SELECT " NOW,
    [ST_SETTINGS] = "SELECT current_setting('fsync')::bool, "
                    "current_setting('synchronous_commit') <> 'off', "
                    "current_setting('statement_timeout'), current_setting('server_encoding'), "
                    "(SELECT setting::bigint FROM pg_settings WHERE name = 'lock_timeout'), "
                    "pg_backend_pid()",

    [ST_SCHEMA_THERE] = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1), "
                        "EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = "
                        "c.relnamespace WHERE nspname = $1 AND relname = 'semel_schema'), "
                        "(SELECT count(*) FROM pg_namespace n JOIN pg_class c ON c.relnamespace = "
                        "n.oid JOIN pg_attribute a ON a.attrelid = c.oid WHERE nspname = $1 AND "
                        "relname = 'semel_schema' AND attname IN "
                        "('version', 'name', 'applied_ms'))",
    [ST_SCHEMA_VERSIONS] = SQL_SCHEMA_VERSIONS("{}.semel_schema"),
    [ST_SCHEMA_RECORD] =
        "INSERT INTO {}.semel_schema (version, name, applied_ms) VALUES ($1, $2, " NOW ")",
    [ST_SCHEMA_NEEDS] = "UPDATE {}.semel_schema SET needs = $2 WHERE version = $1",
    [ST_SCHEMA_STEPS] = SQL_SCHEMA_STEPS("{}.semel_schema"),
    /* inspect.c has the columns by name. */
    [ST_INSPECT] =
        "SELECT current_setting('server_version'), quote_ident(current_user), current_database(), "
        "current_setting('fsync')::bool, current_setting('synchronous_commit'), "
        "current_setting('full_page_writes')::bool, "
        "current_setting('default_transaction_isolation'), pg_is_in_recovery(), "
        "current_setting('default_transaction_read_only')::bool, "
        "current_setting('max_connections')::int - "
        "current_setting('superuser_reserved_connections')::int, "
        "(SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user), " NOW ", "
        "coalesce(has_schema_privilege(to_regnamespace(quote_ident($1)), 'USAGE')::int, -1)",
    [ST_INSPECT_RIGHTS] =
        "SELECT w.place FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS w (name, wanted, "
        "place) JOIN pg_class c ON c.relname = w.name JOIN pg_namespace n ON n.oid = "
        "c.relnamespace AND n.nspname = $1 WHERE NOT has_table_privilege(c.oid, w.wanted) "
        "ORDER BY w.place",
    [ST_INSPECT_FUNCTIONS] =
        "SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE "
        "n.nspname = $1 AND NOT has_function_privilege(p.oid, 'EXECUTE')",
    [ST_IDENTITY] = "SELECT identity::text, current_setting('lock_timeout') FROM {}.semel_meta",
    [ST_SCOPE_FIND] = "SELECT id FROM {}.semel_scope WHERE kind = $1 AND name = $2",
    [ST_SCOPE_ADD] =
        "INSERT INTO {}.semel_scope (kind, name) VALUES ($1, $2) ON CONFLICT DO NOTHING",

    [ST_NOTE_READ] = "SELECT " NOTE_COLUMNS " FROM " THIS_NOTE,
    [ST_NOTE_READ_SHARED] = "SELECT " NOTE_COLUMNS " FROM " THIS_NOTE " FOR SHARE",
    [ST_NOTE_READ_EXCLUSIVE] = "SELECT " NOTE_COLUMNS " FROM " THIS_NOTE " FOR UPDATE",
    [ST_NOTE_ADD] = "INSERT INTO " NOTE " (inbox, note) VALUES ($1, $2) ON CONFLICT DO NOTHING",
    [ST_NOTE_WRITE] = "UPDATE " NOTE " SET number = $3, text = $4 WHERE inbox = $1 AND note = $2",

    [ST_MARK] =
        "INSERT INTO " MARKER " (inbox, key, state, at_ms, fingerprint, type, source, "
        "received_ms) VALUES ($1, $2, 0, " NOW
        ", $3, $4, $5, $6) ON CONFLICT DO NOTHING RETURNING " BEGAN ", pg_current_xact_id()",
    [ST_MARK_MANY] = "INSERT INTO " MARKER " (inbox, key, state, at_ms, fingerprint, type, source, "
                     "received_ms) SELECT $1, k, 0, (SELECT " NOW "), nullif(f, 0), nullif(t, 0), "
                     "nullif(s, 0), $6 FROM unnest($2::bytea[], $3::bigint[], $4::bigint[], "
                     "$5::bigint[]) AS m (k, f, t, s) "
                     "ON CONFLICT DO NOTHING RETURNING key",
    [ST_MARK_LOOK] = "SELECT " LOOK " FROM " MARKER " WHERE inbox = $1 AND key = $2",
    [ST_MARK_LOOK_MANY] =
        "SELECT key, " LOOK " FROM " MARKER " WHERE inbox = $1 AND key = ANY ($2::bytea[])",
    [ST_MARK_TAKE_OVER] = "UPDATE " MARKER " m SET state = 0, " FIRST(
        "m.") ", at_ms = " NOW ", fingerprint = $3, type = $4, source = $5, received_ms = $6, "
              "attempts = NULL, token = NULL, lease_until_ms = NULL, error = NULL "
              "FROM (SELECT inbox, key, attempts FROM " MARKER " WHERE inbox = $1 AND key = $2 "
              "AND state = 1 AND NOT " LIVE(
                  "") " FOR UPDATE) AS old "
                      "WHERE m.inbox = old.inbox AND m.key = old.key RETURNING old.attempts",
    [ST_MARK_ASSUME] =
        "INSERT INTO " MARKER " (inbox, key, state, at_ms, fingerprint, type, source, "
        "received_ms) VALUES ($1, $2, 0, " NOW ", $3, $4, $5, $6)",
    [ST_MARK_CLAIM] =
        "INSERT INTO " MARKER " AS m (inbox, key, state, at_ms, fingerprint, attempts, token, "
        "lease_until_ms, type, source, received_ms) "
        "VALUES ($1, $2, 1, " NOW ", $3, $4 + 1, $5, " NOW " + $6, $7, $8, $9) "
        "ON CONFLICT (inbox, key) DO UPDATE SET " FIRST(
            "m.") ", at_ms = " NOW ", "
                  "fingerprint = excluded.fingerprint, attempts = greatest(m.attempts, $4) + 1, "
                  "type = excluded.type, source = excluded.source, "
                  "received_ms = excluded.received_ms, "
                  "token = excluded.token, lease_until_ms = " NOW " + $6 "
                  "WHERE m.state = 1 AND NOT " LIVE("m.") " RETURNING attempts",
    [ST_MARK_FINISH] =
        "WITH done AS (UPDATE " MARKER " SET state = 0, at_ms = " NOW ", attempts = NULL, "
        "token = NULL, lease_until_ms = NULL, error = NULL WHERE " OURS " RETURNING 1) "
        "SELECT 1 / count(*)::int FROM done",
    [ST_MARK_RENEW] = "UPDATE " MARKER " SET lease_until_ms = " NOW " + $4 WHERE " OURS,
    [ST_MARK_LET_GO] = "UPDATE " MARKER " SET state = $4, " FIRST(
        "") ", at_ms = " NOW ", error = $5, "
            "attempts = $6, token = NULL, lease_until_ms = NULL WHERE " OURS,
    [ST_MARK_STATE] =
        "INSERT INTO " MARKER
        " AS m (inbox, key, state, at_ms, fingerprint, attempts, error, type, "
        "source, received_ms) VALUES ($1, $2, $3, " NOW
        ", $4, $5, $6, $8, $9, $10) ON CONFLICT (inbox, key) DO UPDATE SET "
        "state = excluded.state, " FIRST(
            "m.") ", at_ms = " NOW ", attempts = excluded.attempts, "
                  "error = excluded.error, token = NULL, lease_until_ms = NULL, result = NULL "
                  "WHERE (m.state = 1 AND NOT " LIVE("m.") ") OR (m.state = 0 AND $7 = 1)",
    [ST_MARK_DELETE] = "DELETE FROM " MARKER " WHERE inbox = $1 AND key = $2 AND NOT " LIVE(
        "") " AND ($3 = 0 OR state = 2)",
    [ST_MARK_DELETE_MANY] =
        "DELETE FROM " MARKER " WHERE inbox = $1 AND key = ANY ($2::bytea[]) AND state = 0",
    [ST_MARK_LETTER_GONE] = "UPDATE " MARKER " SET at_ms = " NOW ", token = 0, lease_until_ms = 0 "
                            "WHERE inbox = $1 AND key = $2 AND state = 2",
    /* By another session, in a mode that keeps rows from being written. */
    [ST_MARK_TABLE_LOCKED] =
        "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = '" MARKER "'::regclass AND granted "
        "AND locktype = 'relation' "
        "AND pid <> pg_backend_pid() AND mode IN ('ShareLock', 'ShareRowExclusiveLock', "
        "'ExclusiveLock', 'AccessExclusiveLock'))",
    [ST_RESULT_SET] = "WITH done AS (UPDATE " MARKER " SET result = $3 WHERE inbox = $1 "
                      "AND key = $2 AND state = 0 RETURNING 1) SELECT 1 / count(*)::int FROM done",
    [ST_RESULT_GET] = "SELECT result FROM " MARKER " WHERE inbox = $1 AND key = $2 AND state = 0",

    [ST_SWEEP_PATIENCE] = "SELECT set_config('idle_session_timeout', '30000', false)",
    [ST_SWEEP_LOCK] = "SELECT pg_try_advisory_lock('" MARKER "'::regclass::oid::bigint << 24 | $1)",
    [ST_SWEEP_UNLOCK] = "SELECT pg_advisory_unlock('" MARKER "'::regclass::oid::bigint << 24 | $1)",
    /* The note is locked before any marker is: the count is computed once, before the scan. The
     * rows come in the order of their places, whatever the plan: the next step begins behind the
     * last one. */
    [ST_SWEEP] = "WITH known AS (SELECT 1 FROM " NOTE " WHERE inbox = $1 AND note = 2 FOR UPDATE), "
                 "gone AS (DELETE FROM " MARKER " WHERE ctid = ANY (ARRAY("
                 "SELECT ctid FROM " MARKER " WHERE ctid > $3 AND ctid <= $4 AND inbox = $1 "
                 "AND at_ms < $2 AND NOT " LIVE(
                     "") " AND NOT " LETTER " AND (SELECT count(*) FROM known) >= 0 "
                         "ORDER BY ctid LIMIT $5 FOR UPDATE SKIP LOCKED)) "
                         "RETURNING ctid, at_ms), "
                         "noted AS (INSERT INTO " NOTE " AS n (inbox, note, number) "
                         "SELECT $1, 2, max(at_ms) FROM gone "
                         "HAVING count(*) > 0 ON CONFLICT (inbox, note) "
                         "DO UPDATE SET number = "
                         "greatest(n.number, excluded.number)) "
                         "SELECT count(*), max(ctid), pg_relation_size('" MARKER
                         "') / current_setting('block_size')::int FROM gone",

    [ST_OUTBOX_PUT] = "INSERT INTO " OUTBOX " (outbox, wake_ms, captured_ms, " MESSAGE_COLUMNS ") "
                      "SELECT $1, now + $2, now, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12 "
                      "FROM (SELECT " NOW " AS now) AS clock",
    [ST_OUTBOX_PUT_MANY] =
        "INSERT INTO " OUTBOX " (outbox, wake_ms, captured_ms, " MESSAGE_COLUMNS ") "
        "SELECT $1, now + delay, now, " MESSAGE_COLUMNS " FROM (SELECT " NOW " AS now) AS clock, "
        "unnest($2::bigint[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::text[], "
        "$8::bytea[], $9::text[], $10::bigint[], $11::bytea[], $12::bytea[]) WITH ORDINALITY "
        "AS m (delay, " MESSAGE_COLUMNS ", place) ORDER BY place",
    [ST_OUTBOX_FREE] =
        "WITH free AS (SELECT seq, wake_ms FROM " OUTBOX " WHERE outbox = $1 AND grp IS NULL "
        "AND wake_ms >= $5 AND wake_ms <= " STARTED " ORDER BY wake_ms, seq LIMIT $2 "
        "FOR UPDATE SKIP LOCKED) UPDATE " OUTBOX " o SET token = $3, wake_ms = " NOW " + $4, "
        "attempts = o.attempts + 1 FROM free WHERE o.seq = free.seq "
        "RETURNING " TAKEN_COLUMNS ", free.wake_ms",
    /* Those that are due by time, without those that another relay has; then the next ones by name,
     * each step from the first row of a group to the first row of the next. */
    [ST_OUTBOX_GROUPS] =
        "WITH RECURSIVE due AS MATERIALIZED (SELECT grp, due_ms FROM " GROUP " WHERE outbox = $1 "
        "AND due_ms >= $5 AND due_ms <= " STARTED " ORDER BY due_ms LIMIT 4 * $4), "
        "timed AS MATERIALIZED (SELECT grp, due_ms FROM due WHERE " LOCK_GROUP " LIMIT $4), "
        "names AS ((SELECT grp, seq, wake_ms, token FROM " OUTBOX " WHERE outbox = $1 "
        "AND NOT parked AND grp IS NOT NULL AND grp > $2 ORDER BY grp, seq LIMIT 1) UNION ALL "
        "SELECT n.* FROM names, LATERAL (SELECT o.grp, o.seq, o.wake_ms, o.token FROM " OUTBOX
        " o WHERE o.outbox = $1 AND NOT o.parked AND o.grp IS NOT NULL AND o.grp > names.grp "
        "ORDER BY o.grp, o.seq LIMIT 1) AS n), "
        "page AS MATERIALIZED (SELECT * FROM names LIMIT $3 - (SELECT count(*) FROM timed)), "
        "heads AS MATERIALIZED (SELECT p.grp, "
        "CASE WHEN k.seq < p.seq THEN k.wake_ms ELSE p.wake_ms END <= " STARTED " AS due, "
        "CASE WHEN k.seq < p.seq THEN k.token ELSE p.token END IS NULL AS unleased "
        "FROM page p LEFT JOIN LATERAL " LANE(
            "p.grp", PARKS, "1") " AS k ON true) "
                                 "SELECT grp, true, true, false, due_ms FROM timed UNION ALL "
                                 "SELECT grp, false, CASE WHEN (due OR unleased) AND NOT EXISTS "
                                 "(SELECT FROM timed t "
                                 "WHERE t.grp = heads.grp) THEN " LOCK_GROUP
                                 " ELSE false END, NOT due, 0 FROM heads",
    [ST_OUTBOX_OF_GROUPS] =
        "WITH pick AS (SELECT g.grp, r.seq FROM unnest($5::text[]) WITH ORDINALITY AS g (grp, "
        "turn), LATERAL (SELECT seq, bool_or(wake_ms > " STARTED ") OVER (ORDER BY seq) AS blocked "
        "FROM " FIRST_ROWS(
            "g.grp",
            "$6") " AS f) AS r "
                  "WHERE NOT blocked ORDER BY turn, seq LIMIT $2), "
                  "mine AS (SELECT seq FROM " OUTBOX
                  " WHERE seq = ANY (ARRAY(SELECT seq FROM pick)) "
                  "AND wake_ms <= " STARTED " FOR UPDATE SKIP LOCKED), "
                  "next AS (SELECT seq FROM (SELECT pick.seq, bool_or(mine.seq IS NULL) OVER "
                  "(PARTITION BY pick.grp ORDER BY pick.seq) AS held FROM pick LEFT JOIN mine "
                  "ON mine.seq = pick.seq) AS f WHERE NOT held) "
                  "UPDATE " OUTBOX " o SET token = $3, wake_ms = " NOW
                  " + $4, attempts = o.attempts + 1 "
                  "FROM next WHERE o.seq = next.seq RETURNING " TAKEN_COLUMNS,
    /* Of groups that are ours: what waits is parked; what was visited by time is visited again, or
     * known no more. */
    [ST_OUTBOX_PARK] =
        "WITH heads AS MATERIALIZED (SELECT g.grp, h.wake_ms, h.token, "
        "h.token IS NULL AND h.wake_ms > " STARTED " AS waits, EXISTS (SELECT FROM " OUTBOX
        " WHERE outbox = $1 AND grp = g.grp AND parked) AS parks "
        "FROM unnest($2::text[]) AS g (grp) LEFT JOIN LATERAL " FIRST_ROWS(
            "g.grp",
            "1") " AS h ON true), "
                 "chosen AS MATERIALIZED (SELECT r.seq FROM heads, LATERAL (SELECT seq FROM " OUTBOX
                 " WHERE outbox = $1 AND grp = heads.grp AND NOT parked ORDER BY seq LIMIT $5 "
                 "FOR UPDATE SKIP LOCKED) AS r WHERE waits), "
                 "parked AS (UPDATE " OUTBOX " SET parked = true WHERE seq = ANY (ARRAY(SELECT seq "
                 "FROM chosen))), "
                 "noted AS (INSERT INTO " GROUP " (outbox, grp, due_ms) SELECT $1, grp, wake_ms "
                 "FROM heads WHERE waits ORDER BY grp "
                 "ON CONFLICT (outbox, grp) DO UPDATE SET due_ms = excluded.due_ms), "
                 "moved AS (UPDATE " GROUP " s SET due_ms = CASE WHEN h.token = $3 THEN " STARTED
                 " ELSE least(h.wake_ms, " STARTED " + greatest(0, " STARTED " + $4 - h.wake_ms)) "
                 "END FROM heads h WHERE s.outbox = $1 AND s.grp = h.grp AND h.parks "
                 "AND h.token IS NOT NULL AND h.wake_ms > " STARTED ") "
                 "DELETE FROM " GROUP " s USING heads h WHERE s.outbox = $1 AND s.grp = h.grp "
                 "AND h.waits IS NOT TRUE AND NOT h.parks",
    [ST_OUTBOX_REMOVE] = "DELETE FROM " OUTBOX " o USING unnest($2::bigint[], $3::bigint[]) AS s "
                         "(seq, token) WHERE o.seq = s.seq AND o.outbox = $1 AND "
                         "o.token = s.token RETURNING o.seq",
    [ST_OUTBOX_REMOVE_SENT] =
        "WITH gone AS (DELETE FROM " OUTBOX " o USING unnest($2::bigint[], $3::bigint[], "
        "$4::bigint[]) AS s (seq, token, sent) WHERE o.seq = s.seq AND o.outbox = $1 "
        "AND o.token = s.token RETURNING s.sent, o.*), "
        "kept AS (INSERT INTO " SENT
        " (outbox, sent_ms, seq, captured_ms, attempts, grp, id, type, "
        "topic, correlation_id) SELECT outbox, (SELECT " NOW "), seq, captured_ms, attempts, grp, "
        "id, type, topic, correlation_id FROM gone WHERE sent = 1 ON CONFLICT DO NOTHING) "
        "SELECT seq FROM gone",
    /* A row that is the first of its group to wait is parked with it. Where semel_group knows the
     * group, it is due early enough for rows that are parked, and others are found by name; so the
     * statement does not wait for a relay that visits it. */
    [ST_OUTBOX_RETRY] =
        "WITH mine AS MATERIALIZED (SELECT o.seq, o.grp, o.parked, s.refused, s.why, " NOW
        " + s.delay "
        "AS wake_ms FROM " OUTBOX " o, unnest($2::bigint[], $3::bigint[], $4::bigint[], "
        "$5::bigint[], $6::text[]) AS s (seq, token, delay, refused, why) WHERE o.seq = s.seq AND "
        "o.outbox = $1 "
        "AND o.token = s.token FOR UPDATE OF o), "
        "noted AS (INSERT INTO " GROUP " (outbox, grp, due_ms) SELECT $1, grp, min(wake_ms) "
        "FROM mine WHERE grp IS NOT NULL AND NOT parked GROUP BY grp ORDER BY grp "
        "ON CONFLICT DO NOTHING RETURNING grp) "
        "UPDATE " OUTBOX " o SET token = NULL, wake_ms = mine.wake_ms, "
        "refusals = o.refusals + mine.refused, error = coalesce(mine.why, o.error), "
        "parked = o.parked OR coalesce(o.grp IN (SELECT grp FROM noted), false) "
        "FROM mine WHERE o.seq = mine.seq RETURNING o.seq",
    [ST_OUTBOX_RELEASE] =
        "UPDATE " OUTBOX " o SET token = NULL, attempts = o.attempts - 1, "
        "wake_ms = CASE s.delay WHEN 0 THEN o.captured_ms ELSE " NOW " + s.delay END "
        "FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS s (seq, token, delay) "
        "WHERE o.seq = s.seq AND o.outbox = $1 AND o.token = s.token RETURNING o.seq",
    [ST_OUTBOX_EXTEND] =
        "UPDATE " OUTBOX " o SET wake_ms = " NOW " + $4 "
        "FROM unnest($2::bigint[], $3::bigint[]) AS s (seq, token) "
        "WHERE o.seq = s.seq AND o.outbox = $1 AND o.token = s.token RETURNING o.seq",
    /* Rows of queues are in the same table, and are not unsent. */
    [ST_OUTBOX_UNSENT] = "SELECT count(*), coalesce(min(captured_ms), 0)::bigint FROM " OUTBOX
                         " WHERE outbox NOT IN (SELECT id FROM {}.semel_scope WHERE kind = 3)",
    /* Waits for the relays that are at these groups, in the order of the locks. */
    [ST_GROUPS_LOCK] = "SELECT pg_advisory_xact_lock(number) FROM (SELECT DISTINCT " GROUP_NUMBER
                       " AS number FROM " OUTBOX " WHERE outbox = $1 AND seq = ANY ($2::bigint[]) "
                       "AND grp IS NOT NULL ORDER BY number) AS g",
    [ST_OUTBOX_WAKE] = UNLEASED "UPDATE " OUTBOX " o SET wake_ms = least(o.wake_ms, " NOW ") "
                                "FROM mine WHERE o.seq = mine.seq RETURNING o.grp",
    [ST_OUTBOX_DROP] = UNLEASED "DELETE FROM " OUTBOX " o USING mine WHERE o.seq = mine.seq "
                                "RETURNING o.grp",
    [ST_GROUPS_DUE] = "UPDATE " GROUP " SET due_ms = " NOW " WHERE outbox = $1 "
                      "AND grp = ANY ($2::text[]) AND due_ms > " NOW,
    [ST_NOTIFY] = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, '')",

    [ST_STATS_OUTBOX] =
        "SELECT count(*), coalesce(min(captured_ms), 0)::bigint, "
        "count(*) FILTER (WHERE wake_ms <= " STARTED "), "
        "coalesce(min(wake_ms) FILTER (WHERE wake_ms <= " STARTED "), 0)::bigint FROM " OUTBOX
        " WHERE CASE WHEN $1 <> 0 THEN outbox = $1 ELSE "
        "outbox NOT IN (SELECT id FROM {}.semel_scope WHERE kind = 3) END",
    [ST_STATS_DEAD] =
        "SELECT count(*), " NOW " FROM " DEAD " WHERE $1 = 0 OR (origin = $1 AND name = $2)",
    [ST_STATS_MARKERS] = "SELECT count(*) FILTER (WHERE state = 1 AND " LIVE(
        "") "), count(*) FROM " MARKER " WHERE inbox = $1",
    [ST_LIST_MARKERS] = "SELECT " MARKER_COLUMNS " WHERE m.inbox = $1 AND m.key > $3 "
                        "ORDER BY m.key LIMIT $4",
    [ST_LIST_MARKER] = "SELECT " MARKER_COLUMNS " WHERE m.inbox = $1 AND m.key = $3",
    [ST_LIST_OUTGOING] =
        "SELECT seq, attempts, refusals, captured_ms, wake_ms, token IS NOT NULL AND wake_ms > " NOW
        ", error, " MESSAGE_HEAD
        ", CASE WHEN $2 = 1 THEN headers END, CASE WHEN $2 = 1 THEN body END "
        "FROM " OUTBOX " WHERE outbox = $1 AND seq > $3 ORDER BY seq LIMIT $4",
    [ST_LIST_SENT] = "SELECT " SENT_COLUMNS " AND sent_ms >= $2 AND (sent_ms > $2 OR seq > $3) "
                     "ORDER BY sent_ms, seq LIMIT $4",
    [ST_LIST_SENT_BACK] =
        "SELECT " SENT_COLUMNS " AND sent_ms <= $2 AND (sent_ms < $2 OR seq < $3) "
        "ORDER BY sent_ms DESC, seq DESC LIMIT $4",
    [ST_SENT_SWEEP] = "DELETE FROM " SENT " WHERE (outbox, sent_ms, seq) IN (SELECT outbox, "
                      "sent_ms, seq FROM " SENT " WHERE outbox = $1 AND sent_ms < $2 "
                      "ORDER BY sent_ms, seq LIMIT $3 FOR UPDATE SKIP LOCKED)",

    [ST_DEAD_PUT] =
        "INSERT INTO " DEAD " AS d (origin, name, key, attempts, at_ms, error, first_ms, "
        "cause, " MESSAGE_COLUMNS ") VALUES ($1, $2, $3, $4, " NOW ", $5, coalesce($6, " NOW
        "), $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) "
        "ON CONFLICT (origin, name, key) DO UPDATE SET attempts = excluded.attempts, "
        "first_ms = least(d.first_ms, excluded.first_ms), at_ms = excluded.at_ms, error = "
        "excluded.error, cause = excluded.cause, grp = excluded.grp, id = excluded.id, "
        "source = excluded.source, type = excluded.type, topic = excluded.topic, "
        "correlation_id = excluded.correlation_id, content_type = excluded.content_type, "
        "time_ms = excluded.time_ms, headers = excluded.headers, body = excluded.body",
    [ST_DEAD_DROP] = "DELETE FROM " DEAD " WHERE dead_id = $1",
    [ST_DEAD_LIST] = DEAD_COLUMNS " WHERE " DEAD_WANTED DEAD_PAGE,
    [ST_DEAD_LIST_ASKED] = DEAD_COLUMNS " WHERE retry = 1 AND " DEAD_WANTED DEAD_PAGE,
    /* That all without a cause have the same one is not known to the planner. */
    [ST_DEAD_LIST_CAUSE] =
        "(" DEAD_COLUMNS " WHERE cause = $9 AND " DEAD_WANTED DEAD_PAGE ") UNION ALL (" DEAD_COLUMNS
        " WHERE cause IS NULL AND " DEAD_WANTED "ORDER BY cause, dead_id LIMIT $12) " DEAD_PAGE,
    /* There are few names: each step goes from one to the next, and then to the letter. */
    [ST_DEAD_LIST_KEY] =
        "WITH RECURSIVE names AS ((SELECT origin AS o, name AS n FROM " DEAD
        " ORDER BY origin, name LIMIT 1) UNION ALL SELECT next.* FROM names, LATERAL "
        "(SELECT origin, name FROM " DEAD " WHERE (origin, name) > (names.o, names.n) "
        "ORDER BY origin, name LIMIT 1) AS next) " DEAD_COLUMNS
        " WHERE dead_id = ANY (ARRAY(SELECT (SELECT d.dead_id FROM " DEAD " d "
        "WHERE d.origin = o AND d.name = n AND d.key = $11) FROM names)) AND " DEAD_WANTED
            DEAD_PAGE,
    [ST_DEAD_LIST_NAME] =
        DEAD_COLUMNS " WHERE origin = $3 AND name = $4 AND " DEAD_WANTED DEAD_PAGE,
    [ST_DEAD_LIST_LETTER] =
        DEAD_COLUMNS " WHERE origin = $3 AND name = $4 AND key = $11 AND " DEAD_WANTED DEAD_PAGE,
    /* Being asked for (1) does not depend on what it was; having failed (3) changes the cause. */
    [ST_DEAD_SET_RETRY] = "UPDATE " DEAD " SET retry = $3, attempts = attempts + ($3 = 3)::int, "
                          "error = CASE WHEN $3 = 3 THEN $4::text ELSE error END, "
                          "cause = CASE WHEN $3 = 3 THEN NULL ELSE cause END "
                          "WHERE dead_id = $1 AND ($3 = 1 OR retry = $2)",

    [ST_NAMES] =
        "SELECT name FROM {}.semel_scope WHERE kind = $1 AND name > $2 ORDER BY name LIMIT $3",
    [ST_AUDIT_ADD] = "INSERT INTO {}.semel_audit (at_ms, who, what, result, count) "
                     "VALUES (" NOW ", $1, $2, $3, $4) RETURNING id, at_ms",
    [ST_AUDIT_SET] = "UPDATE {}.semel_audit SET result = $2, count = $3 WHERE id = $1",
    [ST_AUDIT_LIST] = "SELECT id, at_ms, who, what, result, count FROM {}.semel_audit "
                      "WHERE id > $1 AND at_ms >= $2 AND ($3 = 0 OR at_ms < $3) "
                      "AND ($4::text IS NULL OR who = $4) ORDER BY id LIMIT $5",
    [ST_PROCESS_PUT] =
        "INSERT INTO {}.semel_process (id, host, pid, started_ms, seen_ms, socket, data) "
        "VALUES ($1, $2, $3, $4, " NOW ", $5, $6) ON CONFLICT (id) DO UPDATE SET "
        "host = excluded.host, pid = excluded.pid, started_ms = excluded.started_ms, "
        "seen_ms = excluded.seen_ms, socket = excluded.socket, data = excluded.data",
    /* A row that is being written is not that of a process that has ended. */
    [ST_PROCESS_REMOVE] = "DELETE FROM {}.semel_process WHERE id = $1 OR id IN (SELECT id FROM "
                          "{}.semel_process WHERE seen_ms < $2 FOR UPDATE SKIP LOCKED)",
    [ST_PROCESS_LIST] = "SELECT id, host, pid, started_ms, seen_ms, socket, data "
                        "FROM {}.semel_process ORDER BY id",

    [ST_HISTORY_PUT] =
        "INSERT INTO " HISTORY " (" HISTORY_HEAD ", headers, body) SELECT " HISTORY_HEAD
        ", headers, body FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], "
        "$5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], "
        "$11::bigint[], $12::bigint[], $13::text[], $14::bytea[], $15::text[], $16::text[], "
        "$17::text[], $18::bytea[], $19::text[], $20::text[], $21::text[], $22::bytea[], "
        "$23::text[], $24::bigint[], $25::bytea[], $26::bytea[]) WITH ORDINALITY "
        "AS r (" HISTORY_HEAD ", headers, body, place) ORDER BY place",
    [ST_HISTORY_LIST] = HISTORY_COLUMNS " WHERE " HISTORY_WANTED,
    [ST_HISTORY_LIST_NAME] = HISTORY_COLUMNS " WHERE name = $3 AND " HISTORY_WANTED,
    [ST_HISTORY_LIST_KEY] = HISTORY_COLUMNS " WHERE key = $4 AND " HISTORY_WANTED,
    [ST_HISTORY_TRIM] =
        "WITH oldest AS MATERIALIZED (SELECT id, at_ms FROM " HISTORY " ORDER BY id LIMIT $3) "
        "DELETE FROM " HISTORY " WHERE id = ANY (ARRAY(SELECT id FROM oldest "
        "WHERE id <= (SELECT max(id) FROM " HISTORY ") - $1 OR at_ms < $2))",
    [ST_HISTORY_BOUNDS] = "SELECT (SELECT min(id) FROM " HISTORY "), (SELECT max(id) FROM " HISTORY
                          "), (SELECT at_ms FROM " HISTORY " ORDER BY id LIMIT 1)",
};

const char *const *pg_statements_fill(mem_arena *arena, const char *schema, const char *isolation)
{
    enum { BEGIN_TEXT = 64 };
    const char **filled = arena_alloc(arena, ST_COUNT * sizeof *filled);
    char *begin = arena_alloc(arena, BEGIN_TEXT);
    if (!filled || !begin)
        return NULL;
    for (int i = 0; i < ST_COUNT; i++)
        if (!(filled[i] = sql_fill(arena, texts[i], schema)))
            return NULL;
    if (isolation) {
        (void)snprintf(begin, BEGIN_TEXT, "BEGIN ISOLATION LEVEL %s", isolation);
        filled[ST_BEGIN_ASKED] = begin;
    }
    return filled;
}
