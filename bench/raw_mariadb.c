/* The same work by hand on libmariadb, which cannot send ahead of answers. Several statements in
 * one text are one round trip, but the server sends an answer for each, and the client wakes for
 * each; in BEGIN NOT ATOMIC ... END there is one answer for all of them, and they stop at the first
 * that fails. Without autocommit a transaction needs no beginning. Values are written into the
 * text. The marker by ON DUPLICATE KEY UPDATE that changes nothing, the work skipped if it was
 * there. */
#include "raw_mariadb.h"

#include "base/mem.h"
#include "store/mariadb/address.h"

#include <mysqld_error.h>
#include <semel/mariadb.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* --- speaking --------------------------------------------------------------------------------- */

static void raw_my_reserve(raw_connection *c, size_t more)
{
    if (c->len + more + 1 <= c->capacity)
        return;
    c->capacity = (c->len + more + 1) * 2;
    c->text = realloc(c->text, c->capacity);
    if (!c->text)
        die("out of memory");
}

void raw_my_append(raw_connection *c, const char *format, ...)
{
    va_list arguments;
    raw_my_reserve(c, SQL_TEXT);
    va_start(arguments, format);
    c->len += (size_t)vsnprintf(c->text + c->len, SQL_TEXT, format, arguments);
    va_end(arguments);
}

static size_t write_hex(char *to, semel_bytes value)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *from = value.data;
    for (size_t i = 0; i < value.len; i++) {
        *to++ = digits[from[i] >> 4];
        *to++ = digits[from[i] & 15];
    }
    return value.len * 2;
}

void raw_my_append_bytes(raw_connection *c, semel_bytes value)
{
    raw_my_reserve(c, value.len * 2 + 3);
    memcpy(c->text + c->len, "x'", 2);
    c->len += 2;
    c->len += write_hex(c->text + c->len, value);
    c->text[c->len++] = '\'';
}

/* A deadlock, or a lock that was not to be had: a row that has changed, too, on newer servers. Any
 * client must begin anew then. */
static int is_conflict(unsigned raw_my_number)
{
    return raw_my_number == ER_LOCK_DEADLOCK || raw_my_number == ER_LOCK_WAIT_TIMEOUT ||
           raw_my_number == ER_CHECKREAD;
}

static void undo(raw_connection *c)
{
    c->again = 1;
    if (mysql_rollback(c->my) != 0)
        die("mariadb: %s", mysql_error(c->my));
}

/* 1 if the last work was undone: it begins anew. */
static int again(raw_connection *c)
{
    int undone = c->again;
    c->again = 0;
    return undone;
}

MYSQL_RES *raw_my_query(raw_connection *c, uint64_t *changed)
{
    MYSQL_RES *last = NULL;
    int more = c->again ? -1 : mysql_real_query(c->my, c->text, c->len);
    c->len = 0;
    if (changed)
        *changed = 0;
    while (more == 0) {
        mysql_free_result(last);
        last = mysql_store_result(c->my);
        if (changed)
            *changed = mysql_affected_rows(c->my);
        more = mysql_next_result(c->my);
    }
    if (more <= 0)
        return last;
    if (!is_conflict(mysql_errno(c->my)))
        die("mariadb: %s", mysql_error(c->my));
    mysql_free_result(last);
    undo(c);
    return NULL;
}

void raw_my_execute(raw_connection *c)
{
    mysql_free_result(raw_my_query(c, NULL));
}

void raw_my_autocommit(raw_connection *c, int each)
{
    if (c->commits_each != each && mysql_autocommit(c->my, (my_bool)each) != 0)
        die("mariadb: %s", mysql_error(c->my));
    c->commits_each = each;
}

