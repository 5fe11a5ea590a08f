/* For tests of the AMQP envelope. Properties go through rabbitmq-c's own encoding and back, into
 * memory that ends where they end, so that a sanitizer sees a step too far. */
#ifndef SEMEL_TESTS_AMQP_KIT_H
#define SEMEL_TESTS_AMQP_KIT_H

#include "support/base/check.h"

#include "base/mem.h"
#include "transport/rabbitmq/envelope.h"

#include <stdlib.h>
#include <string.h>

enum { KIT_WIRE_MAX = 4 << 20, KIT_POOL_PAGE = 4096, KIT_NO_FRAME_MAX = 0 };

/* What came over the wire. */
typedef struct kit_wire {
    amqp_pool_t pool;
    void *bytes;
    size_t len; /* of the encoded properties, with their flags */
    amqp_basic_properties_t *properties;
} kit_wire;

void kit_wire_pass(kit_wire *wire, const amqp_basic_properties_t *properties);
void kit_wire_free(kit_wire *wire);
amqp_bytes_t kit_bytes(const void *data, size_t len);
amqp_bytes_t kit_text(const char *text);

/* --- values of headers ------------------------------------------------------------------------ */

amqp_field_value_t kit_string(const char *text);
amqp_field_value_t kit_i64(int64_t number);
amqp_field_value_t kit_array(amqp_field_value_t *values, int count);
amqp_field_value_t kit_table(amqp_table_entry_t *entries, int count);
amqp_table_entry_t kit_entry(const char *name, amqp_field_value_t value);

/* What every CloudEvent has, in JSON. */
#define KIT_EVENT "\"specversion\":\"1.0\",\"id\":\"e\",\"source\":\"/s\",\"type\":\"t\""

#define KIT_VALUE(name, member, number) \
    ((amqp_field_value_t){.kind = AMQP_FIELD_KIND_##name, .value.member = (number)})

/* --- what was sent ---------------------------------------------------------------------------- */

const amqp_field_value_t *kit_find(const amqp_basic_properties_t *properties, const char *name);
void assert_amqp_bytes(amqp_bytes_t bytes, const char *text);
void assert_amqp_header(const amqp_basic_properties_t *properties, const char *name,
                        const char *text);

/* --- there and back --------------------------------------------------------------------------- */

void assert_comes_back(const semel_message *message);
void assert_event_comes_back(const semel_message *message);
semel_message kit_full_message(void);
semel_status kit_write(const semel_message *message, int cloudevents);

/* --- what is received ------------------------------------------------------------------------- */

/* A delivery in the making, and what was read of it. */
typedef struct mail {
    amqp_basic_properties_t properties;
    amqp_table_entry_t entries[16];
    const char *routing_key, *queue;
    int redelivered;
    int classic; /* the queue, which does not count */
    semel_bytes body;
    kit_wire wire;
    mem_arena arena;
    const semel_message *message;
} mail;

void mail_add(mail *m, const char *name, amqp_field_value_t value);
void mail_add_text(mail *m, const char *name, const char *text);
void mail_set(mail *m, amqp_flags_t flag, amqp_bytes_t *property, const char *text);
void mail_set_id(mail *m, const char *id);
void mail_set_content_type(mail *m, const char *type);
void mail_set_time(mail *m, uint64_t timestamp);
const semel_message *mail_deliver(mail *m);
void mail_discard(mail *m);
void assert_message_header(const semel_message *message, const char *name, const char *text);

/* Returns how many allocations failed before one reading had all it needed. */
long mail_starve(mail *m);

#endif
