/* Reading: the reverse of envelope.c, and whatever a foreign publisher may have sent. What cannot
 * be understood is left out and never a reason to refuse a delivery.
 *
 *  - A member comes from its property; where that is absent, from the header that envelope.c would
 *    have used; where both are there, the header is the publisher's own and stays a header.
 *  - A text or a header's name with a NUL byte in it is no C text, and left out. Ids are bytes and
 *    may have one.
 *  - A CloudEvent in binary mode (there is a header cloudEvents_specversion, or with a colon for
 *    the underscore, in any case of letters): its attributes win over properties. Attributes that
 *    are no member's become headers, unless there is such a header already: envelope.c sends both.
 *  - A CloudEvent in structured mode (by its content type): the event wins over everything but
 *    `delivery`. If it cannot be read it is an ordinary message.
 *  - `delivery` adds up what the broker tells: x-delivery-count (quorum queues) and the times that
 *    this queue gave it to dead letters (x-death), if it came back from there. Dead letters that
 *    expired or did not fit were not delivered.
 *
 * Nothing of AMQP's is NUL-terminated: everything is copied by its length. */
#include "transport/rabbitmq/envelope.h"

#include "base/rfc3339.h"
#include "base/text.h"
#include "transport/common/structured.h"
#include "transport/rabbitmq/envelope_fields.h"
#include "transport/rabbitmq/envelope_value.h"

#define TIME_MS_MAX INT64_C(253402300799999) /* the end of the year 9999 */

typedef struct reading {
    mem_arena *arena;
    const rabbit_incoming *incoming;
    amqp_table_t table;
    int is_event; /* in binary mode */
    semel_message *message;
    semel_header *headers;
    int failed; /* out of memory */
} reading;

/* --- members ---------------------------------------------------------------------------------- */

static const void *keep_copy(reading *r, const void *data, size_t len)
{
    const void *copy = arena_copy(r->arena, data, len);
    r->failed |= !copy;
    return copy;
}

/* A C text; NULL if it is empty or none. */
static const char *keep_text(reading *r, amqp_bytes_t text)
{
    if (!text.len || memchr(text.bytes, 0, text.len))
        return NULL;
    return keep_copy(r, text.bytes, text.len);
}

static semel_bytes keep_bytes(reading *r, amqp_bytes_t bytes)
{
    const void *copy = keep_copy(r, bytes.bytes, bytes.len);
    return (semel_bytes){copy, copy ? bytes.len : 0};
}

/* 1 if it could be set; else the member stays as it is. */
static int set_member(reading *r, const rabbit_field *field, amqp_bytes_t value)
{
    char *member = (char *)r->message + field->offset;
    if (value.len > SEMEL_TEXT_MAX)
        return 0;
    if (field->is_bytes && value.len) {
        semel_bytes bytes = keep_bytes(r, value);
        memcpy(member, &bytes, sizeof bytes);
        return 1;
    }
    const char *text = field->is_bytes ? NULL : keep_text(r, value);
    if (text)
        memcpy(member, &text, sizeof text);
    return text != NULL;
}

static int has_property(const reading *r, const rabbit_field *field)
{
    amqp_bytes_t value;
    if (!field->flag || !(r->incoming->properties->_flags & field->flag))
        return 0;
    memcpy(&value, (const char *)r->incoming->properties + field->property, sizeof value);
    return value.len > 0;
}

static void read_properties(reading *r)
{
    for (size_t i = 0; i < RABBIT_FIELDS; i++) {
        amqp_bytes_t value;
        if (!has_property(r, &rabbit_fields[i]))
            continue;
        memcpy(&value, (const char *)r->incoming->properties + rabbit_fields[i].property,
               sizeof value);
        (void)set_member(r, &rabbit_fields[i], value);
    }
    r->message->topic = keep_text(r, r->incoming->routing_key);
}

/* Of an AMQP timestamp, which is in seconds, or by a common mistake in milliseconds; 0 if it is
 * absurd. */
static int64_t time_of(uint64_t timestamp)
{
    if (timestamp > TIME_MS_MAX)
        return 0;
    return timestamp > RABBIT_SECONDS_MAX ? (int64_t)timestamp : (int64_t)timestamp * 1000;
}

static void read_time(reading *r)
{
    if (r->incoming->properties->_flags & AMQP_BASIC_TIMESTAMP_FLAG)
        r->message->time_ms = time_of(r->incoming->properties->timestamp);
}

/* --- how often it was delivered --------------------------------------------------------------- */

static uint64_t count_of(const amqp_field_value_t *value)
{
    int64_t count = 0;
    if (!value || !rabbit_value_integer(&count, value) || count < 0)
        return 0;
    return count > UINT32_MAX ? UINT32_MAX : (uint64_t)count;
}

