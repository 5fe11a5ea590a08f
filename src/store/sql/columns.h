/* What the stores' columns have in common: of a message, the same ten in two tables, of a dead
 * letter, of a result. */
#ifndef SEMEL_STORE_SQL_COLUMNS_H
#define SEMEL_STORE_SQL_COLUMNS_H

#include "base/mem.h"

#include <semel/sys/store.h>

/* In the order of MESSAGE_COLUMNS in each statement.c. */
enum {
    MESSAGE_GROUP,
    MESSAGE_ID,
    MESSAGE_SOURCE,
    MESSAGE_TYPE,
    MESSAGE_TOPIC,
    MESSAGE_CORRELATION_ID,
    MESSAGE_CONTENT_TYPE,
    MESSAGE_TIME,
    MESSAGE_HEADERS,
    MESSAGE_BODY,
    MESSAGE_COLUMN_COUNT
};

/* A message without a group has NULL there, whichever way that was said. */
static inline const char *sql_text_or_null(const char *text)
{
    return text && *text ? text : NULL;
}

/* The headers as one blob, in the arena; without headers its data is NULL. */
semel_status sql_headers_pack(semel_bytes *out, mem_arena *arena, const semel_message *message,
                              semel_error *err);

/* Adds the message, which was read with this outcome. A letter that cannot be read is shown as
 * damaged: it must not hide the others. */
semel_status sql_dead_complete(semel_dead *dead, const semel_message *message, semel_status outcome,
                               const semel_error *damage, semel_error *err);

/* The same for a row of a list. */
semel_status sql_outgoing_complete(semel_outgoing *outgoing, const semel_message *message,
                                   semel_status outcome, const semel_error *damage,
                                   semel_error *err);

/* ENOTFOUND: the letter is not there, or its retry is not in the state that was expected. */
semel_status sql_retry_missed(int64_t id, semel_error *err);

/* ENOTFOUND: the audit has no such entry. */
semel_status sql_audit_missed(int64_t id, semel_error *err);

/* A copy, which is the caller's; NULL of none. */
semel_status sql_result_copy(void **out, size_t *len, semel_bytes stored, semel_error *err);

#endif
