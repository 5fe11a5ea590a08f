/* A transport that remembers what is published and gives the answers it was told to give.
 *
 * It does not claim to keep the order within a group after a failure (SEMEL_TRANSPORT_ORDERED),
 * since its answers are given message by message: a relay treats it as a broker that may do the
 * same. */
#include <pthread.h>
#include <semel/sys/transport.h>
#include <semel/test.h>
#include <stdlib.h>
#include <string.h>

/* What the next `left` messages with a topic are answered. */
typedef struct answer {
    struct answer *next;
    semel_publish_result result;
    size_t left;
    int any_topic;
    char topic[];
} answer;

typedef struct recorder {
    pthread_mutex_t lock;
    semel_message **messages;
    size_t count;
    size_t capacity;
    answer *answers; /* in the order in which they were given */
} recorder;

/* --- answers ---------------------------------------------------------------------------------- */

static int answer_fits(const answer *one, const semel_message *message)
{
    return one->left &&
           (one->any_topic || strcmp(one->topic, message->topic ? message->topic : "") == 0);
}

/* The first plan that fits and is not used up. */
static semel_publish_result next_answer(recorder *self, const semel_message *message)
{
    for (answer *one = self->answers; one; one = one->next)
        if (answer_fits(one, message)) {
            one->left--;
            return one->result;
        }
    return SEMEL_PUBLISH_CONFIRMED;
}

static void add_answer(recorder *self, answer *one)
{
    answer **end = &self->answers;
    while (*end)
        end = &(*end)->next;
    *end = one;
}

/* --- the driver ------------------------------------------------------------------------------- */

static semel_status recorder_open(void *transport, const char *argument,
                                  const semel_transport_settings *settings, semel_error *err)
{
    recorder *self = transport;
    (void)argument;
    (void)settings;
    if (pthread_mutex_init(&self->lock, NULL))
        return semel_fail(err, SEMEL_ENOMEM, "no mutex for a recorder");
    return SEMEL_OK;
}

static void recorder_close(void *transport)
{
    recorder *self = transport;
    for (size_t i = 0; i < self->count; i++)
        semel_message_free(self->messages[i]);
    free(self->messages);
    while (self->answers) {
        answer *next = self->answers->next;
        free(self->answers);
        self->answers = next;
    }
    pthread_mutex_destroy(&self->lock);
}

static semel_durability recorder_durability(const void *transport)
{
    (void)transport;
    return SEMEL_DURABLE_NOT;
}

static semel_status record_message(recorder *self, const semel_message *message, semel_error *err)
{
    if (self->count == self->capacity) {
        size_t capacity = self->capacity ? self->capacity * 2 : 64;
        semel_message **messages = realloc(self->messages, capacity * sizeof(semel_message *));
        if (!messages)
            return semel_fail(err, SEMEL_ENOMEM, "out of memory in a recorder");
        self->messages = messages;
        self->capacity = capacity;
    }
    semel_status status = semel_message_copy(&self->messages[self->count], message, err);
    self->count += !status;
    return status;
}

/* An answer that was lost may hide that the broker has it. */
static int is_taken(semel_publish_result said)
{
    return said == SEMEL_PUBLISH_CONFIRMED || said == SEMEL_PUBLISH_UNKNOWN;
}

static semel_status publish_one(recorder *self, semel_publish_result *result,
                                const semel_message *message, semel_error *err)
{
    semel_publish_result said = next_answer(self, message);
    semel_status status = is_taken(said) ? record_message(self, message, err) : SEMEL_OK;
    if (!status)
        *result = said;
    return status;
}

static semel_status recorder_publish(void *transport, semel_publish_result results[],
                                     const semel_message *const messages[], size_t count,
                                     uint32_t wait_ms, semel_error *err)
{
    recorder *self = transport;
    semel_status status = SEMEL_OK;
    size_t unanswered = 0;
    (void)wait_ms;
    for (size_t i = 0; i < count; i++)
        results[i] = SEMEL_PUBLISH_UNKNOWN;
    pthread_mutex_lock(&self->lock);
    for (size_t i = 0; i < count && !status; i++) {
        status = publish_one(self, &results[i], messages[i], err);
        unanswered += results[i] == SEMEL_PUBLISH_UNKNOWN;
    }
    pthread_mutex_unlock(&self->lock);
    if (!status && unanswered)
        status = semel_fail(err, SEMEL_EUNAVAILABLE,
                            "the recorder lost %zu answers, as it was told", unanswered);
    return status;
}

static semel_status recorder_receive(void *transport, semel_delivery deliveries[], size_t max,
                                     size_t *count, uint32_t wait_ms, semel_error *err)
{
    (void)transport;
    (void)deliveries;
    (void)max;
    (void)wait_ms;
    (void)err;
    *count = 0;
    return SEMEL_OK;
}

static semel_status recorder_settle(void *transport, const semel_delivery_settlement settles[],
                                    size_t count, semel_error *err)
{
    (void)transport;
    (void)settles;
    return count ? semel_fail(err, SEMEL_EINVAL, "a recorder delivers nothing to be settled")
                 : SEMEL_OK;
}

static const semel_transport_driver recorder_driver = {
    .version = SEMEL_TRANSPORT_DRIVER_VERSION,
    .abilities = SEMEL_TRANSPORT_SHARED | SEMEL_TRANSPORT_COUNTS,
    .scheme = "recorder",
    .transport_size = sizeof(recorder),
    .open = recorder_open,
    .close = recorder_close,
    .durability = recorder_durability,
    .publish = recorder_publish,
    .receive = recorder_receive,
    .settle = recorder_settle,
};

/* --- what tests call -------------------------------------------------------------------------- */

static recorder *recorder_of(const semel_transport *transport)
{
    return semel_transport_state(transport, &recorder_driver);
}

semel_status semel_test_recorder_open(semel_transport **out, semel_error *err)
{
    return semel_transport_open_driver(out, &recorder_driver, NULL, NULL, err);
}

size_t semel_test_recorder_count(const semel_transport *transport)
{
    recorder *self = recorder_of(transport);
    if (!self)
        return 0;
    pthread_mutex_lock(&self->lock);
    size_t count = self->count;
    pthread_mutex_unlock(&self->lock);
    return count;
}

const semel_message *semel_test_recorder_message(const semel_transport *transport, size_t index)
{
    recorder *self = recorder_of(transport);
    if (!self)
        return NULL;
    pthread_mutex_lock(&self->lock);
    const semel_message *message = index < self->count ? self->messages[index] : NULL;
    pthread_mutex_unlock(&self->lock);
    return message;
}

/* It cannot report a failure, and a plan that is silently missing would make a test lie. */
void semel_test_recorder_answer(semel_transport *transport, const char *topic,
                                semel_publish_result result, size_t count)
{
    recorder *self = recorder_of(transport);
    size_t len = topic ? strlen(topic) : 0;
    answer *one = self ? calloc(1, sizeof *one + len + 1) : NULL;
    if (!one)
        abort(); /* allowed: this is test code */
    one->result = result;
    one->left = count;
    one->any_topic = topic == NULL;
    if (topic)
        memcpy(one->topic, topic, len);
    pthread_mutex_lock(&self->lock);
    add_answer(self, one);
    pthread_mutex_unlock(&self->lock);
}
