/* All SQL of the store, in one table.
 *
 * `{}name` is `database`.`prefix_name`. Each ? is a value, in the order in which they are written;
 * at a ~ the text may be repeated (maria_more). There is nothing in the texts that an SQL mode of
 * the server could read otherwise. */
#include "store/mariadb/mariadb.h"
#include "store/sql/sql.h"

/* The server's clock, at the start of the statement. By way of UTC, because the hour that daylight
 * saving repeats is two hours of local time. */
#define NOW "(TIMESTAMPDIFF(MICROSECOND, DATE'1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)"

/* A claim is live while it has a token and its lease has not ended. */
#define LIVE "(token IS NOT NULL AND COALESCE(lease_until_ms, 0) > " NOW ")"
#define FREE "(state = 1 AND NOT " LIVE ")"

/* The server scans a table of few rows instead of searching it, and a scan waits for every lock in
 * the table. */
#define BY_KEY "FORCE INDEX (PRIMARY)"
#define MARKER "`{}marker` " BY_KEY
#define OUTBOX "`{}outbox` " BY_KEY

/* Rows of queues are in the same table, and are not unsent. */
#define NO_QUEUE "outbox NOT IN (SELECT id FROM `{}scope` WHERE kind = 3)"

#define THIS_NOTE   "`{}note` " BY_KEY " WHERE inbox = ? AND note = ?"
#define THIS_MARKER "WHERE inbox = ? AND `key` = ?"
#define LOOK        "`key`, state, fingerprint, attempts, " LIVE ", lease_until_ms, first_ms, at_ms"

/* A dead row stays as long as its letter. When the letter is discarded, the row gets the token
 * 0. */
#define LETTER "(state = 2 AND token IS NULL)"

/* What a list shows of a marker; its result only if that is asked for. */
#define MARKER_COLUMNS                                                                            \
    "m.`key`, m.state, m.attempts, m.token IS NOT NULL AND m.lease_until_ms > " NOW               \
    ", m.lease_until_ms, COALESCE(m.first_ms, m.at_ms), m.at_ms, m.error, m.result IS NOT NULL, " \
    "IF(?, m.result, NULL), t.name, s.name, m.received_ms FROM `{}marker` m " BY_KEY              \
    " LEFT JOIN `{}scope` t ON t.id = m.type LEFT JOIN `{}scope` s ON s.id = m.source"

#define SENT_COLUMNS                                                                  \
    "seq, attempts, captured_ms, sent_ms, grp, id, type, topic, correlation_id FROM " \
    "`{}sent` " BY_KEY " WHERE outbox = ?"

/* Of the message; maria_mark_details() writes them. */
#define DETAILS     "fingerprint, type, source, received_ms"
#define SET_DETAILS "fingerprint = ?, type = ?, source = ?, received_ms = ?"

/* When the first attempt began. The server assigns from left to right, so at_ms comes later. */
#define FIRST "first_ms = COALESCE(first_ms, at_ms)"

/* When the row is there it is locked and not changed, and LAST_INSERT_ID says so: 0 means that it
 * was not there. A done row's own fingerprint comes with it, so that a duplicate is known without a
 * second look. */
#define OR_REPORT                                                                   \
    " ON DUPLICATE KEY UPDATE state = IF(LAST_INSERT_ID(IF(state, " MARK_THERE_TEXT \
    ", COALESCE(fingerprint, " MARK_DONE_TEXT "))), state, state)"

#define MESSAGE_HEAD    "grp, id, source, type, topic, correlation_id, content_type, time_ms"
#define MESSAGE_COLUMNS MESSAGE_HEAD ", headers, `body`"

/* What a list shows of a dead letter, and which; dead.c writes the values. A letter without a cause
 * passes every filter. The letters of one cause, or of none, come in the order of their numbers. */
#define DEAD_COLUMNS                                                                 \
    "SELECT dead_id, origin, name, `key`, attempts, at_ms, error, first_ms, cause, " \
    "retry, " MESSAGE_HEAD ", IF(?, NULL, headers), IF(?, NULL, `body`) FROM "
#define DEAD_WANTED                                                                       \
    "dead_id > ? AND dead_id <= ? AND (? = 0 OR origin = ?) AND (? IS NULL OR name = ?) " \
    "AND (? IS NULL OR type = ?) AND at_ms >= ? AND (? = 0 OR at_ms < ?) "                \
    "AND (? = 0 OR cause = ? OR cause IS NULL) AND (? = 0 OR retry = 1) "                 \
    "AND (? IS NULL OR `key` = ?) ORDER BY dead_id LIMIT ?"

