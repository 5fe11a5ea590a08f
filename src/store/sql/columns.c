#include "store/sql/columns.h"

#include "base/message.h"

#include <string.h>

semel_status sql_headers_pack(semel_bytes *out, mem_arena *arena, const semel_message *message,
                              semel_error *err)
{
    size_t size = headers_size(message);
    unsigned char *headers = size ? arena_alloc(arena, size) : NULL;
    if (size && !headers)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a message's headers");
    if (size)
        headers_write(headers, message);
    *out = (semel_bytes){headers, size};
    return SEMEL_OK;
}

semel_status sql_dead_complete(semel_dead *dead, const semel_message *message, semel_status outcome,
                               const semel_error *damage, semel_error *err)
{
    if (outcome == SEMEL_ENOMEM)
        return semel_fail(err, outcome, "%s", damage->text);
    dead->message = outcome ? NULL : message;
    dead->error = outcome ? damage->text : dead->error ? dead->error : "";
    return SEMEL_OK;
}

semel_status sql_outgoing_complete(semel_outgoing *outgoing, const semel_message *message,
                                   semel_status outcome, const semel_error *damage,
                                   semel_error *err)
{
    if (outcome == SEMEL_ENOMEM)
        return semel_fail(err, outcome, "%s", damage->text);
    outgoing->message = outcome ? NULL : message;
    outgoing->error = outcome ? damage->text : outgoing->error ? outgoing->error : "";
    return SEMEL_OK;
}

semel_status sql_retry_missed(int64_t id, semel_error *err)
{
    return semel_fail(err, SEMEL_ENOTFOUND,
                      "dead letter %lld is not there (any more), or another process has taken it",
                      (long long)id);
}

semel_status sql_audit_missed(int64_t id, semel_error *err)
{
    return semel_fail(err, SEMEL_ENOTFOUND, "the audit has no entry %lld", (long long)id);
}

semel_status sql_result_copy(void **out, size_t *len, semel_bytes stored, semel_error *err)
{
    void *copy = stored.data ? mem_alloc(stored.len + 1) : NULL;
    if (stored.data && !copy)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a stored result");
    if (copy)
        memcpy(copy, stored.data, stored.len);
    *out = copy;
    *len = stored.len;
    return SEMEL_OK;
}