static raw_connection *raw_my_open(const char *url, const char *room)
{
    raw_connection *c = must_alloc(sizeof *c);
    mem_arena arena = {0};
    maria_address at;
    semel_error err;
    must(maria_address_read(&at, &arena, url, &err), &err);
    c->my = mysql_init(NULL);
    if (!c->my || !mysql_real_connect(c->my, at.socket ? NULL : at.host, at.user, at.password,
                                      at.database, at.port, at.socket, CLIENT_MULTI_STATEMENTS))
        die("mariadb: %s", c->my ? mysql_error(c->my) : "out of memory");
    arena_free(&arena);
    c->room = room ? strdup(room) : NULL;
    c->commits_each = 1;
    return c;
}

/* How a commit is flushed is a matter of the whole server; what a relay can spare itself are gap
 * locks. */
static raw_connection *raw_my_open_relaxed(const char *url, const char *room)
{
    raw_connection *c = raw_my_open(url, room);
    raw_my_append(c, "SET SESSION tx_isolation = 'READ-COMMITTED'");
    raw_my_execute(c);
    return c;
}

static void raw_my_close(raw_connection *c)
{
    mysql_close(c->my);
    free(c->room);
    free(c->text);
    free(c);
}

static int64_t raw_my_number(raw_connection *c, const char *sql)
{
    raw_my_append(c, "%s", sql);
    MYSQL_RES *result = raw_my_query(c, NULL);
    MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;
    int64_t value = row && row[0] ? strtoll(row[0], NULL, 10) : 0;
    mysql_free_result(result);
    return value;
}

static void raw_my_run(raw_connection *c, const char *sql)
{
    (void)raw_my_number(c, sql);
}

static void raw_my_version(raw_connection *c, char out[32])
{
    snprintf(out, 32, "%.20s", mysql_get_server_info(c->my));
    out[strcspn(out, "-")] = 0;
}

static void raw_my_remove_room(raw_connection *c, const char *room)
{
    raw_my_append(
        c,
        "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() "
        "AND LEFT(table_name, %zu) = '%s_'",
        strlen(room) + 1, room);
    MYSQL_RES *tables = raw_my_query(c, NULL);
    for (MYSQL_ROW row; (row = mysql_fetch_row(tables));) {
        raw_my_append(c, "DROP TABLE `%s`", row[0]);
        raw_my_execute(c);
    }
    mysql_free_result(tables);
}

/* --- one message in a transaction ------------------------------------------------------------- */

static void append_mark(raw_connection *c, const semel_message *message)
{
    raw_my_append(c, "INSERT INTO %s_marker (inbox, `key`, state, at_ms, fingerprint) VALUES (1, ",
                  c->room);
    raw_my_append_bytes(c, message->id);
    raw_my_append(c, ", 0, " MARIADB_NOW ", %d)", FINGERPRINT_LOW);
}

static void append_effect(raw_connection *c, const semel_message *message)
{
    raw_my_append(c, "INSERT INTO %s_effect (body) VALUES (", c->room);
    raw_my_append_bytes(c, message->body);
    raw_my_append(c, ")");
}

static void commit(raw_connection *c)
{
    raw_my_append(c, "COMMIT");
    raw_my_execute(c);
}

static void raw_my_receive(raw_connection *c, const semel_message *const messages[], size_t count)
{
    uint64_t changed = 0;
    (void)count;
    raw_my_autocommit(c, 0);
    append_mark(c, messages[0]);
    raw_my_append(c, " ON DUPLICATE KEY UPDATE state = state");
    mysql_free_result(raw_my_query(c, &changed));
    if (changed == 1) {
        append_effect(c, messages[0]);
        raw_my_execute(c);
    }
    commit(c);
}

/* The same with semel's function in place of the INSERT (docs/SQL.md). */
static void raw_my_receive_function(raw_connection *c, const semel_message *const messages[],
                                    size_t count)
{
    (void)count;
    raw_my_autocommit(c, 0);
    raw_my_append(c, "SELECT %s_receive('bench', ", c->room);
    raw_my_append_bytes(c, messages[0]->id);
    raw_my_append(c, ")");
    MYSQL_RES *answer = raw_my_query(c, NULL);
    MYSQL_ROW row = answer ? mysql_fetch_row(answer) : NULL;
    int is_new = row && row[0] && row[0][0] == '1';
    mysql_free_result(answer);
    if (is_new) {
        append_effect(c, messages[0]);
        raw_my_execute(c);
    }
    commit(c);
}