/* The history, in the same way; history.c writes the values. The message's id has another name. */
#define HISTORY_HEAD                                                                        \
    "at_ms, kind, outcome, refused, attempt, delivery, retry_ms, took_ns, letter, number, " \
    "body_len, kept, name, `key`, process, error, grp, message_id, source, type, topic, "   \
    "correlation_id, content_type, time_ms"
#define HISTORY_COLUMNS \
    "SELECT id, " HISTORY_HEAD ", IF(?, headers, NULL), IF(?, `body`, NULL) FROM `{}history` "
#define HISTORY_WANTED                                                                       \
    "id < ? AND (? = 0 OR kind = ?) AND (? IS NULL OR name = ?) AND (? = 0 OR outcome = ?) " \
    "AND (? IS NULL OR type = ?) AND at_ms >= ? AND (? = 0 OR at_ms < ?) "                   \
    "ORDER BY id DESC LIMIT ?"

/* A letter may be asked for (1) in every state. */
#define THIS_RETRY "`{}dead` " BY_KEY " WHERE dead_id = ? AND (? = 1 OR retry = ?)"

#define MESSAGE_PATTERN "?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
#define MARK_PATTERN    "(?, ?, 0, " NOW ", ?, ?, ?, ?)"
#define PUT_PATTERN     "(?, " NOW " + ?, 0, 0, " NOW ", " MESSAGE_PATTERN ")"

#define GROUP_PATTERN   "(?, ?, ?)"
#define HISTORY_PATTERN "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, " MESSAGE_PATTERN ")"

const char maria_now[] = NOW;
const char maria_mark_pattern[] = MARK_PATTERN;
const char maria_group_pattern[] = GROUP_PATTERN;
const char maria_put_pattern[] = PUT_PATTERN;
const char maria_history_pattern[] = HISTORY_PATTERN;

