/* Everything that fails here fails the test at the line of the caller: the functions behind the macros take
 * file and line. Things are closed in the reverse order of opening, so a relay goes before its outbox and
 * the store goes last. */
#include "support/world.h"

#include "support/deadline.h"

#include <stdio.h>
#include <stdlib.h>

/* --- checks -------------------------------------------------------------------------------------- */

void world_check_outcome(semel_outcome expected, semel_outcome got, const char *file, int line)
{
    if (expected == got)
        return;
    print_error("the outcome is \"%s\", expected \"%s\"\n", semel_outcome_name(got),
                semel_outcome_name(expected));
    _fail(file, line);
}

void world_check_receive(semel_status status, semel_outcome outcome, semel_inbox *inbox,
                         const semel_message *message, work *w, const char *file, int line)
{
    semel_outcome got;
    check_forget();
    check_status(status, semel_inbox_receive(&got, inbox, message, work_do, w, &last_error),
                 "semel_inbox_receive()", file, line);
    world_check_outcome(outcome, got, file, line);
}

/* --- the world ----------------------------------------------------------------------------------- */

static void make_place(world *w)
{
    if (!w->is_sqlite) {
        (void)snprintf(w->url, sizeof w->url, "memory:");
        return;
    }
    scratch_open(&w->directory);
    scratch_sqlite(w->url, &w->directory, "semel.db");
}

static int setup(void **state, int is_sqlite)
{
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    deadline_begin();
    w->is_sqlite = is_sqlite;
    make_place(w);
    OK(semel_test_seam_open(&w->seam, 42, &last_error));
    w->host = semel_test_seam_get(w->seam);
    semel_store_options options = {.size = sizeof options, .seam = w->host};
    OK(semel_store_open(&w->store, w->url, &options, &last_error));
    OK(semel_store_migrate(w->store, &last_error));
    *state = w;
    return 0;
}

int world_setup_memory(void **state)
{
    return setup(state, 0);
}

int world_setup_sqlite(void **state)
{
    return setup(state, 1);
}

int world_teardown(void **state)
{
    world *w = *state;
    while (w->thing_count) {
        w->thing_count--;
        w->things[w->thing_count].close(w->things[w->thing_count].thing);
    }
    semel_store_close(w->store);
    semel_test_seam_close(w->seam);
    if (w->is_sqlite)
        scratch_close(&w->directory);
    free(w);
    deadline_end();
    return 0;
}

void world_keep(world *w, void (*close)(void *thing), void *thing)
{
    assert_true(w->thing_count < WORLD_THINGS_MAX);
    w->things[w->thing_count].close = close;
    w->things[w->thing_count++].thing = thing;
}

/* --- things -------------------------------------------------------------------------------------- */

static void close_inbox(void *thing)
{
    semel_inbox_close(thing);
}

static void close_outbox(void *thing)
{
    semel_outbox_close(thing);
}

static void close_transport(void *thing)
{
    semel_transport_close(thing);
}

static void close_relay(void *thing)
{
    semel_relay_close(thing);
}

static void close_consumer(void *thing)
{
    semel_consumer_close(thing);
}

semel_inbox *world_inbox(world *w, const char *name, const semel_inbox_options *options)
{
    semel_inbox *inbox = NULL;
    OK(semel_inbox_open(&inbox, w->store, name, options, &last_error));
    world_keep(w, close_inbox, inbox);
    return inbox;
}

void world_both_modes(semel_inbox *inboxes[2], world *w, semel_inbox_options options)
{
    options.size = sizeof options;
    options.mode = SEMEL_TRANSACTION;
    inboxes[0] = world_inbox(w, "by-transaction", &options);
    options.mode = SEMEL_CLAIM;
    inboxes[1] = world_inbox(w, "by-claim", &options);
}

semel_outbox *world_outbox(world *w, const char *name)
{
    semel_outbox *outbox = NULL;
    OK(semel_outbox_open(&outbox, w->store, name, &last_error));
    world_keep(w, close_outbox, outbox);
    return outbox;
}

