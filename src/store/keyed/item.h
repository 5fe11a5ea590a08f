/* Messages as records have them. What a list shows, and what is written anew with every change, is
 * in the value; headers and body of the message, which may be large and never change, are the
 * record's body. */
#ifndef SEMEL_STORE_KEYED_ITEM_H
#define SEMEL_STORE_KEYED_ITEM_H

#include "store/keyed/keyed.h"

/* --- messages --------------------------------------------------------------------------------- */

/* Fields from here on are a message's; a record has its own ones below. */
enum { KEYED_MESSAGE_FIELDS = 64 };

void keyed_message_write(fields_writer *to, const semel_message *message);

/* Takes the field if it is a message's. 0: out of memory. */
int keyed_message_take(semel_message *message, const fields_reader *at, mem_arena *arena);

/* Headers and body of the message; {NULL, 0} if it has neither. 0: out of memory. */
int keyed_message_body(semel_bytes *out, mem_arena *arena, const semel_message *message);

/* The reverse. ESTORE if it is damaged. The body is not copied. */
semel_status keyed_message_take_body(semel_message *message, mem_arena *arena, semel_bytes body,
                                     semel_error *err);

/* --- messages in an outbox -------------------------------------------------------------------- */

/* A record of o/ or x/. */
typedef struct keyed_item {
    int64_t scope;
    int64_t number;
    unsigned char version[SEMEL_KEYED_VERSION_LEN];
    uint64_t token;   /* of the lease; 0: none */
    int64_t until_ms; /* when the lease ends */
    uint32_t attempts;
    uint32_t refusals;
    int64_t captured_ms;
    int64_t due_ms; /* when it may be sent, if there is no lease */
    int64_t sent_ms;
    int64_t previous;  /* the message of its group that was put before it; 0: it was the first */
    const char *error; /* never NULL */
    int damaged;       /* it is read as far as that was possible */
    semel_message message;
} keyed_item;

/* Reads a record of o/. With `contents` also headers and body. ESTORE if it is damaged, with a text
 * that names the message; `out` has what could be read. */
semel_status keyed_item_read(keyed_item *out, const semel_keyed_record *record, int64_t scope,
                             int contents, mem_arena *arena, semel_error *err);

/* The value of the record. 0: out of memory. */
int keyed_item_value(semel_bytes *out, mem_arena *arena, const keyed_item *item);

/* When the message may be leased, as far as it alone decides: its place in r/. */
int64_t keyed_item_wake_ms(const keyed_item *item);

/* No live lease has it, and its time has come. */
int keyed_item_is_due(const keyed_item *item, int64_t now_ms, uint32_t error_ms);

static inline int keyed_item_is_leased(const keyed_item *item, int64_t now_ms, uint32_t error_ms)
{
    return item->token && !keyed_is_over(item->until_ms, now_ms, error_ms);
}

#endif
