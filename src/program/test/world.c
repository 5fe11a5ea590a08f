/* See world.h. */
#include "program/test/world.h"

#include "program/config/node_json.h"
#include "program/handler/sql.h"
#include "program/operate/confirm.h"
#include "program/support/show.h"
#include "program/test/stub.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOUR_MS = 3600000, STUCK_ROUNDS = 200, BACKOFF_MS = 1, PAGE = 1 };

typedef struct world_queue {
    semel_transport *transport;
    semel_consumer *consumer; /* NULL: no inbox reads it */
    uint64_t sent;
} world_queue;

struct world {
    const config *all;
    const test_config *test;
    region memory;
    const test_place *place;
    semel_seam seam;
    int64_t offset_ms; /* of both clocks */
    uint64_t points, kill_at;
    semel_store *store;
    world_queue *queues;
    semel_outbox **outboxes;
    semel_relay **relays;
    semel_inbox **inboxes;
    stub **stubs;
    world_inbox *outcomes;
};

/* --- time, and the end of the process --------------------------------------------------------- */

static int64_t seam_wall(void *context)
{
    const world *w = context;
    return wall_clock_ms() + w->offset_ms;
}

static int64_t seam_steady(void *context)
{
    const world *w = context;
    return steady_clock_ns() / 1000000 + w->offset_ms;
}

static void seam_sleep(void *context, uint32_t ms)
{
    world *w = context;
    w->offset_ms += ms;
}

static semel_status seam_point(void *context, const char *point)
{
    world *w = context;
    (void)point;
    if (++w->points == w->kill_at)
        (void)raise(SIGKILL);
    return SEMEL_OK;
}

/* --- what happens ----------------------------------------------------------------------------- */

static size_t find_inbox(const world *w, const char *name)
{
    size_t i = 0;
    while (i < w->all->inbox_count && strcmp(w->all->inboxes[i].name, name) != 0)
        i++;
    return i;
}

static size_t find_queue(const world *w, const char *name)
{
    size_t i = 0;
    while (i < w->all->queue_count && strcmp(w->all->queues[i].name, name) != 0)
        i++;
    return i;
}

static void note_sent(world *w, const semel_event *event)
{
    for (size_t i = 0; i < w->all->outbox_count; i++) {
        size_t queue = find_queue(w, w->all->outboxes[i].to);
        if (event->outcome == SEMEL_PROCESSED && queue < w->all->queue_count &&
            strcmp(w->all->outboxes[i].name, event->name) == 0)
            w->queues[queue].sent++;
    }
}

static void observe(void *context, const semel_event *event)
{
    world *w = context;
    if (event->kind == SEMEL_EVENT_SENT) {
        note_sent(w, event);
        return;
    }
    size_t at = find_inbox(w, event->name);
    if (at == w->all->inbox_count)
        return;
    world_inbox *inbox = &w->outcomes[at];
    if (inbox->count < WORLD_OUTCOMES_MAX)
        inbox->outcomes[inbox->count] = event->outcome;
    inbox->count++;
}

/* --- opening ---------------------------------------------------------------------------------- */

static semel_status open_store(world *w, semel_error *err)
{
    semel_store_options options = w->all->store;
    w->seam = (semel_seam){.size = sizeof w->seam,
                           .context = w,
                           .wall_ms = seam_wall,
                           .steady_ms = seam_steady,
                           .sleep_ms = seam_sleep,
                           .fault = seam_point};
    options.size = sizeof options;
    options.seam = &w->seam;
    options.observer = observe;
    options.observer_context = w;
    semel_status status = semel_store_open(&w->store, place_url(w->place), &options, err);
    if (!status)
        status = semel_store_migrate(w->store, err);
    if (!status && w->offset_ms)
        status = place_pass(w->place, w->offset_ms, err);
    return status ? status : sql_setup(w->store, &w->all->setup, NULL, err);
}

static semel_status open_queues(world *w, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < w->all->queue_count; i++)
        status =
            semel_queue_open(&w->queues[i].transport, w->store, w->all->queues[i].name, NULL, err);
    return status;
}

static semel_status open_outboxes(world *w, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < w->all->outbox_count; i++) {
        const outbox_config *from = &w->all->outboxes[i];
        semel_relay_options options = from->options;
        size_t queue = find_queue(w, from->to);
        options.backoff_ms = options.backoff_max_ms = BACKOFF_MS;
        status = semel_outbox_open(&w->outboxes[i], w->store, from->name, err);
        if (!status)
            status = semel_relay_open(&w->relays[i], w->outboxes[i], w->queues[queue].transport,
                                      &options, err);
    }
    return status;
}

