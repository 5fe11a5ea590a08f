/* A semel_message as a message of NATS with headers, and back. docs/NATS.md describes it.
 *
 * Everything is pure: no connection is touched. */
#ifndef SEMEL_TRANSPORT_NATS_ENVELOPE_H
#define SEMEL_TRANSPORT_NATS_ENVELOPE_H

#include "base/mem.h"
#include "transport/nats/address.h"

#include <nats/nats.h>
#include <semel/message.h>

/* A member of a message that is a header: the one table that writing and reading share. */
typedef struct jet_field {
    size_t offset; /* in semel_message */
    int is_bytes;  /* the member is a semel_bytes, else a text */
    const char *header;
} jet_field;

enum { JET_FIELDS = 6, JET_FIELD_ID = 0, JET_FIELD_TOPIC = 3 };
extern const jet_field jet_fields[JET_FIELDS];

#define JET_HEADER_EVENT      "ce-"
#define JET_HEADER_VERSION    "ce-specversion"
#define JET_HEADER_TIME       "ce-time"
#define JET_HEADER_EXACT_TIME "semel-time-ms"      /* where the other cannot say it */
#define JET_HEADER_CONTENT    "content-type"       /* if it is printable ASCII */
#define JET_HEADER_EXACT_TYPE "semel-content-type" /* else */
#define JET_HEADER_ALL        "semel-headers"      /* name=value&name=value, with %-escapes */
#define JET_HEADER_MESSAGE_ID "Nats-Msg-Id"
#define JET_HEADER_STREAM     "Nats-Expected-Stream"
#define JET_HEADER_SERVERS    "nats-" /* are not for clients' own use */

/* SEMEL_ELIMIT with the reason if NATS cannot carry it: a topic that is no subject, headers of over
 * 64 KiB, all of it over `payload_max` bytes. SEMEL_EINVAL if it has no topic, and the URL no
 * subject. The caller destroys what it got. */
semel_status jet_envelope_write(natsMsg **out, mem_arena *arena, const jet_address *address,
                                const semel_message *message, const char *reply,
                                int64_t payload_max, semel_error *err);

/* Where a delivery comes from, by its reply subject; the stream's name is a part of it. */
typedef struct jet_origin {
    semel_bytes stream;
    uint64_t sequence;
    uint64_t deliveries; /* 1 for the first */
    int64_t stored_ns;   /* since 1970 */
} jet_origin;

/* 0: it is no reply subject of a delivery. */
int jet_origin_read(jet_origin *out, const char *reply);

enum { JET_DELIVERY_MAX = 1000 }; /* of message.delivery */

/* All but the body lies in the arena, which the caller keeps as long as the message; the body is
 * that of `raw`. NULL when out of memory. */
semel_message *jet_envelope_read(mem_arena *arena, natsMsg *raw, const jet_origin *origin,
                                 const char *subject);

#endif
