/* A transport around a transport: everything comes several times, late and out of order.
 *
 * Each inner delivery becomes `copies` copies in a bag. A receive fills the bag from the inner
 * transport and takes copies out at random, leaving up to hold_max behind; once the inner one has
 * nothing more the bag is emptied, so everything comes out in the end. The inner delivery is
 * acknowledged when all its copies are settled; a copy on retry goes back into the bag, at once,
 * and counts one delivery more. A copy that is rejected is done.
 *
 * What it can do is what the inner one can, but for delays, which it does not keep: so there is one
 * driver table for each combination of abilities. */
#include <pthread.h>
#include <semel/sys/transport.h>
#include <semel/test.h>
#include <stdlib.h>
#include <string.h>

enum { COPIES_DEFAULT = 2, COPIES_MAX = 1000, HOLD_DEFAULT = 16, BUCKETS = 1024 };

/* An inner delivery. */
typedef struct original {
    uint64_t tag;
    uint32_t unsettled; /* copies */
    struct original *before;
    struct original *behind;
} original;

typedef struct copy {
    original *of;
    uint64_t tag; /* of its last delivery */
    semel_message message;
    struct copy *same_bucket;
} copy;

typedef struct chaos {
    pthread_mutex_t lock;
    semel_transport *inner;
    semel_test_chaos_options options;
    uint64_t random;
    uint64_t last_tag;
    original *originals;
    copy **bag;
    size_t in_bag;
    size_t alive;    /* copies, in the bag or out */
    size_t capacity; /* of the bag: enough for all that are alive */
    copy *out[BUCKETS];
} chaos;

typedef struct setup {
    semel_transport *inner;
    semel_test_chaos_options options;
} setup;

/* --- opening and closing ---------------------------------------------------------------------- */

static semel_status chaos_open(void *transport, const char *argument,
                               const semel_transport_settings *settings, semel_error *err)
{
    chaos *self = transport;
    const setup *given = (const void *)argument;
    (void)settings;
    if (given->options.copies > COPIES_MAX)
        return semel_fail(err, SEMEL_EINVAL, "semel_test_chaos_options.copies is over %d",
                          COPIES_MAX);
    if (pthread_mutex_init(&self->lock, NULL))
        return semel_fail(err, SEMEL_ENOMEM, "no mutex for a chaos transport");
    self->inner = given->inner;
    self->options = given->options;
    self->random = given->options.seed;
    return SEMEL_OK;
}

static void free_delivered(chaos *self)
{
    for (size_t i = 0; i < BUCKETS; i++)
        while (self->out[i]) {
            copy *next = self->out[i]->same_bucket;
            free(self->out[i]);
            self->out[i] = next;
        }
}

static void chaos_close(void *transport)
{
    chaos *self = transport;
    while (self->originals) {
        original *next = self->originals->behind;
        semel_delivery_settlement back = {.tag = self->originals->tag,
                                          .verdict = SEMEL_VERDICT_RETRY};
        (void)semel_transport_settle(self->inner, &back, 1, NULL);
        free(self->originals);
        self->originals = next;
    }
    for (size_t i = 0; i < self->in_bag; i++)
        free(self->bag[i]);
    free(self->bag);
    free_delivered(self);
    pthread_mutex_destroy(&self->lock);
}

static semel_durability chaos_durability(const void *transport)
{
    const chaos *self = transport;
    const semel_transport_driver *driver = semel_transport_driver_of(self->inner);
    return driver->durability(semel_transport_state(self->inner, driver));
}

static semel_status chaos_publish(void *transport, semel_publish_result results[],
                                  const semel_message *const messages[], size_t count,
                                  uint32_t wait_ms, semel_error *err)
{
    chaos *self = transport;
    return semel_transport_publish(results, self->inner, messages, count, wait_ms, err);
}

/* --- the bag ---------------------------------------------------------------------------------- */

