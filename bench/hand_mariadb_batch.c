/* Many messages in a transaction by hand, and the outbox, on libmariadb. */
#include "hand_mariadb.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH_MAX = 1000 };

static int compare_ids(const void *left, const void *right)
{
    const semel_message *a = *(const semel_message *const *)left;
    const semel_message *b = *(const semel_message *const *)right;
    return memcmp(a->id.data, b->id.data, ID_TEXT);
}

/* Inserts all markers, in the order of the keys, or two batches could lock each other up. `mine` gets
 * those that were new: they come back in that order. */
static size_t mark_all(hand *h, const semel_message *mine[BATCH_MAX],
                       const semel_message *const messages[], size_t count)
{
    const semel_message *sorted[BATCH_MAX];
    size_t found = 0, at = 0;
    if (count > BATCH_MAX)
        die("a batch of %zu; BATCH_MAX is %d", count, BATCH_MAX);
    memcpy((void *)sorted, (const void *)messages, count * sizeof *messages);
    qsort((void *)sorted, count, sizeof *sorted, compare_ids);
    commit_each(h, 0);
    say(h,
        "INSERT IGNORE INTO %s_marker (inbox, `key`, state, at_ms, fingerprint) "
        "VALUES ",
        h->room);
    for (size_t i = 0; i < count; i++) {
        say(h, i ? ",(1, " : "(1, ");
        say_bytes(h, sorted[i]->id);
        say(h, ", 0, " MARIADB_NOW ", %d)", FINGERPRINT_LOW);
    }
    say(h, " RETURNING `key`");
    MYSQL_RES *keys = told(h, NULL);
    for (MYSQL_ROW row; keys && (row = mysql_fetch_row(keys));) {
        while (at < count && memcmp(sorted[at]->id.data, row[0], ID_TEXT) != 0)
            at++;
        if (at == count)
            die("a marker that nobody asked for");
        mine[found++] = sorted[at];
    }
    mysql_free_result(keys);
    return found;
}

/* [all markers] [a statement for each new one, COMMIT] */
void hand_mariadb_batch(hand *h, const semel_message *const messages[], size_t count)
{
    const semel_message *mine[BATCH_MAX];
    size_t found = mark_all(h, mine, messages, count);
    say(h, "BEGIN NOT ATOMIC ");
    for (size_t i = 0; i < found; i++) {
        say(h, "INSERT INTO %s_effect (body) VALUES (", h->room);
        say_bytes(h, mine[i]->body);
        say(h, ");");
    }
    say(h, "COMMIT; END");
    tell(h);
}

/* [all markers] [all rows, COMMIT] */
void hand_mariadb_rows(hand *h, const semel_message *const messages[], size_t count)
{
    const semel_message *mine[BATCH_MAX];
    size_t found = mark_all(h, mine, messages, count);
    say(h, "BEGIN NOT ATOMIC ");
    if (found)
        say(h, "INSERT INTO %s_effect (body) VALUES ", h->room);
    for (size_t i = 0; i < found; i++) {
        say(h, i ? ",(" : "(");
        say_bytes(h, mine[i]->body);
        say(h, ")");
    }
    say(h, "%sCOMMIT; END", found ? ";" : "");
    tell(h);
}

/* One statement, which is its own transaction. */
void hand_mariadb_send(hand *h, const semel_message *const messages[], size_t count)
{
    say(h,
        "INSERT INTO %s_outbox (outbox, wake_ms, attempts, refusals, "
        "captured_ms, type, topic, id, body) VALUES ",
        h->room);
    for (size_t i = 0; i < count; i++) {
        say(h, "%s(1, " MARIADB_NOW ", 0, 0, " MARIADB_NOW ", 'order.paid', 'orders', ",
            i ? "," : "");
        say_bytes(h, messages[i]->id);
        say(h, ", ");
        say_bytes(h, messages[i]->body);
        say(h, ")");
    }
    tell(h);
}

/* Of the rows in `taken`, as (1,2,3). */
static void say_numbers(hand *h, MYSQL_RES *taken)
{
    const char *separator = "(";
    mysql_data_seek(taken, 0);
    for (MYSQL_ROW row; (row = mysql_fetch_row(taken)); separator = ",")
        say(h, "%s%s", separator, row[0]);
    say(h, ")");
}

/* They are leased: a conflict is no reason to leave them. */
static void remove_rows(hand *h, MYSQL_RES *taken)
{
    do {
        h->again = 0;
        say(h, "BEGIN NOT ATOMIC DELETE FROM %s_outbox WHERE token = 1 AND seq IN ", h->room);
        say_numbers(h, taken);
        say(h, "; COMMIT; END");
        tell(h);
    } while (h->again);
}

/* [SELECT] [UPDATE, COMMIT] [DELETE, COMMIT]. Nothing is leased if one of the first two was undone. */
size_t hand_mariadb_relay(hand *h, size_t batch)
{
    commit_each(h, 0);
    say(h,
        "SELECT seq, grp, id, source, type, topic, correlation_id, "
        "content_type, time_ms, headers, body FROM %s_outbox FORCE INDEX (lane) WHERE outbox = 1 "
        "AND parked = 0 AND grp IS NULL AND due_ms <= " MARIADB_NOW
        " ORDER BY due_ms, seq LIMIT %zu FOR UPDATE SKIP LOCKED",
        h->room, batch);
    MYSQL_RES *taken = told(h, NULL);
    size_t count = taken ? (size_t)mysql_num_rows(taken) : 0;
    say(h, "BEGIN NOT ATOMIC ");
    if (count) {
        say(h,
            "UPDATE %s_outbox SET token = 1, wake_ms = " MARIADB_NOW
            " + 30000, attempts = attempts + 1 WHERE seq IN ",
            h->room);
        say_numbers(h, taken);
        say(h, ";");
    }
    say(h, "COMMIT; END");
    tell(h);
    if (h->again)
        count = 0;
    h->again = 0;
    if (count)
        remove_rows(h, taken);
    mysql_free_result(taken);
    return count;
}
