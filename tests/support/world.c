/* Everything that fails here fails the test at the line of the caller: the functions behind the macros take
 * file and line. Things are closed in the reverse order of opening, so a relay goes before its outbox and
 * the store goes last. */
#include "support/world.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

_Thread_local semel_error problem;

/* --- checks -------------------------------------------------------------------------------------- */

void world_check_status(semel_status expected, semel_status got, const char *call, const char *file,
                        int line)
{
    if (expected == got)
        return;
    print_error("%s\n    returned %s, expected %s\n    the last error is: %s\n", call,
                semel_status_name(got), semel_status_name(expected), problem.text);
    _fail(file, line);
}

void world_check_outcome(semel_outcome expected, semel_outcome got, const char *file, int line)
{
    if (expected == got)
        return;
    print_error("the outcome is \"%s\", expected \"%s\"\n", semel_outcome_name(got),
                semel_outcome_name(expected));
    _fail(file, line);
}

void world_check_problem(const char *part, const char *file, int line)
{
    if (strstr(problem.text, part))
        return;
    print_error("the error does not say \"%s\", but: %s\n", part, problem.text);
    _fail(file, line);
}

void world_check_receive(semel_status status, semel_outcome outcome, semel_inbox *inbox,
                         const semel_message *message, handling *h, const char *file, int line)
{
    semel_outcome got;
    semel_status returned = semel_inbox_receive(&got, inbox, message, handle, h, &problem);
    world_check_status(status, returned, "semel_inbox_receive()", file, line);
    world_check_outcome(outcome, got, file, line);
}

/* --- the world ----------------------------------------------------------------------------------- */

static int remove_entry(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    return remove(path);
}

static void remove_directory(const char *path)
{
    if (nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS) != 0)
        print_error("%s is left behind: %s\n", path, strerror(errno));
}

static void make_place(world *w)
{
    if (!w->is_sqlite) {
        (void)snprintf(w->url, sizeof w->url, "memory:");
        return;
    }
    (void)snprintf(w->directory, sizeof w->directory, "/tmp/semel-test-XXXXXX");
    assert_non_null(mkdtemp(w->directory));
    (void)snprintf(w->url, sizeof w->url, "sqlite:%s/semel.db", w->directory);
}

static int setup(void **state, int is_sqlite)
{
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->is_sqlite = is_sqlite;
    make_place(w);
    check(semel_test_seam_open(&w->seam, 42, &problem));
    w->host = semel_test_seam_get(w->seam);
    semel_store_options options = {.size = sizeof options, .seam = w->host};
    check(semel_store_open(&w->store, w->url, &options, &problem));
    check(semel_store_migrate(w->store, &problem));
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
        remove_directory(w->directory);
    free(w);
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
    check(semel_inbox_open(&inbox, w->store, name, options, &problem));
    world_keep(w, close_inbox, inbox);
    return inbox;
}

semel_outbox *world_outbox(world *w, const char *name)
{
    semel_outbox *outbox = NULL;
    check(semel_outbox_open(&outbox, w->store, name, &problem));
    world_keep(w, close_outbox, outbox);
    return outbox;
}

semel_transport *world_queue(world *w, const char *url)
{
    semel_transport *transport = NULL;
    semel_transport_options options = {.size = sizeof options, .seam = w->host};
    check(semel_transport_open(&transport, url, &options, &problem));
    world_keep(w, close_transport, transport);
    return transport;
}

semel_transport *world_recorder(world *w)
{
    semel_transport *transport = NULL;
    check(semel_test_recorder_open(&transport, &problem));
    world_keep(w, close_transport, transport);
    return transport;
}

semel_relay *world_relay(world *w, semel_outbox *outbox, semel_transport *transport,
                         const semel_relay_options *options)
{
    semel_relay *relay = NULL;
    check(semel_relay_open(&relay, outbox, transport, options, &problem));
    world_keep(w, close_relay, relay);
    return relay;
}

semel_relay *world_local_relay(world *w, semel_outbox *outbox, semel_inbox *inbox,
                               semel_handler *handler, void *context,
                               const semel_relay_options *options)
{
    semel_relay *relay = NULL;
    check(semel_relay_open_local(&relay, outbox, inbox, handler, context, options, &problem));
    world_keep(w, close_relay, relay);
    return relay;
}

semel_consumer *world_consumer(world *w, semel_transport *transport, const semel_route *routes,
                               size_t count, const semel_consumer_options *options)
{
    semel_consumer *consumer = NULL;
    check(semel_consumer_open(&consumer, transport, routes, count, options, &problem));
    world_keep(w, close_consumer, consumer);
    return consumer;
}

/* --- messages ------------------------------------------------------------------------------------ */

semel_message message_with_id(const char *id)
{
    return (semel_message){.size = sizeof(semel_message),
                           .id = semel_str(id),
                           .type = "order.placed",
                           .body = semel_str("{\"amount\":1}")};
}

static void append_id(char *room, size_t size, semel_bytes id)
{
    size_t used = strlen(room);
    (void)snprintf(room + used, size - used, "%.*s ", (int)id.len, (const char *)id.data);
}

static int is_id(const semel_message *message, const char *id)
{
    return id && (strcmp(id, "*") == 0 ||
                  (strlen(id) == message->id.len &&
                   memcmp(id, message->id.data, message->id.len) == 0));
}

static void note(handling *h, semel_unit *unit, const semel_message *message)
{
    semel_bytes key = semel_unit_key(unit);
    h->runs++;
    h->attempt = semel_unit_attempt(unit);
    h->key_len = key.len;
    if (key.len && key.len <= sizeof h->key)
        memcpy(h->key, key.data, key.len);
    append_id(h->seen, sizeof h->seen, message->id);
}

static semel_status send_from(handling *h, semel_unit *unit, const semel_message *message,
                              semel_error *err)
{
    char id[64] = "";
    (void)snprintf(id, sizeof id, "from-%.*s", (int)message->id.len,
                   message->id.len ? (const char *)message->id.data : "");
    semel_message out = message_with_id(id);
    return semel_unit_send(unit, h->sends, &out, err);
}

semel_status handle(semel_unit *unit, const semel_message *message, void *context, semel_error *err)
{
    handling *h = context;
    semel_status status = SEMEL_OK;
    note(h, unit, message);
    if (h->during)
        h->during(unit, message, h->context);
    if (h->sends)
        status = send_from(h, unit, message, err);
    if (!status && h->result)
        status = semel_unit_set_result(unit, h->result, strlen(h->result), err);
    if (!status && is_id(message, h->fail_id))
        status = semel_fail(err, h->fail_with ? h->fail_with : SEMEL_EHANDLER, "told to fail");
    return status;
}

/* --- looking ------------------------------------------------------------------------------------- */

semel_counters world_counters(world *w)
{
    semel_counters counters;
    check(semel_store_counters(&counters, sizeof counters, w->store, &problem));
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
    check(semel_dead_list(w->store, &filter, keep_letter, &list, &problem));
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
    size_t all = 0, sent;
    do {
        check(semel_relay_step(&sent, relay, 0, &problem));
        all += sent;
    } while (sent);
    return all;
}

const char *world_recorded(char *room, size_t size, const semel_transport *recorder)
{
    room[0] = 0;
    for (size_t i = 0; i < semel_test_recorder_count(recorder); i++)
        append_id(room, size, semel_test_recorder_message(recorder, i)->id);
    return room;
}