/* SplitMix64. */
static size_t random_below(chaos *self, size_t bound)
{
    uint64_t z = (self->random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (size_t)((z ^ z >> 31) % bound);
}

static void bag_put(chaos *self, copy *one)
{
    self->bag[self->in_bag++] = one;
}

static copy *bag_draw(chaos *self)
{
    size_t i = random_below(self, self->in_bag);
    copy *one = self->bag[i];
    self->bag[i] = self->bag[--self->in_bag];
    return one;
}

static int bag_reserve(chaos *self, size_t more)
{
    if (self->alive + more <= self->capacity)
        return 1;
    size_t capacity = (self->alive + more) * 2;
    copy **bag = realloc(self->bag, capacity * sizeof(copy *));
    if (!bag)
        return 0;
    self->bag = bag;
    self->capacity = capacity;
    return 1;
}

static void link_original(chaos *self, original *one)
{
    one->behind = self->originals;
    if (one->behind)
        one->behind->before = one;
    self->originals = one;
}

static void unlink_original(chaos *self, original *one)
{
    *(one->before ? &one->before->behind : &self->originals) = one->behind;
    if (one->behind)
        one->behind->before = one->before;
}

static int add_copy(chaos *self, original *of, const semel_message *message)
{
    copy *one = calloc(1, sizeof *one);
    if (!one)
        return 0;
    one->of = of;
    one->message = *message;
    of->unsettled++;
    self->alive++;
    bag_put(self, one);
    return 1;
}

/* Fewer copies than asked for, if there is no memory; 0 if there is none for even one. */
static int add_original(chaos *self, const semel_delivery *delivery)
{
    original *one = bag_reserve(self, self->options.copies) ? calloc(1, sizeof *one) : NULL;
    if (!one)
        return 0;
    one->tag = delivery->tag;
    for (uint32_t i = 0; i < self->options.copies; i++)
        if (!add_copy(self, one, delivery->message))
            break;
    if (!one->unsettled) {
        free(one);
        return 0;
    }
    link_original(self, one);
    return 1;
}

/* --- receiving -------------------------------------------------------------------------------- */

static copy **bucket_of(chaos *self, uint64_t tag)
{
    return &self->out[tag % BUCKETS];
}

static semel_delivery deliver_copy(chaos *self, copy *one)
{
    copy **bucket = bucket_of(self, ++self->last_tag);
    one->tag = self->last_tag;
    one->same_bucket = *bucket;
    *bucket = one;
    /* without a position: it does not keep the order that positions stand for */
    return (semel_delivery){.tag = one->tag, .message = &one->message, .position = -1};
}

/* How many inner deliveries would bring the bag to what may stay in it and what is wanted from
 * it. */
static size_t originals_wanted(const chaos *self, size_t max)
{
    size_t full = self->options.hold_max + max;
    if (self->in_bag >= full)
        return 0;
    size_t originals = (full - self->in_bag + self->options.copies - 1) / self->options.copies;
    return originals < max ? originals : max;
}

/* Those that find no memory go back where they came from. */
static semel_status bag_fill(chaos *self, const semel_delivery deliveries[], size_t count,
                             semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; i < count; i++)
        if (!add_original(self, &deliveries[i])) {
            semel_delivery_settlement back = {.tag = deliveries[i].tag,
                                              .verdict = SEMEL_VERDICT_RETRY};
            (void)semel_transport_settle(self->inner, &back, 1, NULL);
            status = semel_fail(err, SEMEL_ENOMEM, "out of memory in a chaos transport");
        }
    return status;
}

/* The bag keeps up to hold_max, unless the inner transport has run dry; but one comes out
 * always. */
static size_t copies_to_deliver(const chaos *self, size_t max, int dry)
{
    size_t keep = dry ? 0 : self->options.hold_max;
    size_t count = self->in_bag > keep ? self->in_bag - keep : self->in_bag > 0;
    return count < max ? count : max;
}

/* Without the lock while the inner transport waits, so that others can settle. */
static semel_status ask_inner(chaos *self, semel_delivery deliveries[], size_t want, size_t *count,
                              uint32_t wait_ms, semel_error *err)
{
    *count = 0;
    if (!want)
        return SEMEL_OK;
    pthread_mutex_unlock(&self->lock);
    semel_status status =
        semel_transport_receive(self->inner, deliveries, want, count, wait_ms, err);
    pthread_mutex_lock(&self->lock);
    return status;
}

static semel_status receive_locked(chaos *self, semel_delivery deliveries[], size_t max,
                                   size_t *count, uint32_t wait_ms, semel_error *err)
{
    size_t got;
    size_t want = originals_wanted(self, max);
    semel_status status = ask_inner(self, deliveries, want, &got, self->in_bag ? 0 : wait_ms, err);
    if (!status)
        status = bag_fill(self, deliveries, got, err);
    if (status)
        return status;
    *count = copies_to_deliver(self, max, want && !got);
    for (size_t i = 0; i < *count; i++)
        deliveries[i] = deliver_copy(self, bag_draw(self));
    return SEMEL_OK;
}

static semel_status chaos_receive(void *transport, semel_delivery deliveries[], size_t max,
                                  size_t *count, uint32_t wait_ms, semel_error *err)
{
    chaos *self = transport;
    pthread_mutex_lock(&self->lock);
    semel_status status = receive_locked(self, deliveries, max, count, wait_ms, err);
    pthread_mutex_unlock(&self->lock);
    return status;
}

