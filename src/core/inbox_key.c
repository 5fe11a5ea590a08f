/* The key of a message in an inbox: for receiving, for tools, and for other services.
 *
 * The key that is passed on to other services must be the same for every attempt at a message and
 * differ for everything else that may reach the same account there. So it is a digest of the
 * inbox's name and the whole key, and of nothing that differs between processes, stores or
 * attempts. The name is preceded by its length, so that no other name and key give the same
 * bytes. */
#include "core/inbox.h"

#include "base/digest.h"
#include "base/uuid.h"

#include <string.h>

semel_status inbox_compute_key(semel_bytes *out, mem_arena *arena, const semel_inbox *inbox,
                               const semel_message *message, semel_error *err)
{
    semel_status status = key_compute(out, arena, &inbox->plan, message, err);
    if (status || out->len || inbox->options.on_missing_key != SEMEL_MISSING_KEY_DIGEST)
        return status;
    return key_digest(out, arena, message, err);
}

static semel_status no_key(const semel_inbox *inbox, semel_error *err)
{
    return semel_fail(err, SEMEL_ENOTFOUND, "inbox \"%s\": the message has no key", inbox->name);
}

semel_status semel_inbox_key(void *key, size_t capacity, size_t *len, const semel_inbox *inbox,
                             const semel_message *message, semel_error *err)
{
    mem_arena arena = {0};
    semel_bytes found;
    semel_status status = inbox_compute_key(&found, &arena, inbox, message, err);
    if (!status && !found.len)
        status = no_key(inbox, err);
    if (!status) {
        if (capacity)
            memcpy(key, found.data, found.len < capacity ? found.len : capacity);
        *len = found.len;
    }
    arena_free(&arena);
    return status;
}

/* --- for other services ----------------------------------------------------------------------- */

_Static_assert(SEMEL_IDEMPOTENCY_KEY_SIZE == UUID_TEXT + 1, "the key is the text of a UUID");

semel_status inbox_idempotency_key(char out[SEMEL_IDEMPOTENCY_KEY_SIZE], const semel_inbox *inbox,
                                   semel_bytes key, semel_error *err)
{
    return key.len ? semel_idempotency_key(out, inbox->name, key, err) : no_key(inbox, err);
}

semel_status semel_idempotency_key(char out[SEMEL_IDEMPOTENCY_KEY_SIZE], const char *inbox,
                                   semel_bytes key, semel_error *err)
{
    unsigned char digest[DIGEST_SIZE], length[KEY_LENGTH_SIZE];
    semel_bytes name = semel_str(inbox);
    semel_bytes parts[] = {{length, sizeof length}, name, key};
    if (!key.len)
        return semel_fail(err, SEMEL_EINVAL, "an empty key");
    key_write_length(length, name.len);
    semel_status status = digest_parts(digest, parts, 3, err);
    if (!status)
        uuid_v8(out, digest);
    return status;
}

semel_status semel_inbox_idempotency_key(char out[SEMEL_IDEMPOTENCY_KEY_SIZE],
                                         const semel_inbox *inbox, const semel_message *message,
                                         semel_error *err)
{
    mem_arena arena = {0};
    semel_bytes key;
    semel_status status = inbox_compute_key(&key, &arena, inbox, message, err);
    if (!status)
        status = inbox_idempotency_key(out, inbox, key, err);
    arena_free(&arena);
    return status;
}