static semel_outbox *find_outbox(const world *w, const char *name)
{
    for (size_t i = 0; name && i < w->all->outbox_count; i++)
        if (strcmp(w->all->outboxes[i].name, name) == 0)
            return w->outboxes[i];
    return NULL;
}

static semel_status open_inboxes(world *w, int call_handlers, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < w->all->inbox_count; i++) {
        const inbox_config *from = &w->all->inboxes[i];
        semel_inbox_options options = from->options;
        options.faults = find_outbox(w, from->faults);
        status = semel_inbox_open(&w->inboxes[i], w->store, from->name, &options, err);
        if (!status)
            status = stub_open(&w->stubs[i], w->all, from, w->test, call_handlers, err);
    }
    return status;
}

/* One route for each type of each inbox that reads the queue. */
static size_t add_routes(const world *w, semel_route routes[], const char *queue)
{
    size_t count = 0;
    for (size_t i = 0; i < w->all->inbox_count; i++) {
        const inbox_config *inbox = &w->all->inboxes[i];
        size_t types = inbox->types.count ? inbox->types.count : 1;
        for (size_t j = 0; inbox->from && strcmp(inbox->from, queue) == 0 && j < types; j++)
            if (count < SEMEL_ROUTES_MAX)
                routes[count++] =
                    (semel_route){.pattern = inbox->types.count ? inbox->types.items[j] : "*",
                                  .inbox = w->inboxes[i],
                                  .handler = stub_run,
                                  .context = w->stubs[i]};
    }
    return count;
}

static semel_status open_consumers(world *w, semel_error *err)
{
    semel_route *routes = region_alloc(&w->memory, SEMEL_ROUTES_MAX * sizeof *routes);
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < w->all->queue_count; i++) {
        semel_consumer_options options = w->all->queues[i].consumer;
        size_t count = add_routes(w, routes, w->all->queues[i].name);
        options.batch = 1;
        options.workers = 1;
        options.backoff_ms = options.backoff_max_ms = BACKOFF_MS;
        options.shared_inboxes = 1;
        if (count)
            status = semel_consumer_open(&w->queues[i].consumer, w->queues[i].transport, routes,
                                         count, &options, err);
    }
    return status;
}

static void world_alloc(world *w)
{
    const config *all = w->all;
    w->queues = region_alloc(&w->memory, all->queue_count * sizeof *w->queues);
    w->outboxes = region_alloc(&w->memory, all->outbox_count * sizeof(semel_outbox *));
    w->relays = region_alloc(&w->memory, all->outbox_count * sizeof(semel_relay *));
    w->inboxes = region_alloc(&w->memory, all->inbox_count * sizeof(semel_inbox *));
    w->stubs = region_alloc(&w->memory, all->inbox_count * sizeof(stub *));
    w->outcomes = region_alloc(&w->memory, all->inbox_count * sizeof *w->outcomes);
}

semel_status world_open(world **out, const world_options *options, semel_error *err)
{
    world *w = must_alloc(sizeof *w);
    w->all = options->all;
    w->test = options->test;
    w->offset_ms = options->later_ms;
    w->kill_at = options->kill_at;
    w->place = options->place;
    world_alloc(w);
    semel_status status = open_store(w, err);
    if (!status)
        status = open_queues(w, err);
    if (!status)
        status = open_outboxes(w, err);
    if (!status)
        status = open_inboxes(w, options->call_handlers, err);
    if (!status)
        status = open_consumers(w, err);
    if (status)
        world_close(w);
    else
        *out = w;
    return status;
}

void world_close(world *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->all->queue_count; i++)
        semel_consumer_close(w->queues[i].consumer);
    for (size_t i = 0; i < w->all->outbox_count; i++)
        semel_relay_close(w->relays[i]);
    for (size_t i = 0; i < w->all->inbox_count; i++) {
        semel_inbox_close(w->inboxes[i]);
        stub_close(w->stubs[i]);
    }
    for (size_t i = 0; i < w->all->outbox_count; i++)
        semel_outbox_close(w->outboxes[i]);
    for (size_t i = 0; i < w->all->queue_count; i++)
        semel_transport_close(w->queues[i].transport);
    semel_store_close(w->store);
    region_free(&w->memory);
    free(w);
}

/* --- messages --------------------------------------------------------------------------------- */