/* --- settling --------------------------------------------------------------------------------- */

static copy *remove_delivered(chaos *self, uint64_t tag)
{
    copy **at = bucket_of(self, tag);
    while (*at && (*at)->tag != tag)
        at = &(*at)->same_bucket;
    copy *one = *at;
    if (one)
        *at = one->same_bucket;
    return one;
}

/* 1 if the original is done with, and *tag is what the inner transport is to be told. */
static int finish_copy(chaos *self, copy *one, uint64_t *tag)
{
    original *of = one->of;
    free(one);
    self->alive--;
    if (--of->unsettled)
        return 0;
    *tag = of->tag;
    unlink_original(self, of);
    free(of);
    return 1;
}

static void retry_copy(chaos *self, copy *one)
{
    if (one->message.delivery)
        one->message.delivery++;
    bag_put(self, one);
}

static size_t settle_copies(chaos *self, const semel_delivery_settlement settles[], size_t count,
                            semel_delivery_settlement done[], size_t *unknown)
{
    size_t finished = 0;
    for (size_t i = 0; i < count; i++) {
        copy *one = remove_delivered(self, settles[i].tag);
        done[finished] = (semel_delivery_settlement){.verdict = SEMEL_VERDICT_ACK};
        if (!one)
            ++*unknown;
        else if (settles[i].verdict == SEMEL_VERDICT_RETRY)
            retry_copy(self, one);
        else
            finished += (size_t)finish_copy(self, one, &done[finished].tag);
    }
    return finished;
}

static semel_status chaos_settle(void *transport, const semel_delivery_settlement settles[],
                                 size_t count, semel_error *err)
{
    chaos *self = transport;
    size_t unknown = 0;
    semel_delivery_settlement *done = calloc(count + 1, sizeof *done);
    if (!done)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory in a chaos transport");
    pthread_mutex_lock(&self->lock);
    size_t finished = settle_copies(self, settles, count, done, &unknown);
    pthread_mutex_unlock(&self->lock);
    semel_status status =
        finished ? semel_transport_settle(self->inner, done, finished, err) : SEMEL_OK;
    free(done);
    if (!status && unknown)
        status = semel_fail(err, SEMEL_EINVAL, "%zu of %zu deliveries are not out (any more)",
                            unknown, count);
    return status;
}

/* What the inner transport has taken back, it has taken back with all copies. */
static int chaos_revoked(void *transport, uint64_t tag)
{
    chaos *self = transport;
    const semel_transport_driver *driver = semel_transport_driver_of(self->inner);
    if (!driver->revoked)
        return 0;
    pthread_mutex_lock(&self->lock);
    const copy *one = *bucket_of(self, tag);
    while (one && one->tag != tag)
        one = one->same_bucket;
    uint64_t inner_tag = one ? one->of->tag : 0;
    pthread_mutex_unlock(&self->lock);
    return one && driver->revoked(semel_transport_state(self->inner, driver), inner_tag);
}

/* --- the drivers ------------------------------------------------------------------------------ */

#define CHAOS(bits)                                                                         \
    {                                                                                       \
        .version = SEMEL_TRANSPORT_DRIVER_VERSION, .abilities = (bits), .scheme = "chaos",  \
        .transport_size = sizeof(chaos), .open = chaos_open, .close = chaos_close,          \
        .durability = chaos_durability, .publish = chaos_publish, .receive = chaos_receive, \
        .settle = chaos_settle, .revoked = chaos_revoked                                    \
    }

enum { KEPT = SEMEL_TRANSPORT_SHARED | SEMEL_TRANSPORT_ORDERED | SEMEL_TRANSPORT_COUNTS };

static const semel_transport_driver chaos_drivers[KEPT + 1] = {
    CHAOS(0), CHAOS(1), CHAOS(2), CHAOS(3), CHAOS(4), CHAOS(5), CHAOS(6), CHAOS(7)};

_Static_assert(KEPT == 7, "the three abilities that are kept are the three lowest bits");

semel_status semel_test_chaos_open(semel_transport **out, semel_transport *inner,
                                   const semel_test_chaos_options *options, semel_error *err)
{
    setup given = {.inner = inner};
    if (options)
        memcpy(&given.options, options,
               options->size < sizeof *options ? options->size : sizeof *options);
    if (!given.options.copies)
        given.options.copies = COPIES_DEFAULT;
    if (!given.options.hold_max)
        given.options.hold_max = HOLD_DEFAULT;
    uint32_t abilities = semel_transport_driver_of(inner)->abilities & KEPT;
    return semel_transport_open_driver(out, &chaos_drivers[abilities], &given, NULL, err);
}
