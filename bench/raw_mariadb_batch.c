/* Many messages in a transaction by hand, and the outbox, on libmariadb. */
#include "raw_mariadb.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH_MAX = 1000 };

static int raw_my_compare_ids(const void *left, const void *right)
{
    const semel_message *a = *(const semel_message *const *)left;
    const semel_message *b = *(const semel_message *const *)right;
    return memcmp(a->id.data, b->id.data, ID_TEXT);
}

/* Inserts all markers, in the order of the keys, or two batches could lock each other up. `mine`
 * gets those that were new: they come back in that order. */
static size_t mark_all(raw_connection *c, const semel_message *mine[BATCH_MAX],
                       const semel_message *const messages[], size_t count)
{
    const semel_message *sorted[BATCH_MAX];
    size_t found = 0, at = 0;
    if (count > BATCH_MAX)
        die("a batch of %zu; BATCH_MAX is %d", count, BATCH_MAX);
    memcpy((void *)sorted, (const void *)messages, count * sizeof *messages);
    qsort((void *)sorted, count, sizeof *sorted, raw_my_compare_ids);
    raw_my_autocommit(c, 0);
    raw_my_append(c,
                  "INSERT IGNORE INTO %s_marker (inbox, `key`, state, at_ms, fingerprint) "
                  "VALUES ",
                  c->room);
    for (size_t i = 0; i < count; i++) {
        raw_my_append(c, i ? ",(1, " : "(1, ");
        raw_my_append_bytes(c, sorted[i]->id);
        raw_my_append(c, ", 0, " MARIADB_NOW ", %d)", FINGERPRINT_LOW);
    }
    raw_my_append(c, " RETURNING `key`");
    MYSQL_RES *keys = raw_my_query(c, NULL);
    for (MYSQL_ROW row; keys && (row = mysql_fetch_row(keys));) {
        while (at < count && memcmp(sorted[at]->id.data, row[0], ID_TEXT) != 0)
            at++;
        if (at == count)
            die("a marker that was not asked for");
        mine[found++] = sorted[at];
    }
    mysql_free_result(keys);
    return found;
}

/* [all markers] [a statement for each new one, COMMIT] */
void raw_mariadb_batch(raw_connection *c, const semel_message *const messages[], size_t count)
{
    const semel_message *mine[BATCH_MAX];
    size_t found = mark_all(c, mine, messages, count);
    raw_my_append(c, "BEGIN NOT ATOMIC ");
    for (size_t i = 0; i < found; i++) {
        raw_my_append(c, "INSERT INTO %s_effect (body) VALUES (", c->room);
        raw_my_append_bytes(c, mine[i]->body);
        raw_my_append(c, ");");
    }
    raw_my_append(c, "COMMIT; END");
    raw_my_execute(c);
}

/* [all markers] [all rows, COMMIT] */
void raw_mariadb_rows(raw_connection *c, const semel_message *const messages[], size_t count)
{
    const semel_message *mine[BATCH_MAX];
    size_t found = mark_all(c, mine, messages, count);
    raw_my_append(c, "BEGIN NOT ATOMIC ");
    if (found)
        raw_my_append(c, "INSERT INTO %s_effect (body) VALUES ", c->room);
    for (size_t i = 0; i < found; i++) {
        raw_my_append(c, i ? ",(" : "(");
        raw_my_append_bytes(c, mine[i]->body);
        raw_my_append(c, ")");
    }
    raw_my_append(c, "%sCOMMIT; END", found ? ";" : "");
    raw_my_execute(c);
}

/* One statement, which is its own transaction. */
void raw_mariadb_send(raw_connection *c, const semel_message *const messages[], size_t count)
{
    raw_my_append(c,
                  "INSERT INTO %s_outbox (outbox, wake_ms, attempts, refusals, "
                  "captured_ms, type, topic, id, body) VALUES ",
                  c->room);
    for (size_t i = 0; i < count; i++) {
        raw_my_append(c, "%s(1, " MARIADB_NOW ", 0, 0, " MARIADB_NOW ", 'order.paid', 'orders', ",
                      i ? "," : "");
        raw_my_append_bytes(c, messages[i]->id);
        raw_my_append(c, ", ");
        raw_my_append_bytes(c, messages[i]->body);
        raw_my_append(c, ")");
    }
    raw_my_execute(c);
}

/* Of the rows in `taken`, as (1,2,3). */
static void append_numbers(raw_connection *c, MYSQL_RES *taken)
{
    const char *separator = "(";
    mysql_data_seek(taken, 0);
    for (MYSQL_ROW row; (row = mysql_fetch_row(taken)); separator = ",")
        raw_my_append(c, "%s%s", separator, row[0]);
    raw_my_append(c, ")");
}

/* They are leased: a conflict is no reason to leave them. */
static void remove_rows(raw_connection *c, MYSQL_RES *taken)
{
    do {
        c->again = 0;
        raw_my_append(c, "BEGIN NOT ATOMIC DELETE FROM %s_outbox WHERE token = 1 AND seq IN ",
                      c->room);
        append_numbers(c, taken);
        raw_my_append(c, "; COMMIT; END");
        raw_my_execute(c);
    } while (c->again);
}

/* [SELECT] [UPDATE, COMMIT] [DELETE, COMMIT]. Nothing is leased if one of the first two was
 * undone. */
size_t raw_mariadb_relay(raw_connection *c, size_t batch)
{
    raw_my_autocommit(c, 0);
    raw_my_append(
        c,
        "SELECT seq, grp, id, source, type, topic, correlation_id, "
        "content_type, time_ms, headers, body FROM %s_outbox FORCE INDEX (lane) WHERE outbox = 1 "
        "AND parked = 0 AND grp IS NULL AND due_ms <= " MARIADB_NOW
        " ORDER BY due_ms, seq LIMIT %zu FOR UPDATE SKIP LOCKED",
        c->room, batch);
    MYSQL_RES *taken = raw_my_query(c, NULL);
    size_t count = taken ? (size_t)mysql_num_rows(taken) : 0;
    raw_my_append(c, "BEGIN NOT ATOMIC ");
    if (count) {
        raw_my_append(c,
                      "UPDATE %s_outbox SET token = 1, wake_ms = " MARIADB_NOW
                      " + 30000, attempts = attempts + 1 WHERE seq IN ",
                      c->room);
        append_numbers(c, taken);
        raw_my_append(c, ";");
    }
    raw_my_append(c, "COMMIT; END");
    raw_my_execute(c);
    if (c->again)
        count = 0;
    c->again = 0;
    if (count)
        remove_rows(c, taken);
    mysql_free_result(taken);
    return count;
}