static const char *const texts[ST_COUNT] = {
    [ST_START] = "START TRANSACTION",
    [ST_COMMIT] = "COMMIT",
    [ST_ROLLBACK] = "ROLLBACK",
    [ST_GUARD] = "SAVEPOINT semel_unit",
    [ST_GUARD_RELEASE] = "RELEASE SAVEPOINT semel_unit",
    [ST_JOIN] = "SAVEPOINT semel_join",
    [ST_JOIN_RELEASE] = "RELEASE SAVEPOINT semel_join",
    [ST_JOIN_ROLLBACK] = "ROLLBACK TO SAVEPOINT semel_join",
    [ST_ITEM] = "SAVEPOINT semel_item",
    [ST_ITEM_ROLLBACK] = "ROLLBACK TO SAVEPOINT semel_item",
    [ST_BATCH] = "SAVEPOINT semel_batch",
    [ST_BATCH_ROLLBACK] = "ROLLBACK TO SAVEPOINT semel_batch",
    /* Relaxed transactions are short. If their client is stopped in the middle, the server ends
     * them. */
    [ST_DURABLE] = "SET SESSION autocommit = 0, tx_isolation = ?, idle_transaction_timeout = ?",
    [ST_RELAXED] = "SET SESSION autocommit = 0, tx_isolation = ?, idle_transaction_timeout = 30",
    [ST_LOOKING] = "SET SESSION autocommit = 1",
    [ST_NOTHING] = "DO 0",
    [ST_NOW] = "SELECT " NOW,
    /* Fails, by a number that is too large, unless the statement before it changed so many rows. */
    [ST_EXPECT] = "SET @semel = 9223372036854775807 + (ROW_COUNT() <> ?)",
    [ST_WHERE] = "SELECT @semel_at",
    [ST_TOUCHED_CLEAR] = "SET @semel = x''",
    [ST_TOUCHED] = "SELECT @semel",

    [ST_SCHEMA_VERSIONS] = SQL_SCHEMA_VERSIONS("`{}schema`"),
    [ST_SCHEMA_STRANGERS] =
        "SELECT COUNT(*) FROM information_schema.tables "
        "WHERE table_schema = ? AND table_name IN (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [ST_SCHEMA_MAKE] = MARIA_MAKE_SCHEMA,
    [ST_SCHEMA_RECORD] =
        "INSERT INTO `{}schema` (version, name, applied_ms) VALUES (?, ?, " NOW ") "
        "ON DUPLICATE KEY UPDATE version = VALUES(version)", /* a script has just taken it */
    [ST_SCHEMA_NEEDS] = "UPDATE `{}schema` SET needs = ? WHERE version = ?",
    [ST_SCHEMA_STEPS] = SQL_SCHEMA_STEPS("`{}schema`"),
    /* inspect.c has the columns by name. */
    [ST_INSPECT] =
        "SELECT VERSION(), CURRENT_USER(), @@innodb_flush_log_at_trx_commit, @@log_bin, "
        "@@sync_binlog, @@innodb_doublewrite, @@tx_isolation, @@read_only, @@max_connections, "
        "@@max_user_connections, @@max_allowed_packet, @@sql_mode, "
        "@@GLOBAL.innodb_lock_wait_timeout, " NOW ", @@log_bin_trust_function_creators",
    [ST_INSPECT_ENGINES] = "SELECT table_name, engine FROM information_schema.tables "
                           "WHERE table_schema = ? AND LEFT(table_name, CHAR_LENGTH(?)) = ? "
                           "AND table_type = 'BASE TABLE' AND engine <> 'InnoDB'",
    [ST_SCHEMA_FUNCTIONS] = "SELECT routine_name, routine_comment FROM "
                            "information_schema.routines WHERE routine_schema = ? AND "
                            "LEFT(routine_name, CHAR_LENGTH(?)) = ? AND "
                            "routine_type = 'FUNCTION'",
    [ST_SCHEMA_MODE] = "SET SESSION sql_mode = @semel_mode",
    [ST_LOCK] = "SELECT GET_LOCK(?, ?)",
    [ST_UNLOCK] = "DO RELEASE_LOCK(?)",
    [ST_IDENTITY] = "SELECT identity FROM `{}meta`",
    [ST_SCOPE_FIND] = "SELECT id FROM `{}scope` WHERE kind = ? AND name = ?",
    [ST_SCOPE_ADD] = "INSERT INTO `{}scope` (kind, name) VALUES (?, ?) "
                     "ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)",

    [ST_NOTE_READ] = "SELECT number, text, " NOW " FROM " THIS_NOTE,
    [ST_NOTE_READ_SHARED] = "SELECT number, text, " NOW " FROM " THIS_NOTE " LOCK IN SHARE MODE",
    [ST_NOTE_READ_EXCLUSIVE] = "SELECT number, text, " NOW " FROM " THIS_NOTE " FOR UPDATE",
    [ST_NOTE_ADD] = "INSERT INTO `{}note` (inbox, note) VALUES (?, ?) "
                    "ON DUPLICATE KEY UPDATE note = VALUES(note)",
    [ST_NOTE_WRITE] = "UPDATE `{}note` " BY_KEY " SET number = ?, text = ? "
                      "WHERE inbox = ? AND note = ?",
    [ST_NOTE_RAISE] = "INSERT INTO `{}note` (inbox, note, number) VALUES (?, ?, ?) "
                      "ON DUPLICATE KEY UPDATE number = GREATEST(number, VALUES(number))",

    [ST_MARK] = "INSERT INTO `{}marker` (inbox, `key`, state, at_ms, " DETAILS ") "
                "VALUES " MARK_PATTERN OR_REPORT,
    /* Here the keys that were there are gathered. */
    [ST_MARK_MANY] = "INSERT INTO `{}marker` (inbox, `key`, state, at_ms, " DETAILS ") "
                     "VALUES " MARK_PATTERN "~ ON DUPLICATE KEY UPDATE state = "
                     "IF((@semel := CONCAT(@semel, HEX(`key`), x'2c')) IS NULL, state, state)",
    [ST_ASSUME] = "INSERT INTO `{}marker` (inbox, `key`, state, at_ms, " DETAILS ") "
                  "VALUES " MARK_PATTERN,
    [ST_CLAIM] =
        "INSERT INTO `{}marker` (inbox, `key`, state, at_ms, " DETAILS ", attempts, token, "
        "lease_until_ms) VALUES (?, ?, 1, " NOW ", ?, ?, ?, ?, ?, ?, " NOW " + ?)" OR_REPORT,
    [ST_FAILED] =
        "INSERT INTO `{}marker` (inbox, `key`, state, at_ms, " DETAILS ", attempts, error) "
        "VALUES (?, ?, ?, " NOW ", ?, ?, ?, ?, ?, ?)" OR_REPORT,
    [ST_LOOK] = "SELECT " LOOK " FROM " MARKER " WHERE inbox = ? AND `key` IN (?~)",
    [ST_LOOK_LOCKED] =
        "SELECT " LOOK " FROM " MARKER " WHERE inbox = ? AND `key` IN (?~) FOR UPDATE",
    [ST_TABLE_FREE] = "SELECT 1 FROM `{}marker` WHERE FALSE",
    [ST_TAKE_OVER] =
        "UPDATE " MARKER " SET state = 0, " FIRST ", at_ms = " NOW ", " SET_DETAILS ", "
        "attempts = NULL, token = NULL, lease_until_ms = NULL, error = NULL " THIS_MARKER
        " AND " FREE,
    [ST_REOPEN] = "UPDATE " MARKER " SET " FIRST ", at_ms = " NOW ", " SET_DETAILS
                  ", attempts = ?, token = ?, "
                  "lease_until_ms = " NOW " + ? " THIS_MARKER " AND state = 1",
    [ST_FINISH] =
        "UPDATE " MARKER " SET state = 0, at_ms = " NOW ", attempts = NULL, token = NULL, "
        "lease_until_ms = NULL, error = NULL " THIS_MARKER
        " AND state = 1 AND token = ? AND lease_until_ms > " NOW,
    /* A millisecond more if it would be the same: a row that is not changed is not counted. */
    [ST_RENEW] = "UPDATE " MARKER " SET lease_until_ms = " NOW " + ? + (lease_until_ms = " NOW
                 " + ?) " THIS_MARKER " AND state = 1 AND token = ? AND lease_until_ms > " NOW,
    [ST_LET_GO] =
        "UPDATE " MARKER " SET state = ?, " FIRST ", at_ms = " NOW ", error = ?, attempts = ?, "
        "token = NULL, lease_until_ms = NULL " THIS_MARKER
        " AND state = 1 AND token = ? AND lease_until_ms > " NOW,
    [ST_SET_STATE] =
        "UPDATE " MARKER " SET state = ?, " FIRST ", at_ms = " NOW ", attempts = ?, error = ?, "
        "token = NULL, lease_until_ms = NULL, result = NULL " THIS_MARKER,
    [ST_FORGET] = "DELETE m FROM `{}marker` m " BY_KEY " " THIS_MARKER " AND NOT " LIVE
                  " AND (? = 0 OR state = 2)",
    [ST_UNMARK] =
        "DELETE m FROM `{}marker` m " BY_KEY " WHERE inbox = ? AND `key` IN (?~) AND state = 0",
    [ST_LETTER_GONE] = "UPDATE " MARKER " SET at_ms = " NOW
                       ", token = 0, lease_until_ms = 0 " THIS_MARKER " AND state = 2",
    [ST_RESULT_SET] = "UPDATE " MARKER " SET result = ? " THIS_MARKER " AND state = 0",
    [ST_RESULT_THERE] =
        "SET @semel = 9223372036854775807 + (NOT EXISTS (SELECT 1 FROM `{}marker` " THIS_MARKER
        " AND state = 0 AND result IS NOT NULL))",
    [ST_RESULT_GET] =
        "SELECT result FROM " MARKER " " THIS_MARKER " AND state = 0 LOCK IN SHARE MODE",

    [ST_SWEEPER] = "SET SESSION wait_timeout = 60",
    [ST_SWEEP_LOOK] = "SELECT `key`, at_ms < ? AND NOT " LIVE " AND NOT " LETTER " FROM " MARKER
                      " WHERE inbox = ? AND `key` > ? ORDER BY `key` LIMIT ?",
    [ST_SWEEP_LOCK] =
        "SELECT `key`, at_ms FROM " MARKER " WHERE inbox = ? AND `key` IN (?~) AND at_ms < ? "
        "AND NOT " LIVE " AND NOT " LETTER " FOR UPDATE SKIP LOCKED",
    [ST_SWEEP_DELETE] = "DELETE FROM `{}marker` WHERE inbox = ? AND `key` = ?",

    [ST_PUT] =
        "INSERT INTO `{}outbox` (outbox, wake_ms, attempts, refusals, captured_ms, " MESSAGE_COLUMNS
        ") VALUES " PUT_PATTERN "~",
    [ST_LEASE_FREE] =
        "SELECT seq, attempts, refusals, " MESSAGE_COLUMNS
        " FROM `{}outbox` FORCE INDEX (lane) WHERE outbox = ? AND parked = 0 "
        "AND grp IS NULL AND due_ms <= " NOW " ORDER BY due_ms, seq LIMIT ? FOR UPDATE SKIP LOCKED",
    [ST_LEASE_TIMED] = "SELECT grp FROM `{}group` FORCE INDEX (due) WHERE outbox = ? "
                       "AND due_ms <= " NOW " ORDER BY due_ms LIMIT ? FOR UPDATE SKIP LOCKED",
    /* The first row of each of the next groups, and whether the group is known. The names come from
     * a scan that leaps from group to group, however many rows are in one. */
    [ST_LEASE_HEADS] =
        "SELECT g.grp, o.seq, o.wake_ms <= " NOW ", o.token IS NOT NULL, o.wake_ms, "
        "EXISTS (SELECT 1 FROM `{}group` k WHERE k.outbox = g.outbox AND k.grp = g.grp), "
        "EXISTS (SELECT 1 FROM `{}group` a WHERE a.outbox = ?) FROM (SELECT outbox, parked, grp "
        "FROM `{}outbox` FORCE INDEX (lane) WHERE outbox = ? AND parked = 0 AND grp > ? "
        "GROUP BY outbox, parked, grp LIMIT ?) g JOIN `{}outbox` o ON o.seq = LEAST("
        "(SELECT i.seq FROM `{}outbox` i FORCE INDEX (lane) WHERE i.outbox = ? AND i.parked = 0 "
        "AND i.grp = g.grp ORDER BY i.due_ms, i.seq LIMIT 1), "
        "COALESCE(IF(EXISTS (SELECT 1 FROM `{}group` b WHERE b.outbox = ?), "
        "(SELECT p.seq FROM `{}outbox` p FORCE INDEX (lane) WHERE p.outbox = ? AND p.parked = 1 "
        "AND p.grp = g.grp ORDER BY p.due_ms, p.seq LIMIT 1), NULL), 9223372036854775807)) "
        "ORDER BY g.grp",
    /* Rows of one group that are parked, or that are not; when to visit it again if the first of
     * them is not due; and whether any group is known. */
    [ST_LEASE_ROWS] =
        "(SELECT ?, seq, wake_ms <= " NOW ", token IS NOT NULL, parked, "
        "IF(token IS NULL, wake_ms, LEAST(wake_ms, " NOW " + GREATEST(0, " NOW " + ? - wake_ms))), "
        "EXISTS (SELECT 1 FROM `{}group` a WHERE a.outbox = ?) "
        "FROM `{}outbox` FORCE INDEX (lane) WHERE outbox = ? AND parked = ? AND grp = ? "
        "ORDER BY due_ms, seq LIMIT ?)",
    [ST_LEASE_LOCK] = "SELECT seq, attempts, refusals, " MESSAGE_COLUMNS ", wake_ms <= " NOW
                      " FROM " OUTBOX " WHERE seq IN (?) AND outbox = ? ORDER BY seq "
                      "FOR UPDATE SKIP LOCKED",
    [ST_LEASE] = "UPDATE " OUTBOX " SET token = ?, wake_ms = " NOW " + ?, attempts = attempts + 1 "
                 "WHERE seq IN (?)",
    [ST_REMOVABLE] =
        "SELECT seq FROM " OUTBOX " WHERE outbox = ? AND token = ? AND seq IN (?) FOR UPDATE",
    [ST_REMOVE] =
        "DELETE o FROM `{}outbox` o " BY_KEY " WHERE outbox = ? AND token = ? AND seq IN (?)",
    [ST_EXTEND] =
        "UPDATE " OUTBOX " SET wake_ms = " NOW " + ? WHERE outbox = ? AND token = ? AND seq IN (?)",
    [ST_RETRY] =
        "UPDATE " OUTBOX " SET token = NULL, wake_ms = " NOW " + ?, refusals = refusals + ?, "
        "error = COALESCE(?, error) "
        "WHERE outbox = ? AND token = ? AND seq = ?",
    [ST_RELEASE] = "UPDATE " OUTBOX " SET token = NULL, wake_ms = IF(? = 0, captured_ms, " NOW
                   " + ?), attempts = attempts - 1 WHERE outbox = ? AND token = ? AND seq = ?",
    [ST_PARK_LOCK] = "SELECT grp FROM `{}group` FORCE INDEX (PRIMARY) WHERE outbox = ? "
                     "AND grp IN (?~) FOR UPDATE SKIP LOCKED",
    [ST_PARK_ROWS] = "SELECT ?, seq FROM `{}outbox` FORCE INDEX (lane) WHERE outbox = ? "
                     "AND parked = 0 AND grp = ? ORDER BY due_ms, seq LIMIT ? "
                     "FOR UPDATE SKIP LOCKED",
    [ST_PARK] = "UPDATE " OUTBOX " SET parked = 1 WHERE seq IN (?)",
    [ST_GROUP_EARLIER] = "INSERT INTO `{}group` (outbox, grp, due_ms) VALUES " GROUP_PATTERN
                         "~ ON DUPLICATE KEY UPDATE due_ms = LEAST(due_ms, VALUES(due_ms))",
    [ST_GROUP_SET] = "INSERT INTO `{}group` (outbox, grp, due_ms) VALUES " GROUP_PATTERN
                     "~ ON DUPLICATE KEY UPDATE due_ms = VALUES(due_ms)",
    [ST_GROUP_LEAVE] = "DELETE g FROM `{}group` g FORCE INDEX (PRIMARY) WHERE outbox = ? "
                       "AND grp IN (?~)",
    /* A row that is the first of its group to wait is parked with it; if another relay has added
     * the group, the row stays where the walk by name finds it, and the statement does not wait. */
    [ST_GROUP_NOTE] = "INSERT INTO `{}group` (outbox, grp, due_ms) SELECT o.outbox, o.grp, "
                      "o.wake_ms FROM `{}outbox` o WHERE o.seq = ? AND o.outbox = ? "
                      "AND o.token IS NULL AND o.parked = 0 AND o.grp IS NOT NULL AND NOT EXISTS "
                      "(SELECT 1 FROM `{}group` k WHERE k.outbox = o.outbox AND k.grp = o.grp) "
                      "ON DUPLICATE KEY UPDATE due_ms = `{}group`.due_ms",
    [ST_PARK_NOTED] = "UPDATE " OUTBOX " SET parked = 1 WHERE ROW_COUNT() = 1 AND seq = ?",
    /* What an operator names, if no live lease holds it: whether it waits, and for which group. */
    [ST_UNLEASED] = "SELECT seq, wake_ms > " NOW ", grp FROM " OUTBOX " WHERE outbox = ? "
                    "AND seq IN (?) AND (token IS NULL OR wake_ms <= " NOW ") "
                    "ORDER BY seq FOR UPDATE",
    [ST_WAKE] = "UPDATE " OUTBOX " SET wake_ms = " NOW " WHERE outbox = ? AND seq IN (?)",
    [ST_DROP] = "DELETE o FROM `{}outbox` o " BY_KEY " WHERE outbox = ? AND seq IN (?)",
    [ST_UNSENT] = "SELECT (SELECT COUNT(*) FROM `{}outbox` WHERE " NO_QUEUE "), "
                  "(SELECT captured_ms FROM `{}outbox` WHERE " NO_QUEUE " ORDER BY seq LIMIT 1)",

    [ST_STATS_OUTBOX] =
        "SELECT COUNT(*), COALESCE(MIN(captured_ms), 0), COALESCE(SUM(wake_ms <= " NOW "), 0), "
        "COALESCE(MIN(IF(wake_ms <= " NOW ", wake_ms, NULL)), 0) FROM `{}outbox` "
        "WHERE outbox = ? OR (? = 0 AND " NO_QUEUE ")",
    [ST_STATS_DEAD] =
        "SELECT COUNT(*), " NOW " FROM `{}dead` WHERE ? = 0 OR (origin = ? AND name = ?)",
    [ST_STATS_MARKERS] =
        "SELECT COALESCE(SUM(state = 1 AND " LIVE "), 0), COUNT(*) FROM `{}marker` WHERE inbox = ?",
    [ST_LIST_MARKERS] = "SELECT " MARKER_COLUMNS " WHERE m.inbox = ? AND m.`key` > ? "
                        "ORDER BY m.`key` LIMIT ?",
    [ST_LIST_MARKER] = "SELECT " MARKER_COLUMNS " WHERE m.inbox = ? AND m.`key` = ?",
    [ST_LIST_OUTGOING] =
        "SELECT seq, attempts, refusals, captured_ms, wake_ms, token IS NOT NULL AND wake_ms > " NOW
        ", error, " MESSAGE_HEAD ", IF(?, headers, NULL), IF(?, `body`, NULL) "
        "FROM `{}outbox` " BY_KEY " WHERE outbox = ? AND seq > ? ORDER BY seq LIMIT ?",
    [ST_LIST_SENT] = "SELECT " SENT_COLUMNS " AND sent_ms >= ? AND (sent_ms > ? OR seq > ?) "
                     "ORDER BY sent_ms, seq LIMIT ?",
    [ST_LIST_SENT_BACK] = "SELECT " SENT_COLUMNS " AND sent_ms <= ? AND (sent_ms < ? OR seq < ?) "
                          "ORDER BY sent_ms DESC, seq DESC LIMIT ?",
    [ST_SENT_KEEP] =
        "INSERT INTO `{}sent` (outbox, sent_ms, seq, captured_ms, attempts, grp, id, type, topic, "
        "correlation_id) SELECT o.outbox, " NOW ", o.seq, o.captured_ms, o.attempts, o.grp, o.id, "
        "o.type, o.topic, o.correlation_id FROM `{}outbox` o " BY_KEY
        " WHERE o.outbox = ? AND o.token = ? AND o.seq IN (?) "
        "ON DUPLICATE KEY UPDATE sent_ms = `{}sent`.sent_ms",
    [ST_SENT_SWEEP] =
        "DELETE FROM `{}sent` WHERE outbox = ? AND sent_ms < ? ORDER BY sent_ms, seq LIMIT ?",

    [ST_DEAD_PUT] = "INSERT INTO `{}dead` (origin, name, `key`, attempts, at_ms, error, "
                    "first_ms, cause, " MESSAGE_COLUMNS ") VALUES (?, ?, ?, ?, " NOW
                    ", ?, COALESCE(?, " NOW "), ?, " MESSAGE_PATTERN ") "
                    "ON DUPLICATE KEY UPDATE attempts = VALUES(attempts), at_ms = VALUES(at_ms), "
                    "first_ms = LEAST(COALESCE(first_ms, VALUES(first_ms)), VALUES(first_ms)), "
                    "error = VALUES(error), cause = VALUES(cause), "
                    "grp = VALUES(grp), id = VALUES(id), "
                    "source = VALUES(source), type = VALUES(type), topic = VALUES(topic), "
                    "correlation_id = VALUES(correlation_id), "
                    "content_type = VALUES(content_type), time_ms = VALUES(time_ms), "
                    "headers = VALUES(headers), `body` = VALUES(`body`)",
    [ST_DEAD_DROP] = "DELETE d FROM `{}dead` d " BY_KEY " WHERE dead_id = ?",
    [ST_DEAD_LIST] = DEAD_COLUMNS "`{}dead` WHERE " DEAD_WANTED,
    [ST_DEAD_LIST_ASKED] =
        DEAD_COLUMNS "`{}dead` FORCE INDEX (retry) WHERE retry = 1 AND " DEAD_WANTED,
    [ST_DEAD_LIST_CAUSE] =
        "(" DEAD_COLUMNS "`{}dead` FORCE INDEX (cause) WHERE cause <=> ? AND " DEAD_WANTED ")",
    /* There are few names: the server leaps from one to the next. */
    [ST_DEAD_LIST_KEY] =
        DEAD_COLUMNS "(SELECT origin AS o, name AS n FROM `{}dead` FORCE INDEX (letter) "
                     "GROUP BY origin, name) names STRAIGHT_JOIN `{}dead` FORCE INDEX (letter) "
                     "ON origin = o AND name = n AND `key` = ? WHERE " DEAD_WANTED,
    [ST_DEAD_LIST_NAME] =
        DEAD_COLUMNS "`{}dead` FORCE INDEX (name) WHERE origin = ? AND name = ? AND " DEAD_WANTED,
    [ST_DEAD_LIST_LETTER] = DEAD_COLUMNS "`{}dead` FORCE INDEX (letter) WHERE " DEAD_WANTED,
    [ST_DEAD_LOCK_RETRY] = "SELECT 1 FROM " THIS_RETRY " FOR UPDATE",
    /* Having failed changes the cause. */
    [ST_DEAD_SET_RETRY] =
        "UPDATE `{}dead` " BY_KEY " SET retry = ?, attempts = attempts + IF(?, 1, 0), "
        "error = IF(?, ?, error), cause = IF(?, NULL, cause) "
        "WHERE dead_id = ? AND (? = 1 OR retry = ?)",

    [ST_NAMES] = "SELECT name FROM `{}scope` FORCE INDEX (name) WHERE kind = ? AND name > ? "
                 "ORDER BY name LIMIT ?",
    [ST_AUDIT_ADD] = "INSERT INTO `{}audit` (at_ms, who, what, result, `count`) "
                     "VALUES (" NOW ", ?, ?, ?, ?)",
    [ST_AUDIT_ADDED] = "SELECT id, at_ms FROM `{}audit` WHERE id = LAST_INSERT_ID()",
    [ST_AUDIT_LOCK] = "SELECT 1 FROM `{}audit` " BY_KEY " WHERE id = ? FOR UPDATE",
    [ST_AUDIT_SET] = "UPDATE `{}audit` " BY_KEY " SET result = ?, `count` = ? WHERE id = ?",
    [ST_AUDIT_LIST] = "SELECT id, at_ms, who, what, result, `count` FROM `{}audit` " BY_KEY
                      " WHERE id > ? AND at_ms >= ? AND (? = 0 OR at_ms < ?) "
                      "AND (? IS NULL OR who = ?) ORDER BY id LIMIT ?",
    [ST_PROCESS_PUT] =
        "INSERT INTO `{}process` (id, host, pid, started_ms, seen_ms, socket, data) "
        "VALUES (?, ?, ?, ?, " NOW ", ?, ?) ON DUPLICATE KEY UPDATE host = VALUES(host), "
        "pid = VALUES(pid), started_ms = VALUES(started_ms), seen_ms = VALUES(seen_ms), "
        "socket = VALUES(socket), data = VALUES(data)",
    [ST_PROCESS_REMOVE] = "DELETE p FROM `{}process` p " BY_KEY " WHERE id IN (?~)",
    /* A row that is being written is not that of a process that has ended. */
    [ST_PROCESS_SILENT] =
        "SELECT id FROM `{}process` " BY_KEY " WHERE seen_ms < ? FOR UPDATE SKIP LOCKED",
    [ST_PROCESS_LIST] = "SELECT id, host, pid, started_ms, seen_ms, socket, data "
                        "FROM `{}process` ORDER BY id",

    [ST_HISTORY_PUT] =
        "INSERT INTO `{}history` (" HISTORY_HEAD ", headers, `body`) VALUES " HISTORY_PATTERN "~",
    [ST_HISTORY_LIST] = HISTORY_COLUMNS BY_KEY " WHERE " HISTORY_WANTED,
    [ST_HISTORY_LIST_NAME] =
        HISTORY_COLUMNS "FORCE INDEX (name) WHERE name = ? AND " HISTORY_WANTED,
    [ST_HISTORY_LIST_KEY] =
        HISTORY_COLUMNS "FORCE INDEX (`key`) WHERE `key` = ? AND " HISTORY_WANTED,
    [ST_HISTORY_OLD] =
        "SELECT id FROM (SELECT id, at_ms FROM `{}history` " BY_KEY " ORDER BY id LIMIT ?) oldest "
        "WHERE id <= (SELECT MAX(id) FROM `{}history`) - ? OR at_ms < ?",
    [ST_HISTORY_TRIM] = "DELETE h FROM `{}history` h " BY_KEY " WHERE id IN (?)",
    [ST_HISTORY_BOUNDS] =
        "SELECT (SELECT MIN(id) FROM `{}history`), (SELECT MAX(id) FROM `{}history`), "
        "(SELECT at_ms FROM `{}history` " BY_KEY " ORDER BY id LIMIT 1)",
};

const char *const *maria_statements(mem_arena *arena, const char *name)
{
    const char **filled = arena_alloc(arena, ST_COUNT * sizeof *filled);
    for (int i = 0; filled && i < ST_COUNT; i++)
        if (!(filled[i] = sql_fill(arena, texts[i], name)))
            return NULL;
    return filled;
}