static void raw_my_receive_trip(raw_connection *c, const semel_message *const messages[],
                                size_t count)
{
    (void)count;
    raw_my_autocommit(c, 0);
    raw_my_append(c, "BEGIN NOT ATOMIC ");
    append_mark(c, messages[0]);
    raw_my_append(c, ";");
    append_effect(c, messages[0]);
    raw_my_append(c, "; COMMIT; END");
    raw_my_execute(c);
}

/* As most libraries do it: five round trips, and two copies at once would both do the work. */
static void raw_my_check_first(raw_connection *c, const semel_message *const messages[],
                               size_t count)
{
    (void)count;
    raw_my_append(c, "START TRANSACTION");
    raw_my_execute(c);
    raw_my_append(c, "SELECT 1 FROM %s_marker WHERE inbox = 1 AND `key` = ", c->room);
    raw_my_append_bytes(c, messages[0]->id);
    MYSQL_RES *found = raw_my_query(c, NULL);
    int is_new = found && mysql_num_rows(found) == 0;
    mysql_free_result(found);
    if (is_new) {
        append_effect(c, messages[0]);
        raw_my_execute(c);
        append_mark(c, messages[0]);
        raw_my_execute(c);
    }
    commit(c);
}

static void raw_my_effect(raw_connection *c, const semel_message *const messages[], size_t count)
{
    (void)count;
    append_effect(c, messages[0]);
    raw_my_execute(c);
}

/* --- the handler's part ----------------------------------------------------------------------- */

static semel_status raw_my_handle(semel_unit *unit, const semel_message *message, void *context,
                                  semel_error *err)
{
    enum { BODY_MAX = 400 };
    const semel_server *p = context;
    char text[SQL_TEXT + 2 * BODY_MAX];
    MYSQL *my = semel_unit_mariadb(unit);
    (void)err;
    if (message->body.len > BODY_MAX)
        die("a body of %zu bytes", message->body.len);
    size_t len =
        (size_t)snprintf(text, SQL_TEXT, "%.*sx'", (int)strcspn(p->effect_sql, "?"), p->effect_sql);
    len += write_hex(text + len, message->body);
    memcpy(text + len, "')", 2);
    if (mysql_real_query(my, text, len + 2) != 0)
        die("mariadb: %s", mysql_error(my));
    return SEMEL_OK;
}

const server mariadb_server = {
    .name = "MariaDB",
    .scheme = "mariadb",
    .room_parameter = "prefix",
    .room_format = "%s_",
    .table_format = "%s_%s",
    .semel_format = "%s_%s",
    .body_type = "BLOB",
    .id_type = "BIGINT AUTO_INCREMENT",
    .series = "SELECT seq AS n FROM seq_1_to_%zu",
    .key_of_n = "CONCAT(MD5(n), '-abc')",
    .now_ms = MARIADB_NOW,
    .key_column = "`key`",
    .settle_down = "DO 0",
    .open = raw_my_open,
    .open_relaxed = raw_my_open_relaxed,
    .close = raw_my_close,
    .run = raw_my_run,
    .number = raw_my_number,
    .version = raw_my_version,
    .remove_room = raw_my_remove_room,
    .again = again,
    .receive = raw_my_receive,
    .receive_function = raw_my_receive_function,
    .receive_trip = raw_my_receive_trip,
    .check_first = raw_my_check_first,
    .effect = raw_my_effect,
    .batch = raw_mariadb_batch,
    .batch_rows = raw_mariadb_rows,
    .send = raw_mariadb_send,
    .relay = raw_mariadb_relay,
    .handler = raw_my_handle,
};
