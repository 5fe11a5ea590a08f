/* The driver's tables, opening and time. See dynamodb.h.
 *
 * Time. DynamoDB has no operation that tells it, but each answer has a Date, in seconds. Many of
 * these, with the times of their requests, give the difference to the host's steady clock within
 * an interval that gets narrower; semel_keyed_clock keeps it. The first call asks for a record that
 * need not be there. */
#include "store/dynamodb/dynamodb.h"

#include "base/seam.h"
#include "base/wait.h"
#include "store/keyed/keyed.h"

/* --- opening ---------------------------------------------------------------------------------- */

static void dynamo_close(void *state)
{
    dynamo_store *store = state;
    aws_close(store->aws);
    (void)pthread_mutex_destroy(&store->lock);
    arena_free(&store->arena);
}

static semel_status dynamo_open(void *state, const void *argument,
                                const semel_store_settings *settings, semel_error *err)
{
    dynamo_store *store = state;
    store->settings = *settings;
    if (pthread_mutex_init(&store->lock, NULL))
        return semel_fail(err, SEMEL_ENOMEM, "no mutex for a store");
    semel_status status = dynamo_address_read(&store->at, &store->arena, argument, err);
    aws_options options = {.service = "dynamodb",
                           .target = "DynamoDB_20120810",
                           .version = "1.0",
                           .region = store->at.region,
                           .endpoint = store->at.endpoint,
                           .profile = store->at.profile,
                           .pool = store->at.pool,
                           .busy_ms = settings->busy_ms,
                           .answer_ms = settings->answer_ms,
                           .seam = settings->seam};
    if (!status)
        status = aws_open(&store->aws, &options, err);
    if (!status)
        status = dynamo_check_table(store, err);
    if (status)
        dynamo_close(store);
    return status;
}

static semel_durability dynamo_durability(const void *state)
{
    (void)state;
    return SEMEL_DURABLE_POWER;
}

/* --- time ------------------------------------------------------------------------------------- */

static int read_clock(dynamo_store *store, int64_t *out_ms, uint32_t *error_ms)
{
    (void)pthread_mutex_lock(&store->lock);
    int known = semel_keyed_clock_read(&store->clock, wait_clock_ns() / 1000, out_ms, error_ms);
    (void)pthread_mutex_unlock(&store->lock);
    return known;
}

/* Answers teach the clock; DescribeTable has taught it when the store was opened, unless the server
 * sends no Date. */
static semel_status dynamo_now(void *state, int64_t *out_ms, uint32_t *error_ms, semel_error *err)
{
    dynamo_store *store = state;
    dynamo_place at;
    dynamo_item item;
    mem_arena arena = {0};
    int found;
    if (read_clock(store, out_ms, error_ms))
        return SEMEL_OK;
    semel_status status = dynamo_place_of(&at, semel_str("s"), semel_str("layout"), err);
    if (!status)
        status = dynamo_get_item(&item, &found, store, &at, 0, &arena, err);
    arena_free(&arena);
    if (!status && !read_clock(store, out_ms, error_ms))
        status = semel_fail(err, SEMEL_ESTORE,
                            "dynamodb at %s: its answers have no Date header, so there is no time",
                            aws_endpoint(store->aws));
    return status;
}

/* --- the tables ------------------------------------------------------------------------------- */

const semel_keyed_driver dynamo_driver = {
    .version = SEMEL_KEYED_DRIVER_VERSION,
    .abilities = SEMEL_KEYED_MANY | SEMEL_KEYED_SHARED | SEMEL_KEYED_DISTANT | SEMEL_KEYED_EXPIRES,
    .scheme = "dynamodb",
    .store_size = sizeof(dynamo_store),
    .limits = {.changes_max = DYNAMO_ACTIONS_MAX,
               .record_max = DYNAMO_ITEM_MAX - DYNAMO_ROOM,
               .apply_max = DYNAMO_APPLY_MAX},
    .open = dynamo_open,
    .close = dynamo_close,
    .prepare = dynamo_prepare,
    .now = dynamo_now,
    .durability = dynamo_durability,
    .get = dynamo_get,
    .apply = dynamo_apply,
    .scan = dynamo_scan,
    .count = dynamo_count,
    .queue = dynamo_queue,
    .inspect = dynamo_inspect,
};

static semel_status dynamo_check_url(const char *text, semel_error *err)
{
    dynamo_address address;
    mem_arena arena = {0};
    semel_status status = dynamo_address_read(&address, &arena, text, err);
    arena_free(&arena);
    return status;
}

static semel_status dynamo_store_open(void *store, const void *url,
                                      const semel_store_settings *settings, semel_error *err)
{
    return keyed_open(store, &dynamo_driver, url, settings, err);
}

/* A quarter of what a transaction takes: a message may need four changes. */
const semel_store_driver dynamodb_store_driver =
    KEYED_STORE_DRIVER("dynamodb", dynamo_store_open, dynamo_check_url, NULL, SEMEL_STORE_SHARED,
                       DYNAMO_ACTIONS_MAX / 4);
