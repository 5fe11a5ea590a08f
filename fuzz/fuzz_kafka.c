/* Records of Kafka, from any producer:
 *
 *     topic=orders                    partition, offset, timestamp, key
 *     :ce_id=7                        a header, behind the colon
 *     :trace                          ... without a value
 *                                     an empty line, and then the value of the record
 *     {"item":1}
 *
 *  - Every record is a message with an id, within all limits, and the same one if it is read twice.
 *  - What was read can be written, as an event too unless it lacks what an event needs; written and
 *    read again from another place of another topic it is the same message.
 *  - Of two headers with one name the first counts.
 *  - Left out are headers with the name of one of ours, and what would mean something else the
 *    second time: attributes of an event within an event's attributes, and an event in an event. */
#include "pieces.h"
#include "transport/kafka/envelope.h"
#include "transport/kafka/envelope_fields.h"
#include "trip.h"

enum { HEADERS_MAX = 200, NAME_MAX = 248 }; /* of a topic, by Kafka's rules 249 */

/* --- the input -------------------------------------------------------------------------------- */

typedef struct record_input {
    kafka_incoming incoming;
    semel_header headers[HEADERS_MAX];
    char *text;
} record_input;

/* In memory that ends where it ends: librdkafka's buffers promise nothing behind a value. */
static semel_bytes exact_bytes(semel_bytes bytes)
{
    return bytes.data ? (semel_bytes){exact_copy(bytes.data, bytes.len), bytes.len} : bytes;
}

static void read_header(record_input *in, piece name, piece value)
{
    kafka_record *record = &in->incoming.record;
    int has_value = value.at != name.at + name.len;
    if (record->header_count == HEADERS_MAX)
        return;
    in->headers[record->header_count++] =
        (semel_header){name.at, exact_bytes((semel_bytes){has_value ? value.at : NULL, value.len})};
}

static void read_line(record_input *in, piece name, piece value)
{
    kafka_incoming *incoming = &in->incoming;
    if (name.at[0] == ':') {
        read_header(in, (piece){name.at + 1, name.len - 1}, value);
    } else if (strcmp(name.at, "topic") == 0) {
        value.at[value.len < NAME_MAX ? value.len : NAME_MAX] = 0;
        incoming->topic = value.at;
    } else if (strcmp(name.at, "partition") == 0) {
        incoming->partition = (int32_t)strtol(value.at, NULL, 10);
    } else if (strcmp(name.at, "offset") == 0) {
        incoming->offset = strtoll(value.at, NULL, 10);
    } else if (strcmp(name.at, "timestamp") == 0) {
        incoming->record.timestamp_ms = strtoll(value.at, NULL, 10);
    } else if (strcmp(name.at, "key") == 0) {
        incoming->record.key = (semel_bytes){value.at, value.len};
    }
}

static void read_input(record_input *out, const uint8_t *data, size_t size)
{
    piece rest = pieces_of(data, size), name, value;
    *out = (record_input){.incoming = {.topic = "orders"}, .text = rest.at};
    out->incoming.record.headers = out->headers;
    while (take_line(&name, &value, &rest))
        read_line(out, name, value);
    out->incoming.record.key = exact_bytes(out->incoming.record.key);
    out->incoming.record.body = exact_bytes((semel_bytes){rest.len ? rest.at : NULL, rest.len});
}

static void free_record(kafka_record *record)
{
    for (size_t i = 0; i < record->header_count; i++)
        free((void *)record->headers[i].value.data);
    free((void *)record->key.data);
    free((void *)record->body.data);
}

/* --- there and back --------------------------------------------------------------------------- */

static int is_sent(const semel_message *message, const char *name)
{
    (void)message;
    return !kafka_header_is_ours(name);
}

/* As a broker hands it on; every header of ours comes a second time, with another value. */
static void arrive(record_input *out, const kafka_record *sent, int twice)
{
    static const char other[] = "2001-02-03T04:05:06Z";
    *out = (record_input){
        .incoming = {.record = *sent, .topic = "elsewhere", .partition = 5, .offset = 77}};
    kafka_record *record = &out->incoming.record;
    HOLDS(record->body.data && record->timestamp_ms >= 0);
    record->headers = out->headers;
    record->key = exact_bytes(record->key);
    record->body = exact_bytes(record->body);
    for (size_t i = 0; i < sent->header_count; i++)
        out->headers[i] =
            (semel_header){sent->headers[i].name, exact_bytes(sent->headers[i].value)};
    for (size_t i = 0; twice && i < sent->header_count; i++)
        if (kafka_header_is_ours(sent->headers[i].name))
            out->headers[record->header_count++] =
                (semel_header){sent->headers[i].name, exact_bytes(semel_str(other))};
}

static void check_arrival(const semel_message *message, const kafka_record *sent, int twice)
{
    static record_input input;
    mem_arena arena = {0};
    HOLDS(sent->header_count + KAFKA_FIELDS + 3 <= HEADERS_MAX * 2);
    if (sent->header_count + KAFKA_FIELDS + 3 > HEADERS_MAX)
        return;
    arrive(&input, sent, twice);
    const semel_message *back = kafka_envelope_read(&arena, &input.incoming);
    HOLDS(back);
    check_limits(back);
    if (message->id.len)
        check_same(message, back, is_sent);
    free_record(&input.incoming.record);
    arena_free(&arena);
}

static void check_trip(const semel_message *message, int cloudevents)
{
    kafka_record record;
    mem_arena arena = {0};
    semel_error err = {0};
    semel_status status = kafka_envelope_write(&record, &arena, message, cloudevents, &err);
    if (status) {
        check_error(status, &err);
        HOLDS(cloudevents && status == SEMEL_EINVAL);
    } else {
        check_arrival(message, &record, 0);
        check_arrival(message, &record, 1);
    }
    arena_free(&arena);
}

/* --- all of it -------------------------------------------------------------------------------- */

static void check_record(const kafka_incoming *incoming)
{
    mem_arena arena = {0};
    const semel_message *message = kafka_envelope_read(&arena, incoming);
    const semel_message *again = kafka_envelope_read(&arena, incoming);
    HOLDS(message && again);
    check_limits(message);
    HOLDS(message->id.len && !message->delivery && !message->delay_ms);
    check_same(message, again, NULL);
    if (!is_event_in_body(message) && !has_header_of(message, kafka_event_prefix)) {
        check_trip(message, 0);
        check_trip(message, 1);
    }
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static record_input input;
    read_input(&input, data, size);
    check_record(&input.incoming);
    free_record(&input.incoming.record);
    free(input.text);
    return 0;
}