static int is_text(const amqp_field_value_t *value, const char *text)
{
    amqp_bytes_t bytes;
    return value && rabbit_value_bytes(&bytes, value) && rabbit_bytes_are(bytes, text);
}

static uint64_t count_death(const amqp_table_t *death, amqp_bytes_t queue)
{
    const amqp_field_value_t *from = rabbit_table_find(death, "queue");
    const amqp_field_value_t *reason = rabbit_table_find(death, "reason");
    amqp_bytes_t name;
    if (!from || !rabbit_value_bytes(&name, from) || name.len != queue.len || !name.len ||
        memcmp(name.bytes, queue.bytes, name.len) != 0)
        return 0;
    if (is_text(reason, "expired") || is_text(reason, "maxlen"))
        return 0;
    return count_of(rabbit_table_find(death, "count"));
}

static uint64_t count_deaths(const reading *r)
{
    const amqp_field_value_t *deaths = rabbit_table_find(&r->table, "x-death");
    uint64_t sum = 0;
    if (!deaths || deaths->kind != AMQP_FIELD_KIND_ARRAY)
        return 0;
    for (int i = 0; i < deaths->value.array.num_entries; i++) {
        const amqp_field_value_t *death = &deaths->value.array.entries[i];
        if (death->kind == AMQP_FIELD_KIND_TABLE && sum < UINT32_MAX)
            sum += count_death(&death->value.table, r->incoming->queue);
    }
    return sum;
}

/* A classic queue does not count, and a quorum queue says nothing the first time: there a publisher
 * may have written x-delivery-count. A count beyond a limit is not believed. */
static uint32_t count_deliveries(const reading *r)
{
    uint64_t count = 1 + count_deaths(r);
    if (r->incoming->counted && r->incoming->redelivered)
        count += count_of(rabbit_table_find(&r->table, "x-delivery-count"));
    if (r->incoming->redelivered && count < 2)
        count = 2;
    return count > RABBIT_DELIVERY_MAX ? RABBIT_DELIVERY_MAX : (uint32_t)count;
}

/* --- headers ---------------------------------------------------------------------------------- */

/* Text, bytes, and what can be printed; 0 for the others, which are left out. `room` may be pointed
 * to. */
static int value_text(amqp_bytes_t *out, char room[RABBIT_NUMBER_ROOM],
                      const amqp_field_value_t *value)
{
    if (rabbit_value_bytes(out, value))
        return 1;
    size_t len = rabbit_value_print(room, value);
    *out = (amqp_bytes_t){len, room};
    return len > 0;
}

/* What is over a limit of message.h is left out: better a message without it than none. */
static void add_header(reading *r, const char *name, amqp_bytes_t value)
{
    if (name && r->message->header_count < SEMEL_HEADERS_MAX &&
        strlen(name) + value.len <= SEMEL_HEADER_MAX)
        r->headers[r->message->header_count++] = (semel_header){name, keep_bytes(r, value)};
}

/* 1 if the header is a member that did not go into its property. */
static int read_member(reading *r, amqp_bytes_t key, amqp_bytes_t value)
{
    for (size_t i = 0; i < RABBIT_FIELDS; i++) {
        const rabbit_field *field = &rabbit_fields[i];
        if (field->header && rabbit_bytes_are(key, field->header))
            return !has_property(r, field) && set_member(r, field, value);
    }
    return 0;
}

/* 1 if the header is the exact time of a message whose timestamp says the same in seconds, or
 * nothing. */
static int read_exact_time(reading *r, amqp_bytes_t key, const amqp_field_value_t *value)
{
    const amqp_basic_properties_t *properties = r->incoming->properties;
    int64_t ms;
    if (!rabbit_bytes_are(key, rabbit_time_header) || !rabbit_value_integer(&ms, value))
        return 0;
    if ((properties->_flags & AMQP_BASIC_TIMESTAMP_FLAG) &&
        (ms < 0 || (uint64_t)rabbit_seconds(ms) != properties->timestamp))
        return 0;
    r->message->time_ms = ms;
    return 1;
}

static int is_delivery_count(amqp_bytes_t key, const amqp_field_value_t *value)
{
    int64_t count;
    return rabbit_bytes_are(key, "x-delivery-count") && rabbit_value_integer(&count, value);
}

/* --- CloudEvents in binary mode --------------------------------------------------------------- */

