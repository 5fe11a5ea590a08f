/* A consumer whose inbox remembers positions, in a store in memory that outlives it: as often as a
 * test wants, on whatever topic, group and cluster the URL names. */
#ifndef SEMEL_TESTS_POSITION_READER_H
#define SEMEL_TESTS_POSITION_READER_H

#include <semel/semel.h>

typedef struct position_reader {
    semel_store *store;
    semel_inbox *inbox;
    unsigned handled; /* by all consumers so far */
} position_reader;

/* `clock_margin_ms` is the inbox's. */
void position_reader_open(position_reader *reader, uint32_t clock_margin_ms);
void position_reader_close(position_reader *reader);

/* A consumer that is opened, settles so many deliveries and is closed. SEMEL_OK, or the first error
 * that is not retryable, with last_error. */
semel_status position_reader_settle(position_reader *reader, const char *url, size_t deliveries);

/* Counts; the context is the reader. */
semel_status position_reader_handle(semel_unit *unit, const semel_message *message, void *context,
                                    semel_error *err);

#endif
