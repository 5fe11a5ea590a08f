/* semel: exactly-once effects over at-least-once messaging.
 *
 * House rules, kept by every header here:
 *  - A call that can fail returns semel_status and takes a semel_error * last, which may be NULL.
 *  - Outputs come first and are written on success only. Inputs are borrowed for the call.
 *  - What comes out of a `T **out` is yours to close or free; closing NULL is a no-op.
 *  - Handles are opaque. Structs go in only, start with `size`, grow at the end, and zero means the
 *    documented default: `semel_inbox_options options = {.size = sizeof options, .key = "digest"};`
 *  - Stores, inboxes and outboxes may be shared by threads; a unit, a relay and a consumer have one
 *    owner at a time. Nothing may be used in a child after fork().
 *  - Every wait has a deadline, every resource a limit with a name; units stand last (lease_ms).
 *  - The library writes no log, installs no signal handler, has no global state. It starts threads where
 *    that is said, and only there: the workers of semel_consumer_run(), which are gone when it returns,
 *    and the one that keeps a connection to RabbitMQ alive. No signal is delivered to them.
 *
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_SEMEL_H
#define SEMEL_SEMEL_H

#include <semel/consumer.h>
#include <semel/dead.h>
#include <semel/error.h>
#include <semel/inbox.h>
#include <semel/message.h>
#include <semel/outbox.h>
#include <semel/queue.h>
#include <semel/relay.h>
#include <semel/store.h>
#include <semel/transport.h>
#include <semel/unit.h>

SEMEL_BEGIN_DECLS

#define SEMEL_VERSION        "0.1.0"
#define SEMEL_VERSION_NUMBER 100 /* major * 10000 + minor * 100 + patch */

/* Of the library that is linked, to compare with the two above. */
SEMEL_API const char *semel_version(void);
SEMEL_API int semel_version_number(void);

/* What was built in, as one line: "memory sqlite json digest". */
SEMEL_API const char *semel_build_options(void);

SEMEL_END_DECLS

#endif
