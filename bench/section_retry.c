/* Retrying dead letters in bulk: all letters of an inbox through semel_inbox_replay_all(), against
 * as many fresh messages, one by one, with the same handler. That is the least a retry can cost:
 * it also finds the letter, frees its dead marker, and drops it, in the same transaction.
 *
 * Each side has a store of its own. The letters of a turn are made before it, which is not timed,
 * by a handler that gives up. The handler that is measured inserts the id of its message, so that
 * in the end the rows show whether each message had its effect once. */
#include "server.h"

enum { FRESH, RETRY, SIDES, BURIED_AT_ONCE = 100, BULK_AT_LEAST = 100 };

static const char *const places[SIDES] = {[FRESH] = "bench_fresh", [RETRY] = "bench_retry"};

typedef struct side {
    semel_store *store;
    semel_inbox *inbox;
    char effect_sql[SQL_TEXT];
} side;

static semel_status insert_id(semel_unit *unit, const semel_message *message, void *context,
                              semel_error *err)
{
    const side *s = context;
    semel_value id = semel_blob(message->id);
    return semel_unit_queue(unit, s->effect_sql, &id, 1, err);
}

static semel_status give_up(semel_unit *unit, const semel_message *message, void *context,
                            semel_error *err)
{
    (void)unit, (void)message, (void)context;
    return semel_fail(err, SEMEL_EGIVEUP, "the shop is closed");
}

static void side_open(side *s, const char *url, const char *effect_table)
{
    semel_error err;
    snprintf(s->effect_sql, sizeof s->effect_sql, "INSERT INTO %s (body) VALUES (?)", effect_table);
    must(semel_store_open(&s->store, url, NULL, &err), &err);
    must(semel_store_migrate(s->store, &err), &err);
    must(semel_inbox_open(&s->inbox, s->store, "bench", NULL, &err), &err);
}

static void side_close(side *s)
{
    semel_inbox_close(s->inbox);
    semel_store_close(s->store);
}

/* --- what is measured ------------------------------------------------------------------------- */

static double receive_each(side *s, const message_set *set)
{
    semel_error err;
    semel_outcome outcome;
    double start = now_s();
    for (size_t i = 0; i < set->count; i++) {
        must(semel_inbox_receive(&outcome, s->inbox, set->pointers[i], insert_id, s, &err), &err);
        if (outcome != SEMEL_PROCESSED)
            die("a fresh message is \"%s\"", semel_outcome_name(outcome));
    }
    return (double)set->count / (now_s() - start);
}

static void bury(side *s, const message_set *set)
{
    semel_outcome outcomes[BURIED_AT_ONCE];
    semel_error err;
    for (size_t done = 0, some; done < set->count; done += some) {
        some = set->count - done < BURIED_AT_ONCE ? set->count - done : BURIED_AT_ONCE;
        must(semel_inbox_receive_batch(outcomes, s->inbox, set->pointers + done, some, give_up, s,
                                       &err),
             &err);
        for (size_t i = 0; i < some; i++)
            if (outcomes[i] != SEMEL_DEAD)
                die("a message to bury is \"%s\"", semel_outcome_name(outcomes[i]));
    }
}

static double retry_all(side *s, const message_set *set)
{
    semel_error err;
    size_t replayed, failed;
    bury(s, set);
    double start = now_s();
    must(semel_inbox_replay_all(&replayed, &failed, s->inbox, NULL, insert_id, s, &err), &err);
    double rate = (double)set->count / (now_s() - start);
    if (replayed != set->count || failed)
        die("of %zu letters %zu were replayed and %zu failed", set->count, replayed, failed);
    return rate;
}

/* --- the rounds ------------------------------------------------------------------------------- */

/* On a slow disk fewer, but not so few that finding the last one is what a call mostly does. */
static size_t letters_of_a_turn(void)
{
    size_t count = transactions(500, 200);
    return count < BULK_AT_LEAST ? BULK_AT_LEAST : count;
}

