#include "support/servers/kafka/position_reader.h"

#include "support/base/check.h"
#include "support/process/process.h"

#include <semel/consumer.h>

enum { STEP_MS = 100, PATIENCE_MS = 90000 };

void position_reader_open(position_reader *reader, uint32_t clock_margin_ms)
{
    semel_inbox_options options = {.size = sizeof options,
                                   .mode = SEMEL_TRANSACTION,
                                   .remember = SEMEL_REMEMBER_POSITIONS,
                                   .clock_margin_ms = clock_margin_ms};
    *reader = (position_reader){0};
    OK(semel_store_open(&reader->store, "memory:", NULL, &last_error));
    OK(semel_inbox_open(&reader->inbox, reader->store, "orders", &options, &last_error));
}

void position_reader_close(position_reader *reader)
{
    semel_inbox_close(reader->inbox);
    semel_store_close(reader->store);
}

semel_status position_reader_handle(semel_unit *unit, const semel_message *message, void *context,
                                    semel_error *err)
{
    position_reader *reader = context;
    (void)unit;
    (void)message;
    (void)err;
    reader->handled++;
    return SEMEL_OK;
}

static semel_status step_until(semel_consumer *consumer, size_t wanted)
{
    int64_t deadline = process_now_ms() + PATIENCE_MS;
    for (size_t all = 0, settled; all < wanted; all += settled) {
        semel_status status = semel_consumer_step(&settled, consumer, STEP_MS, &last_error);
        if (status && !last_error.retryable)
            return status;
        settled = status ? 0 : settled;
        if (process_now_ms() > deadline)
            fail_msg("%zu of %zu deliveries were settled", all, wanted);
    }
    return SEMEL_OK;
}

semel_status position_reader_settle(position_reader *reader, const char *url, size_t deliveries)
{
    semel_transport *transport;
    semel_consumer *consumer;
    semel_route route = {"*", reader->inbox, position_reader_handle, reader};
    OK(semel_transport_open(&transport, url, NULL, &last_error));
    OK(semel_consumer_open(&consumer, transport, &route, 1, NULL, &last_error));
    semel_status status = step_until(consumer, deliveries);
    semel_consumer_close(consumer);
    semel_transport_close(transport);
    return status;
}
