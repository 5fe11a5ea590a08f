/* What a relay's pass costs when many groups wait: for a backoff, or for a delay, which is the same
 * to a store.
 *
 * For each number of groups there is a store with one message in each of them that waits for an
 * hour; the relay has gone past them once. Then all stores take turns: a message in a group of its
 * own, with a name somewhere among the others, is put in, and the relay's steps are timed until it
 * is out. Putting it in is not timed. */
#include "server.h"

#include <stdlib.h>
#include <string.h>

enum { SIZES = 3, MESSAGES = 20, UNIT = 1000, STEPS_MAX = 10000, ID_ROOM = 32 };

static const size_t sizes[SIZES] = {100, 10000, 100000};

typedef struct place {
    size_t groups;
    char file[40], room[ROOM_NAME], url[1100];
    semel_store *store;
    semel_outbox *outbox;
    semel_transport *transport;
    semel_relay *relay;
    size_t sent; /* in all */
    size_t steps;
    double turn_us[ROUNDS_MAX];
} place;

/* --- groups that wait ------------------------------------------------------------------------- */

static void put_waiting(place *p)
{
    semel_error err;
    for (size_t done = 0; done < p->groups;) {
        semel_unit *unit;
        must(semel_unit_begin(&unit, p->store, &err), &err);
        for (size_t end = done + UNIT; done < end && done < p->groups; done++) {
            char group[ID_ROOM];
            snprintf(group, sizeof group, "g%06zu", done);
            semel_message message = {.size = sizeof message,
                                     .id = semel_str(group),
                                     .topic = "orders",
                                     .group = group,
                                     .body = semel_str("paid"),
                                     .delay_ms = 3600000};
            must(semel_unit_send(unit, p->outbox, &message, &err), &err);
        }
        must(semel_unit_commit(unit, &err), &err);
        stop_if_asked();
    }
}

static size_t step(place *p)
{
    size_t sent = 0;
    semel_error err;
    must(semel_relay_step(&sent, p->relay, 0, &err), &err);
    p->steps++;
    return sent;
}

/* Every store looks at a hundred groups in a pass at least. */
static void go_past_them(place *p)
{
    for (size_t seen = 0; seen < p->groups + 1000; seen += 100) {
        if (step(p))
            die("a message that should wait has left");
        stop_if_asked();
    }
}

static void place_open(place *p, const char *url)
{
    semel_error err;
    semel_relay_options relay = {.size = sizeof relay};
    must(semel_store_open(&p->store, url, NULL, &err), &err);
    must(semel_store_migrate(p->store, &err), &err);
    must(semel_outbox_open(&p->outbox, p->store, "bench", &err), &err);
    must(semel_transport_open(&p->transport, "memory:", NULL, &err), &err);
    must(semel_relay_open(&p->relay, p->outbox, p->transport, &relay, &err), &err);
    put_waiting(p);
    go_past_them(p);
}

static void place_close(place *p)
{
    semel_relay_close(p->relay);
    semel_transport_close(p->transport);
    semel_outbox_close(p->outbox);
    semel_store_close(p->store);
}

/* --- one that does not wait ------------------------------------------------------------------- */

static void put_ready(place *p)
{
    char group[ID_ROOM], id[ID_ROOM];
    semel_error err;
    snprintf(group, sizeof group, "g%06zu.ready", p->sent * 7919 % p->groups);
    snprintf(id, sizeof id, "ready-%zu", p->sent++);
    semel_message message = {.size = sizeof message,
                             .id = semel_str(id),
                             .topic = "orders",
                             .group = group,
                             .body = semel_str("paid")};
    must(semel_outbox_send(p->outbox, &message, &err), &err);
}

static void place_round(place *p, size_t round)
{
    double took = 0;
    for (int i = 0; i < MESSAGES; i++) {
        put_ready(p);
        double start = now_s();
        for (size_t steps = 0; !step(p); steps++)
            if (steps == STEPS_MAX)
                die("a message is not found");
        took += now_s() - start;
    }
    p->turn_us[round] = took / MESSAGES * 1e6;
    stop_if_asked();
}

/* --- the section ------------------------------------------------------------------------------ */

static void report_place(const char *store, const place *at, const place *small, size_t rounds)
{
    double ratios[ROUNDS_MAX];
    char name[100];
    for (size_t i = 0; i < rounds; i++)
        ratios[i] = at->turn_us[i] / small->turn_us[i];
    snprintf(name, sizeof name, "%s, %zu groups wait", store, at->groups);
    report_row(name, spread_of(small->turn_us, rounds).median,
               spread_of(at->turn_us, rounds).median, spread_of(ratios, rounds), AT_MOST(2));
}

static void measure(const char *store, place places[SIZES], size_t count)
{
    size_t rounds = choose_rounds(9, 3);
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < count; i++) {
            progress(store, round * count + i, rounds * count);
            place_round(&places[round % 2 ? count - 1 - i : i], round);
        }
    for (size_t i = 1; i < count; i++)
        report_place(store, &places[i], &places[0], rounds);
    for (size_t i = 0; i < count; i++)
        place_close(&places[i]);
}

/* The largest one takes minutes to fill. */
static size_t size_count(void)
{
    return choose(SIZES, SIZES - 1);
}

static void measure_memory(void)
{
    place places[SIZES] = {{0}};
    for (size_t i = 0; i < size_count(); i++) {
        places[i].groups = sizes[i];
        place_open(&places[i], "memory:");
    }
    measure("memory", places, size_count());
}

static void measure_sqlite(void)
{
    place places[SIZES] = {{0}};
    char path[512];
    for (size_t i = 0; i < size_count(); i++) {
        place *p = &places[i];
        p->groups = sizes[i];
        snprintf(p->file, sizeof p->file, "groups-%zu.db", sizes[i]);
        snprintf(p->url, sizeof p->url, "sqlite:%s", scratch_path(path, p->file));
        place_open(p, p->url);
    }
    measure("SQLite", places, size_count());
    for (size_t i = 0; i < size_count(); i++)
        scratch_remove(places[i].file);
}

static void measure_server(const server *on, const char *url)
{
    place places[SIZES] = {{0}};
    for (size_t i = 0; i < size_count(); i++) {
        place *p = &places[i];
        p->groups = sizes[i];
        snprintf(p->room, sizeof p->room, "bench_groups_%zu", sizes[i]);
        room_make(on, url, p->room);
        place_open(p, room_url(p->url, on, url, p->room));
    }
    raw_connection *h = on->open(url, NULL);
    on->run(h, on->settle_down); /* what a server does by itself within minutes */
    on->close(h);
    measure(on->name, places, size_count());
    for (size_t i = 0; i < size_count(); i++)
        room_remove(on, url, places[i].room);
}

void section_groups(void)
{
    report_section("groups", "relay: a message leaves while groups wait", "100, us", "here, us");
    measure_memory();
    measure_sqlite();
    each_server(measure_server);
    report_note(
        "one message in a group of its own, from its commit until the transport has it; the "
        "transport is in memory.");
}
