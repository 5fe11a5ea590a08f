/* A delivery, as the target for AMQP envelopes has it written:
 *
 *     redelivered                     ... counted: the queue counts deliveries
 *     routing-key=orders.eu
 *     message-id=7                    content-type, type, app-id, correlation-id, timestamp
 *     S:tenant=blue                   a header, with AMQP's letter for its type before the colon
 *     A:x-death=stock,rejected,3;...  arrays are of tables with queue, reason and count
 *                                     an empty line, and then the body
 *     {"item":1}
 *
 * What cannot be understood is left out, so that nearly every input is a delivery. */
#ifndef SEMEL_FUZZ_ENVELOPE_INPUT_H
#define SEMEL_FUZZ_ENVELOPE_INPUT_H

#include "transport/rabbitmq/envelope.h"

enum { INPUT_HEADERS_MAX = 200, INPUT_DEATHS_MAX = 8 };

typedef struct envelope_input {
    amqp_basic_properties_t properties;
    amqp_table_entry_t entries[INPUT_HEADERS_MAX];
    amqp_bytes_t routing_key;
    int redelivered, counted;
    semel_bytes body;
    amqp_field_value_t deaths[INPUT_DEATHS_MAX];
    amqp_table_entry_t death_entries[INPUT_DEATHS_MAX][3];
    char *text; /* what all of it points to */
} envelope_input;

void envelope_input_read(envelope_input *out, const void *data, size_t size);
void envelope_input_free(envelope_input *input);

#endif
