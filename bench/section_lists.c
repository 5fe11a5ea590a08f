/* Listing and searching, as the tools of an operator do it: markers of one inbox and dead letters
 * of 20 names and 50 causes, a million of each, the letters with a body of 200 bytes. What
 * an index finds costs the same at any number of rows; what counts or groups reads all of them. */
#include "server.h"

#include <semel/operate.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 100, CAUSE = 1007, KEY_ROOM = 64 };

static const char room[] = "bench_lists";

/* What is looked for: a marker and a letter in the middle. */
typedef struct lists {
    semel_server p;
    char marker[KEY_ROOM];
    semel_bytes marker_key;
    char letter[KEY_ROOM];
    char name[KEY_ROOM];
    semel_dead_filter middle; /* the key, the name, the id before it */
    size_t seen;              /* rows of the last call */
} lists;

/* --- loading ---------------------------------------------------------------------------------- */

static void load_markers(const server *on, raw_connection *h, const char *series)
{
    char sql[SQL_TEXT], table[100], names[100];
    progress("loading markers", 0, 1);
    snprintf(sql, sizeof sql,
             "INSERT INTO %s (inbox, %s, state, at_ms, fingerprint) "
             "SELECT (SELECT max(id) FROM %s WHERE kind = 1), %s, 0, %s, n FROM (%s) AS s",
             room_semel_table(table, on, room, "marker"), on->key_column,
             room_semel_table(names, on, room, "scope"), on->key_of_n, on->now_ms, series);
    on->run(h, sql);
}

static void load_letters(const server *on, raw_connection *h, const char *series)
{
    char sql[SQL_TEXT], table[100], body[BROKER_BODY + 1];
    progress("loading dead letters", 0, 1);
    memset(body, 'x', BROKER_BODY);
    body[BROKER_BODY] = 0;
    snprintf(sql, sizeof sql,
             "INSERT INTO %s (origin, name, %s, attempts, at_ms, first_ms, error, cause, retry, "
             "id, type, body) SELECT 1, concat('inbox-', n %% 20), %s, 3, n, n, 'it failed', "
             "1000 + n %% 50, CASE WHEN n %% 10000 = 5 THEN 1 ELSE 0 END, %s, 'paid', '%s' "
             "FROM (%s) AS s",
             room_semel_table(table, on, room, "dead"), on->key_column, on->key_of_n, on->key_of_n,
             body, series);
    on->run(h, sql);
}

static void load(const server *on, const char *url, size_t rows)
{
    char series[200];
    raw_connection *h = on->open(url, NULL);
    snprintf(series, sizeof series, on->series, rows);
    load_markers(on, h, series);
    stop_if_asked();
    load_letters(on, h, series);
    on->run(h, on->settle_down);
    on->close(h);
    stop_if_asked();
}

/* --- what is measured ------------------------------------------------------------------------- */

static semel_status see_marker(const semel_marker *marker, void *context, semel_error *err)
{
    lists *l = context;
    (void)err;
    l->seen++;
    l->marker_key = (semel_bytes){l->marker, marker->key.len};
    memcpy(l->marker, marker->key.data, marker->key.len);
    return SEMEL_OK;
}

static void list_markers(lists *l, semel_error *err)
{
    semel_marker_filter filter = {.size = sizeof filter, .limit = PAGE, .after = semel_str("8")};
    must(semel_inbox_list(l->p.inbox, &filter, see_marker, l, err), err);
}

static void find_marker(lists *l, semel_error *err)
{
    semel_marker *found = NULL;
    must(semel_inbox_look_key(&found, l->p.inbox, l->marker_key, err), err);
    semel_marker_free(found);
    l->seen++;
}

static void count_keys(lists *l, semel_error *err)
{
    enum { DEADLINE_MS = 60000 };
    semel_stats stats;
    must(semel_inbox_stats(&stats, sizeof stats, l->p.inbox, DEADLINE_MS, err), err);
    l->seen = (size_t)stats.keys;
}

static semel_status see_letter(const semel_dead *dead, void *context, semel_error *err)
{
    (void)dead;
    (void)err;
    ((lists *)context)->seen++;
    return SEMEL_OK;
}

static void list_letters(lists *l, const semel_dead_filter *wanted, semel_error *err)
{
    semel_dead_filter filter = *wanted;
    filter.size = sizeof filter;
    filter.limit = PAGE;
    must(semel_dead_list(l->p.store, &filter, see_letter, l, err), err);
}

static void list_briefly(lists *l, semel_error *err)
{
    list_letters(l, &(semel_dead_filter){.brief = 1, .after_id = l->middle.after_id}, err);
}