/* One round before the first is not counted. Returns how many messages each side had. */
static size_t run_rounds(comparison *d, side sides[SIDES], const char *label)
{
    message_set set = {0};
    key_source keys;
    size_t count = letters_of_a_turn();
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    for (size_t round = 0; round <= d->rounds; round++) {
        progress(label, round, d->rounds + 1);
        messages_make(&set, &keys, count);
        for (int i = 0; i < SIDES; i++) {
            int which = round % 2 ? SIDES - 1 - i : i;
            double rate = (which == RETRY ? retry_all : receive_each)(&sides[which], &set);
            if (round)
                d->rate[which][round - 1] = rate;
            stop_if_asked();
        }
        comparison_settle(d, round);
    }
    progress_clear();
    messages_free(&set);
    return count * (d->rounds + 1);
}

static size_t compare(const char *name, const char *urls[SIDES], const char *tables[SIDES])
{
    side sides[SIDES];
    comparison d = {.rounds = choose_rounds(15, 7), .contenders = SIDES};
    for (int i = 0; i < SIDES; i++)
        side_open(&sides[i], urls[i], tables[i]);
    size_t count = run_rounds(&d, sides, name);
    report_comparison(name, &d, RETRY, FRESH, NO_AIM);
    for (int i = 0; i < SIDES; i++)
        side_close(&sides[i]);
    return count;
}

/* As many rows as ids, and as many as messages: each is there once. */
static const char *rows_and_ids(char sql[SQL_TEXT], const char *table)
{
    snprintf(sql, SQL_TEXT,
             "SELECT CASE WHEN count(*) = count(DISTINCT body) THEN count(*) ELSE -1 END FROM %s",
             table);
    return sql;
}

static void check_rows(const char *place, int64_t found, size_t expected)
{
    if (found == -1)
        die("%s has a row twice", place);
    if (found != (int64_t)expected)
        die("%s has %lld rows and should have %zu", place, (long long)found, expected);
}

/* --- the stores ------------------------------------------------------------------------------- */

static void measure_server(const server *on, const char *url)
{
    char name[100], urls[SIDES][1024], tables[SIDES][100], sql[SQL_TEXT];
    const char *url_of[SIDES], *table_of[SIDES];
    for (int i = 0; i < SIDES; i++) {
        room_make(on, url, places[i]);
        url_of[i] = room_url(urls[i], on, url, places[i]);
        table_of[i] = room_table(tables[i], on, places[i], "effect");
    }
    size_t count = compare(server_title(name, on, "all of an inbox"), url_of, table_of);
    raw_connection *c = on->open(url, NULL);
    for (int i = 0; i < SIDES; i++)
        check_rows(places[i], on->number(c, rows_and_ids(sql, tables[i])), count);
    on->close(c);
    for (int i = 0; i < SIDES; i++)
        room_remove(on, url, places[i]);
}

/* An fsync takes longer while the log still grows, and burying makes it grow on one side only. So
 * both begin with a log that is longer than it becomes before SQLite starts it anew. The connection
 * stays open, because the last one to close would remove the log. */
static sqlite3 *make_sqlite(char url[600], const char *place)
{
    char path[512];
    sqlite3 *db;
    must_sqlite(sqlite3_open(scratch_path(path, place), &db), db);
    must_sqlite(sqlite3_exec(db,
                             "PRAGMA journal_mode = WAL;" EFFECT_TABLE ";"
                             "CREATE TABLE filler AS SELECT zeroblob(8000000) AS bytes;"
                             "DROP TABLE filler;"
                             "PRAGMA wal_checkpoint",
                             NULL, NULL, NULL),
                db);
    snprintf(url, 600, "sqlite:%s", path);
    return db;
}

static void measure_sqlite(void)
{
    char urls[SIDES][600], sql[SQL_TEXT];
    const char *url_of[SIDES], *table_of[SIDES] = {"effect", "effect"};
    sqlite3 *db[SIDES];
    for (int i = 0; i < SIDES; i++) {
        db[i] = make_sqlite(urls[i], places[i]);
        url_of[i] = urls[i];
    }
    size_t count = compare("SQLite: all of an inbox", url_of, table_of);
    for (int i = 0; i < SIDES; i++) {
        check_rows(places[i], raw_number(db[i], rows_and_ids(sql, table_of[i])), count);
        sqlite3_close(db[i]);
        scratch_remove(places[i]);
    }
}

void section_retry(void)
{
    report_section("retry", "dead letters, retried in bulk", "fresh/s", "retry/s");
    measure_sqlite();
    each_server(measure_server);
}