static size_t make_headers(semel_header out[], const config_pairs *from)
{
    size_t count = from->count < SEMEL_HEADERS_MAX ? from->count : SEMEL_HEADERS_MAX;
    for (size_t i = 0; i < count; i++)
        out[i] =
            (semel_header){.name = from->items[i].name, .value = semel_str(from->items[i].value)};
    return count;
}

static semel_status publish_copies(world *w, const test_message *given, size_t number,
                                   semel_error *err)
{
    semel_header headers[SEMEL_HEADERS_MAX];
    buffer body = {0};
    semel_publish_result result;
    char *id = region_printf(&w->memory, "test-%zu", number + 1);
    if (given->body)
        json_of_node(&body, given->body);
    semel_message message = {.size = sizeof message,
                             .id = semel_str(given->id ? given->id : id),
                             .type = given->type,
                             .source = given->source,
                             .group = given->group,
                             .content_type = given->body ? "application/json" : NULL,
                             .time_ms = seam_wall(w),
                             .headers = headers,
                             .header_count = make_headers(headers, &given->headers),
                             .body = {body.data, body.len}};
    const semel_message *one = &message;
    semel_status status = SEMEL_OK;
    for (uint32_t i = 0; !status && i < given->copies; i++)
        status = semel_transport_publish(&result, w->queues[find_queue(w, given->to)].transport,
                                         &one, 1, 0, err);
    buffer_free(&body);
    return status;
}

semel_status world_publish(world *w, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < w->test->given_count; i++)
        status = publish_copies(w, &w->test->given[i], i, err);
    return status;
}

/* --- running ---------------------------------------------------------------------------------- */

static semel_status step_all(world *w, size_t *moved, semel_error *err)
{
    semel_status status = SEMEL_OK;
    *moved = 0;
    for (size_t i = 0; !status && i < w->all->outbox_count; i++) {
        size_t sent = 0;
        status = semel_relay_step(&sent, w->relays[i], 0, err);
        *moved += sent;
    }
    for (size_t i = 0; !status && i < w->all->queue_count; i++) {
        size_t settled = 0;
        if (w->queues[i].consumer)
            status = semel_consumer_step(&settled, w->queues[i].consumer, 0, err);
        *moved += settled;
    }
    return status;
}

static semel_status found_one(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    (void)outgoing, (void)err;
    *(int *)context = 1;
    return SEMEL_OK;
}

/* Of the queues those that an inbox reads: the others keep what they were sent. */
static semel_status is_anything_left(const world *w, int *left, semel_error *err)
{
    semel_outgoing_filter one = {.size = sizeof one, .limit = PAGE};
    semel_status status = SEMEL_OK;
    *left = 0;
    for (size_t i = 0; !status && !*left && i < w->all->outbox_count; i++)
        status = semel_outbox_list(w->outboxes[i], &one, found_one, left, err);
    for (size_t i = 0; !status && !*left && i < w->all->queue_count; i++)
        if (w->queues[i].consumer)
            status = semel_queue_list(w->queues[i].transport, &one, found_one, left, err);
    return status;
}

semel_status world_run(world *w, semel_error *err)
{
    for (int stuck = 0; stuck < STUCK_ROUNDS;) {
        size_t moved;
        int left = 1;
        semel_status status = step_all(w, &moved, err);
        if (!status && !moved)
            status = is_anything_left(w, &left, err);
        if (status || !left)
            return status;
        if (interrupted())
            return semel_fail(err, SEMEL_ESTOPPED, "interrupted");
        if (moved)
            continue;
        stuck++;
        w->offset_ms += HOUR_MS;
        status = place_pass(w->place, HOUR_MS, err);
        if (status)
            return status;
    }
    return semel_fail(err, SEMEL_EBUSY, "messages are left that are never handled to the end");
}

/* --- results ---------------------------------------------------------------------------------- */

const world_inbox *world_outcomes(const world *w, size_t inbox)
{
    return &w->outcomes[inbox];
}

uint64_t world_sent(const world *w, const char *queue)
{
    size_t at = find_queue(w, queue);
    return at < w->all->queue_count ? w->queues[at].sent : 0;
}

semel_status world_dead(const world *w, uint64_t *out, semel_error *err)
{
    enum { DEADLINE_MS = 10000 };
    semel_stats stats = {0};
    semel_status status = semel_store_stats(&stats, sizeof stats, w->store, DEADLINE_MS, err);
    *out = stats.dead;
    return status;
}

uint64_t world_points(const world *w)
{
    return w->points;
}

semel_status world_query(const world *w, buffer *out, const char *sql, semel_error *err)
{
    return place_query(w->place, out, sql, err);
}