static void list_with_bodies(lists *l, semel_error *err)
{
    list_letters(l, &(semel_dead_filter){.after_id = l->middle.after_id}, err);
}

static void list_cause(lists *l, semel_error *err)
{
    list_letters(
        l, &(semel_dead_filter){.brief = 1, .cause = CAUSE, .after_id = l->middle.after_id}, err);
}

static void list_name(lists *l, semel_error *err)
{
    list_letters(l,
                 &(semel_dead_filter){.brief = 1,
                                      .origin = SEMEL_DEAD_INBOX,
                                      .name = l->name,
                                      .after_id = l->middle.after_id},
                 err);
}

static void list_asked(lists *l, semel_error *err)
{
    list_letters(l, &(semel_dead_filter){.brief = 1, .retry = 1}, err);
}

static void find_letter(lists *l, semel_error *err)
{
    list_letters(l, &(semel_dead_filter){.brief = 1, .key = l->middle.key}, err);
}

static void find_letter_of_name(lists *l, semel_error *err)
{
    list_letters(l,
                 &(semel_dead_filter){
                     .brief = 1, .origin = SEMEL_DEAD_INBOX, .name = l->name, .key = l->middle.key},
                 err);
}

static semel_status see_group(const semel_dead_group *group, void *context, semel_error *err)
{
    (void)err;
    ((lists *)context)->seen += group->letters;
    return SEMEL_OK;
}

static void group_letters(lists *l, semel_error *err)
{
    must(semel_dead_groups(l->p.store, NULL, see_group, l, err), err);
}

/* --- measuring -------------------------------------------------------------------------------- */

static semel_status keep_letter(const semel_dead *dead, void *context, semel_error *err)
{
    lists *l = context;
    (void)err;
    l->middle.after_id = dead->id - 1;
    l->middle.key = (semel_bytes){l->letter, dead->key.len};
    memcpy(l->letter, dead->key.data, dead->key.len);
    snprintf(l->name, sizeof l->name, "%s", dead->name);
    return SEMEL_OK;
}

static void find_middle(lists *l, size_t rows)
{
    semel_error err;
    semel_dead_filter filter = {
        .size = sizeof filter, .limit = 1, .after_id = (int64_t)(rows / 2), .brief = 1};
    must(semel_dead_list(l->p.store, &filter, keep_letter, l, &err), &err);
    list_markers(l, &err);
}

static void measure_one(lists *l, const char *name, void (*what)(lists *l, semel_error *err),
                        size_t rounds)
{
    double took_s[ROUNDS_MAX];
    semel_error err;
    for (size_t i = 0; i <= rounds; i++) { /* the first is not counted */
        progress(name, i, rounds);
        l->seen = 0;
        double start = now_s();
        what(l, &err);
        took_s[i ? i - 1 : 0] = now_s() - start;
        if (!l->seen)
            die("%s: there was nothing", name);
        stop_if_asked();
    }
    report_value(name, spread_of(took_s, rounds).median * 1000, "ms", NO_AIM);
}

static void measure_lists(const server *on, const char *url)
{
    static const struct {
        const char *name;
        void (*what)(lists *l, semel_error *err);
        int reads_all;
    } measured[] = {{"100 markers", list_markers, 0},
                    {"a marker by its key", find_marker, 0},
                    {"100 letters without their bodies", list_briefly, 0},
                    {"100 letters with their bodies", list_with_bodies, 0},
                    {"100 letters of a cause", list_cause, 0},
                    {"100 letters of an inbox", list_name, 0},
                    {"letters that a retry is asked for", list_asked, 0},
                    {"a letter by its key", find_letter, 0},
                    {"a letter by its inbox and key", find_letter_of_name, 0},
                    {"all markers, counted", count_keys, 1},
                    {"all letters, by cause", group_letters, 1}};
    char title[100], what[60];
    size_t rows = choose(1000000, 100000);
    lists l = {.p = {.on = on, .workers = 1, .batch = 1}};
    room_make(on, url, room);
    semel_server_open(&l.p, url, room);
    load(on, url, rows);
    find_middle(&l, rows);
    snprintf(what, sizeof what, "lists, %zu thousand rows", rows / 1000);
    report_section("lists", server_title(title, on, what), "", "");
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
        measure_one(&l, measured[i].name, measured[i].what,
                    measured[i].reads_all ? 3 : choose_rounds(31, 11));
    semel_server_close(&l.p);
    room_remove(on, url, room);
}

void section_lists(void)
{
    each_server(measure_lists);
}
