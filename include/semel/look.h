/* Looking: what is known of a key, which keys an inbox remembers, what waits in an outbox and what
 * has left it.
 *
 * All of these only read what is committed. They wait for no unit and make none wait; on a database
 * server they need one connection of the store's pool for a moment. So an answer may be outdated
 * when the call returns, and a key that an open unit is about to mark is not known yet: a look
 * decides nothing, semel_inbox_receive() does. Nothing is counted and nothing is changed.
 * SEMEL_EUNSUPPORTED if the store's driver has no members for it.
 *
 * Lists are read by pages. A call collects its page first and then calls the visitor for each row,
 * so the visitor may use the store. What the visitor gets is borrowed for the call. The visitor
 * returns SEMEL_OK to go on; any other status ends the list, and the call returns it. Times are
 * those of the store's clock unless a comment names another.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_LOOK_H
#define SEMEL_LOOK_H

#include <semel/inbox.h>
#include <semel/outbox.h>

SEMEL_BEGIN_DECLS

#define SEMEL_PAGE_DEFAULT 100   /* rows of a page, if the filter does not say; */
#define SEMEL_PAGE_MAX     10000 /* a page has no more */

/* --- markers ---------------------------------------------------------------------------------- */

typedef enum semel_marker_state {
    SEMEL_MARKER_NONE = 0, /* the inbox does not know the key; in a filter: any state */
    SEMEL_MARKER_DONE,     /* the message was handled */
    SEMEL_MARKER_OPEN,     /* attempts have begun or failed, and no claim is live */
    SEMEL_MARKER_CLAIMED,  /* a claim with a lease that has not ended */
    SEMEL_MARKER_DEAD      /* the message is, or was until it was discarded, a dead letter */
} semel_marker_state;

/* What an inbox knows of a key. */
typedef struct semel_marker {
    size_t size;
    semel_bytes key; /* as it is stored: of a long key its SHA-256 (SEMEL_KEY_MAX) */
    semel_marker_state state;
    uint32_t attempts;      /* that the store knows of; 0 once the message was handled */
    int64_t first_ms;       /* when the first attempt was recorded */
    int64_t last_ms;        /* when the marker was last changed: handled, failed, claimed, buried */
    int64_t lease_until_ms; /* SEMEL_MARKER_CLAIMED: when the lease ends, if it is not renewed */
    const char *error;      /* of the last attempt that failed; "" if none did */
    int has_result;
    semel_bytes result; /* a list: only if the filter asks for it */

    /* With semel_inbox_options.keep_details, of the copy that was last worked on; NULL and 0
     * without. */
    const char *type;
    const char *source;
    int64_t received_ms; /* by the wall clock of the host that received it */
} semel_marker;

/* What the inbox knows of the message's key. SEMEL_ENOTFOUND if the message has no key; a key that
 * the inbox does not know is SEMEL_OK with the state SEMEL_MARKER_NONE. The caller frees *out. */
SEMEL_API semel_status semel_inbox_look(semel_marker **out, semel_inbox *inbox,
                                        const semel_message *message, semel_error *err);

/* The same for a key as semel_inbox_key() computes it. */
SEMEL_API semel_status semel_inbox_look_key(semel_marker **out, semel_inbox *inbox, semel_bytes key,
                                            semel_error *err);
SEMEL_API void semel_marker_free(semel_marker *marker); /* NULL is a no-op */

typedef semel_status semel_marker_visitor(const semel_marker *marker, void *context,
                                          semel_error *err);

/* Which markers are meant. A member that is zero excludes none. */
typedef struct semel_marker_filter {
    size_t size;
    semel_marker_state state; /* markers have no index by state: the call reads the others, too */
    semel_bytes key;          /* exactly this one, as semel_inbox_key() computes it */
    semel_bytes after;        /* for the next page: the key of the last marker of this one */
    uint32_t limit;           /* markers in a page; default SEMEL_PAGE_DEFAULT */
    int results;              /* 1: with the stored results */
    int key_is_stored;        /* 1: `key` is as it is stored, as semel_marker.key is */
} semel_marker_filter;

/* Lists the markers of the inbox in the order of their keys, byte by byte. */
SEMEL_API semel_status semel_inbox_list(semel_inbox *inbox, const semel_marker_filter *filter,
                                        semel_marker_visitor *visitor, void *context,
                                        semel_error *err);

/* --- outgoing messages ------------------------------------------------------------------------ */

/* A message in an outbox, or one that has left it. */
typedef struct semel_outgoing {
    size_t size;
    int64_t seq; /* ascending in the order of capture within a group */
    /* Without headers and body, unless the filter asks for them. NULL if the row is damaged;
     * `error` then says how. Of a message that was sent: id, type, topic, group, correlation id. */
    const semel_message *message;
    uint32_t attempts;
    uint32_t refusals; /* attempts that the broker has refused for good */
    int64_t captured_ms;
    int64_t due_ms;    /* when the next attempt may begin, or, of a leased one, the lease ends */
    int leased;        /* a relay has it right now */
    const char *error; /* of the last attempt that failed; "" if none did */
    int64_t sent_ms;   /* 0: it was not sent yet */
} semel_outgoing;

typedef semel_status semel_outgoing_visitor(const semel_outgoing *outgoing, void *context,
                                            semel_error *err);

typedef struct semel_outgoing_filter {
    size_t size;
    int64_t after_seq; /* for the next page: the seq of the last one of this page */
    uint32_t limit;    /* messages in a page; default SEMEL_PAGE_DEFAULT */
    int contents;      /* 1: with headers and body */
} semel_outgoing_filter;

/* Lists what waits in the outbox, in the order of seq. A damaged row hides no other row. */
SEMEL_API semel_status semel_outbox_list(semel_outbox *outbox, const semel_outgoing_filter *filter,
                                         semel_outgoing_visitor *visitor, void *context,
                                         semel_error *err);

/* For the next page: sent_ms and seq of the last one of this page. */
typedef struct semel_sent_filter {
    size_t size;
    int newest_first;
    int64_t after_ms;
    int64_t after_seq;
    uint32_t limit; /* default SEMEL_PAGE_DEFAULT */
} semel_sent_filter;

/* Lists what relays with semel_relay_options.keep_sent_ms have sent, as long as they keep it. */
SEMEL_API semel_status semel_outbox_list_sent(semel_outbox *outbox, const semel_sent_filter *filter,
                                              semel_outgoing_visitor *visitor, void *context,
                                              semel_error *err);

SEMEL_END_DECLS

#endif
