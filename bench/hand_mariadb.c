/* The same work by hand on libmariadb, which cannot send ahead of answers. Several statements in one text are one
 * round trip, but the server sends an answer for each, and the client wakes for each; in BEGIN NOT ATOMIC ... END
 * there is one answer for all of them, and they stop at the first that fails. Without autocommit a transaction
 * needs no beginning. Values are written into the text. The marker by ON DUPLICATE KEY UPDATE that changes nothing,
 * the work skipped if it was there. */
#include "hand_mariadb.h"

#include "base/mem.h"
#include "store/mariadb/address.h"

#include <mysqld_error.h>
#include <semel/mariadb.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* --- speaking ---------------------------------------------------------------------------------------- */

static void make_room(hand *h, size_t more)
{
    if (h->len + more + 1 <= h->capacity)
        return;
    h->capacity = (h->len + more + 1) * 2;
    h->text = realloc(h->text, h->capacity);
    if (!h->text)
        die("out of memory");
}

void say(hand *h, const char *format, ...)
{
    va_list arguments;
    make_room(h, SQL_TEXT);
    va_start(arguments, format);
    h->len += (size_t)vsnprintf(h->text + h->len, SQL_TEXT, format, arguments);
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

void say_bytes(hand *h, semel_bytes value)
{
    make_room(h, value.len * 2 + 3);
    memcpy(h->text + h->len, "x'", 2);
    h->len += 2;
    h->len += write_hex(h->text + h->len, value);
    h->text[h->len++] = '\'';
}

/* A deadlock, or a lock that was not to be had: a row that has changed, too, on newer servers. Any client must begin
 * anew then. */
static int is_conflict(unsigned number)
{
    return number == ER_LOCK_DEADLOCK || number == ER_LOCK_WAIT_TIMEOUT || number == ER_CHECKREAD;
}

static void undo(hand *h)
{
    h->again = 1;
    if (mysql_rollback(h->my) != 0)
        die("mariadb: %s", mysql_error(h->my));
}

/* 1 if the last work was undone: it begins anew. */
static int again(hand *h)
{
    int undone = h->again;
    h->again = 0;
    return undone;
}

MYSQL_RES *told(hand *h, uint64_t *changed)
{
    MYSQL_RES *last = NULL;
    int more = h->again ? -1 : mysql_real_query(h->my, h->text, h->len);
    h->len = 0;
    if (changed)
        *changed = 0;
    while (more == 0) {
        mysql_free_result(last);
        last = mysql_store_result(h->my);
        if (changed)
            *changed = mysql_affected_rows(h->my);
        more = mysql_next_result(h->my);
    }
    if (more <= 0)
        return last;
    if (!is_conflict(mysql_errno(h->my)))
        die("mariadb: %s", mysql_error(h->my));
    mysql_free_result(last);
    undo(h);
    return NULL;
}

void tell(hand *h)
{
    mysql_free_result(told(h, NULL));
}

void commit_each(hand *h, int each)
{
    if (h->commits_each != each && mysql_autocommit(h->my, (my_bool)each) != 0)
        die("mariadb: %s", mysql_error(h->my));
    h->commits_each = each;
}

static hand *open_hand(const char *url, const char *room)
{
    hand *h = must_alloc(sizeof *h);
    mem_arena arena = {0};
    maria_address at;
    semel_error err;
    must(maria_address_read(&at, &arena, url, &err), &err);
    h->my = mysql_init(NULL);
    if (!h->my || !mysql_real_connect(h->my, at.socket ? NULL : at.host, at.user, at.password,
                                      at.database, at.port, at.socket, CLIENT_MULTI_STATEMENTS))
        die("mariadb: %s", h->my ? mysql_error(h->my) : "out of memory");
    arena_free(&arena);
    h->room = room ? strdup(room) : NULL;
    h->commits_each = 1;
    return h;
}

/* How a commit is flushed is a matter of the whole server; what a relay can spare itself are gap locks. */
static hand *open_relaxed(const char *url, const char *room)
{
    hand *h = open_hand(url, room);
    say(h, "SET SESSION tx_isolation = 'READ-COMMITTED'");
    tell(h);
    return h;
}

static void close_hand(hand *h)
{
    mysql_close(h->my);
    free(h->room);
    free(h->text);
    free(h);
}

static int64_t number(hand *h, const char *sql)
{
    say(h, "%s", sql);
    MYSQL_RES *result = told(h, NULL);
    MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;
    int64_t value = row && row[0] ? strtoll(row[0], NULL, 10) : 0;
    mysql_free_result(result);
    return value;
}

static void run(hand *h, const char *sql)
{
    (void)number(h, sql);
}

static void version(hand *h, char out[32])
{
    snprintf(out, 32, "%.20s", mysql_get_server_info(h->my));
    out[strcspn(out, "-")] = 0;
}

static void remove_room(hand *h, const char *room)
{
    say(h,
        "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() "
        "AND LEFT(table_name, %zu) = '%s_'",
        strlen(room) + 1, room);
    MYSQL_RES *tables = told(h, NULL);
    for (MYSQL_ROW row; (row = mysql_fetch_row(tables));) {
        say(h, "DROP TABLE `%s`", row[0]);
        tell(h);
    }
    mysql_free_result(tables);
}

/* --- one message in a transaction ---------------------------------------------------------------------- */

static void say_mark(hand *h, const semel_message *message)
{
    say(h, "INSERT INTO %s_marker (inbox, `key`, state, at_ms, fingerprint) VALUES (1, ", h->room);
    say_bytes(h, message->id);
    say(h, ", 0, " MARIADB_NOW ", %d)", FINGERPRINT_LOW);
}

static void say_effect(hand *h, const semel_message *message)
{
    say(h, "INSERT INTO %s_effect (body) VALUES (", h->room);
    say_bytes(h, message->body);
    say(h, ")");
}

static void commit(hand *h)
{
    say(h, "COMMIT");
    tell(h);
}

static void receive(hand *h, const semel_message *const messages[], size_t count)
{
    uint64_t changed = 0;
    (void)count;
    commit_each(h, 0);
    say_mark(h, messages[0]);
    say(h, " ON DUPLICATE KEY UPDATE state = state");
    mysql_free_result(told(h, &changed));
    if (changed == 1) {
        say_effect(h, messages[0]);
        tell(h);
    }
    commit(h);
}

static void receive_trip(hand *h, const semel_message *const messages[], size_t count)
{
    (void)count;
    commit_each(h, 0);
    say(h, "BEGIN NOT ATOMIC ");
    say_mark(h, messages[0]);
    say(h, ";");
    say_effect(h, messages[0]);
    say(h, "; COMMIT; END");
    tell(h);
}

/* As most libraries do it: five round trips, and two copies at once would both do the work. */
static void check_first(hand *h, const semel_message *const messages[], size_t count)
{
    (void)count;
    say(h, "START TRANSACTION");
    tell(h);
    say(h, "SELECT 1 FROM %s_marker WHERE inbox = 1 AND `key` = ", h->room);
    say_bytes(h, messages[0]->id);
    MYSQL_RES *found = told(h, NULL);
    int is_new = found && mysql_num_rows(found) == 0;
    mysql_free_result(found);
    if (is_new) {
        say_effect(h, messages[0]);
        tell(h);
        say_mark(h, messages[0]);
        tell(h);
    }
    commit(h);
}

static void effect(hand *h, const semel_message *const messages[], size_t count)
{
    (void)count;
    say_effect(h, messages[0]);
    tell(h);
}

/* --- the handler's part --------------------------------------------------------------------------------- */

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    enum { BODY_MAX = 400 };
    const patron *p = context;
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
    .open = open_hand,
    .open_relaxed = open_relaxed,
    .close = close_hand,
    .run = run,
    .number = number,
    .version = version,
    .remove_room = remove_room,
    .again = again,
    .receive = receive,
    .receive_trip = receive_trip,
    .check_first = check_first,
    .effect = effect,
    .batch = hand_mariadb_batch,
    .batch_rows = hand_mariadb_rows,
    .send = hand_mariadb_send,
    .relay = hand_mariadb_relay,
    .handler = handle,
};