/* The attribute's name; empty if the header is none. */
static amqp_bytes_t attribute_of(amqp_bytes_t key)
{
    static const char prefix[] = "cloudevents";
    const size_t len = sizeof prefix; /* with one character more, the separator */
    const char *text = key.bytes;
    if (key.len <= len || (text[len - 1] != '_' && text[len - 1] != ':'))
        return amqp_empty_bytes;
    for (size_t i = 0; i < len - 1; i++)
        if (text_lower(text[i]) != prefix[i])
            return amqp_empty_bytes;
    return (amqp_bytes_t){key.len - len, (char *)key.bytes + len};
}

static int names_same(const char *name, size_t len, const char *text)
{
    if (len != strlen(text))
        return 0;
    for (size_t i = 0; i < len; i++)
        if (text_lower(name[i]) != text_lower(text[i]))
            return 0;
    return 1;
}

static int attribute_is(amqp_bytes_t name, const char *text)
{
    return names_same(name.bytes, name.len, text);
}

static int table_has_event(const amqp_table_t *table)
{
    for (int i = 0; i < table->num_entries; i++)
        if (attribute_is(attribute_of(table->entries[i].key), "specversion"))
            return 1;
    return 0;
}

static void read_event_time(reading *r, const amqp_field_value_t *value, amqp_bytes_t text)
{
    int64_t ms;
    if (value->kind == AMQP_FIELD_KIND_TIMESTAMP)
        r->message->time_ms = time_of(value->value.u64);
    else if (rfc3339_parse(&ms, text.bytes, text.len))
        r->message->time_ms = ms;
}

/* 1 if the attribute is a member's, whether or not the member could take it. */
static int read_attribute(reading *r, amqp_bytes_t name, const amqp_field_value_t *value,
                          amqp_bytes_t text)
{
    for (size_t i = 0; i < RABBIT_FIELDS; i++)
        if (attribute_is(name, rabbit_fields[i].event)) {
            (void)set_member(r, &rabbit_fields[i], text);
            return 1;
        }
    if (attribute_is(name, "time"))
        read_event_time(r, value, text);
    return attribute_is(name, "time") || attribute_is(name, "specversion");
}

static const char *lower_text(reading *r, amqp_bytes_t name)
{
    if (!name.len || memchr(name.bytes, 0, name.len))
        return NULL;
    char *copy = arena_copy(r->arena, name.bytes, name.len);
    for (size_t i = 0; copy && i < name.len; i++)
        copy[i] = text_lower(copy[i]);
    r->failed |= !copy;
    return copy;
}

/* After the headers, so that those are known. */
static void read_event(reading *r)
{
    for (int i = 0; i < r->table.num_entries && !r->failed; i++) {
        const amqp_table_entry_t *entry = &r->table.entries[i];
        amqp_bytes_t name = attribute_of(entry->key), text;
        char room[RABBIT_NUMBER_ROOM];
        if (!name.len || !value_text(&text, room, &entry->value) ||
            read_attribute(r, name, &entry->value, text))
            continue;
        const char *header = lower_text(r, name);
        if (header && !semel_message_header(r->message, header).data)
            add_header(r, header, text);
    }
}

/* --- all of the table ------------------------------------------------------------------------- */

static void read_header(reading *r, const amqp_table_entry_t *entry)
{
    char room[RABBIT_NUMBER_ROOM];
    amqp_bytes_t value;
    if (is_delivery_count(entry->key,
                          &entry->value) || /* x-death is an array, and left out as such */
        !value_text(&value, room, &entry->value) ||
        (r->is_event && attribute_of(entry->key).len) ||
        read_exact_time(r, entry->key, &entry->value) || read_member(r, entry->key, value))
        return;
    add_header(r, keep_text(r, entry->key), value);
}

static void read_table(reading *r)
{
    size_t count = (size_t)r->table.num_entries;
    if (!count)
        return;
    r->headers = arena_alloc(r->arena, count * sizeof *r->headers);
    r->failed |= !r->headers;
    r->message->headers = r->headers;
    for (size_t i = 0; i < count && !r->failed; i++)
        read_header(r, &r->table.entries[i]);
    if (r->is_event)
        read_event(r);
    if (!r->message->header_count)
        r->message->headers = NULL;
}

semel_message *rabbit_envelope_read(mem_arena *arena, const rabbit_incoming *incoming)
{
    reading r = {.arena = arena, .incoming = incoming};
    if (incoming->properties->_flags & AMQP_BASIC_HEADERS_FLAG)
        r.table = incoming->properties->headers;
    r.is_event = table_has_event(&r.table);
    r.message = arena_alloc(arena, sizeof *r.message);
    if (!r.message)
        return NULL;
    *r.message = (semel_message){.size = sizeof *r.message, .body = incoming->body};
    read_properties(&r);
    read_time(&r);
    read_table(&r);
    r.message->delivery = count_deliveries(&r);
    if (r.failed)
        return NULL;
    return structured_read(arena, r.message);
}