semel_transport *world_queue(world *w, const char *url)
{
    semel_transport *transport = NULL;
    semel_transport_options options = {.size = sizeof options, .seam = w->host};
    OK(semel_transport_open(&transport, url, &options, &last_error));
    world_keep(w, close_transport, transport);
    return transport;
}

semel_transport *world_recorder(world *w)
{
    semel_transport *transport = NULL;
    OK(semel_test_recorder_open(&transport, &last_error));
    world_keep(w, close_transport, transport);
    return transport;
}

semel_relay *world_relay(world *w, semel_outbox *outbox, semel_transport *transport,
                         const semel_relay_options *options)
{
    semel_relay *relay = NULL;
    OK(semel_relay_open(&relay, outbox, transport, options, &last_error));
    world_keep(w, close_relay, relay);
    return relay;
}

semel_relay *world_local_relay(world *w, semel_outbox *outbox, semel_inbox *inbox,
                               semel_handler *handler, void *context,
                               const semel_relay_options *options)
{
    semel_relay *relay = NULL;
    OK(semel_relay_open_local(&relay, outbox, inbox, handler, context, options, &last_error));
    world_keep(w, close_relay, relay);
    return relay;
}

semel_consumer *world_consumer(world *w, semel_transport *transport, const semel_route *routes,
                               size_t count, const semel_consumer_options *options)
{
    semel_consumer *consumer = NULL;
    OK(semel_consumer_open(&consumer, transport, routes, count, options, &last_error));
    world_keep(w, close_consumer, consumer);
    return consumer;
}

/* --- looking ------------------------------------------------------------------------------------- */

semel_counters world_counters(world *w)
{
    semel_counters counters;
    OK(semel_store_counters(&counters, sizeof counters, w->store, &last_error));
    return counters;
}

typedef struct listing {
    letter *letters;
    size_t max;
    size_t count;
} listing;

static semel_status keep_letter(const semel_dead *dead, void *context, semel_error *err)
{
    listing *list = context;
    (void)err;
    if (list->count++ >= list->max)
        return SEMEL_OK;
    letter *one = &list->letters[list->count - 1];
    *one = (letter){.id = dead->id,
                    .origin = dead->origin,
                    .attempts = dead->attempts,
                    .key_len = dead->key.len,
                    .damaged = !dead->message};
    (void)snprintf(one->name, sizeof one->name, "%s", dead->name);
    (void)snprintf(one->error, sizeof one->error, "%s", dead->error);
    if (dead->message)
        (void)snprintf(one->message_id, sizeof one->message_id, "%.*s", (int)dead->message->id.len,
                       dead->message->id.len ? (const char *)dead->message->id.data : "");
    return SEMEL_OK;
}

size_t world_letters(world *w, letter letters[], size_t max)
{
    listing list = {.letters = letters, .max = max};
    semel_dead_filter filter = {.size = sizeof filter, .limit = 10000};
    OK(semel_dead_list(w->store, &filter, keep_letter, &list, &last_error));
    return list.count;
}

letter world_only_letter(world *w)
{
    letter one;
    assert_int_equal(world_letters(w, &one, 1), 1);
    return one;
}

size_t world_drain(semel_relay *relay)
{
    enum { STEPS_MAX = 10000 };
    size_t all = 0, sent, steps = 0;
    do {
        assert_true(steps++ < STEPS_MAX);
        OK(semel_relay_step(&sent, relay, 0, &last_error));
        all += sent;
    } while (sent);
    return all;
}

static void append_id(char *room, size_t size, semel_bytes id)
{
    size_t used = strlen(room);
    (void)snprintf(room + used, size - used, "%.*s ", (int)id.len, (const char *)id.data);
}

const char *world_recorded(char *room, size_t size, const semel_transport *recorder)
{
    room[0] = 0;
    for (size_t i = 0; i < semel_test_recorder_count(recorder); i++)
        append_id(room, size, semel_test_recorder_message(recorder, i)->id);
    return room;
}
