/* semel: exactly-once effects over at-least-once messaging.
 *
 * Rules that every header here follows:
 *  - A call that can fail returns semel_status and takes a semel_error * as its last parameter,
 *    which may be NULL.
 *  - Outputs come first and are written on success only. Inputs are borrowed for the call.
 *  - The caller owns what a `T **out` returns, and closes or frees it. Closing NULL is a no-op.
 *  - Handles are opaque. Option structs are inputs only; they start with `size`, grow at the end,
 *    and zero means the documented default: `semel_inbox_options o = {.size = sizeof o};`
 *  - Threads may share stores, inboxes and outboxes. A unit, a relay and a consumer have one owner
 *    at a time. No handle may be used in a child process after fork().
 *  - Every wait has a deadline and every resource has a named limit. A name ends with its unit
 *    (lease_ms).
 *  - The library writes no log, installs no signal handler and has no global state. It starts
 *    threads only where the documentation says so: the workers of semel_consumer_run() and, where
 *    the transport takes deliveries back after a time, one that keeps them, all of which have ended
 *    when it returns; one for each loop of a pipeline, which have ended when semel_pipeline_wait()
 *    returns; one thread that keeps the connections to RabbitMQ alive; one for a group of Kafka,
 *    beside those of the clients of Kafka and NATS; and one that renews what open units hold in
 *    Redis or DynamoDB. These threads receive no signals.
 *
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_SEMEL_H
#define SEMEL_SEMEL_H

#include <semel/consumer.h>
#include <semel/dead.h>
#include <semel/error.h>
#include <semel/health.h>
#include <semel/inbox.h>
#include <semel/look.h>
#include <semel/message.h>
#include <semel/observe.h>
#include <semel/operate.h>
#include <semel/outbox.h>
#include <semel/pipeline.h>
#include <semel/queue.h>
#include <semel/relay.h>
#include <semel/store.h>
#include <semel/transport.h>
#include <semel/unit.h>

SEMEL_BEGIN_DECLS

#define SEMEL_VERSION        "0.1.0"
#define SEMEL_VERSION_NUMBER 100 /* major * 10000 + minor * 100 + patch */

/* The version of the library that is linked, for comparison with the two macros above. */
SEMEL_API const char *semel_version(void);
SEMEL_API int semel_version_number(void);

/* What was built in, as one line: "stores: memory sqlite; transports: memory; with: json
 * digest". */
SEMEL_API const char *semel_build_options(void);

SEMEL_END_DECLS

#endif
