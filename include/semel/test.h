/* A kit for testing programs that use semel: a clock, faults, transports. Link with semel-test.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_TEST_H
#define SEMEL_TEST_H

#include <semel/transport.h>

SEMEL_BEGIN_DECLS

/* --- a seam for tests ------------------------------------------------------------------------- */

/* A clock that stands still until the test advances it, randomness from a seed, and faults on
 * demand. Thread-safe. */
typedef struct semel_test_seam semel_test_seam;

SEMEL_API semel_status semel_test_seam_open(semel_test_seam **out, uint64_t seed, semel_error *err);
SEMEL_API void semel_test_seam_close(semel_test_seam *seam);

/* For semel_store_options.seam. */
SEMEL_API const semel_seam *semel_test_seam_get(semel_test_seam *seam);

/* Lets time pass. A sleep inside semel advances this clock, too, and returns at once. */
SEMEL_API void semel_test_advance_ms(semel_test_seam *seam, int64_t ms);

/* Sets the host's clock forwards or backwards: only the wall clock moves. */
SEMEL_API void semel_test_jump_ms(semel_test_seam *seam, int64_t ms);

/* Restarts the host after `ms`: the wall clock advances, the steady clock starts at zero, the boot
 * id is new. */
SEMEL_API void semel_test_reboot(semel_test_seam *seam, int64_t ms);

/* The named points of the library, in the order in which a message passes them. */
/* clang-format off */
#define SEMEL_FAULT_POINTS(X) \
    X("receive.begun") X("receive.marked") X("receive.handled") X("receive.committed") \
    X("count.stored") X("count.committed") \
    X("claim.stored") X("claim.committed") X("claim.handled") \
    X("finish.stored") X("finish.committed") X("renew.stored") \
    X("fail.stored") X("fail.committed") X("bury.stored") X("bury.committed") \
    X("send.stored") \
    X("batch.marked") X("batch.handled") X("batch.left") X("batch.settled") X("batch.committed") \
    X("run.read") X("run.handled") X("run.moved") X("run.committed") \
    X("relay.leased") X("relay.taken") X("relay.published") X("relay.settled") X("relay.done") \
    X("publish.stored") X("publish.committed") X("deliver.stored") X("deliver.committed") \
    X("extend.stored") X("extend.committed") X("settle.stored") X("settle.committed") \
    X("handoff.marked") X("handoff.handled") X("handoff.committed") \
    X("sweep.looked") X("sweep.removed") X("sweep.committed") \
    X("round.stored") X("round.committed") X("purge.stored") X("purge.committed") \
    X("replay.begun") X("replay.committed") X("discard.stored") X("discard.committed") \
    X("history.removed") X("history.committed") \
    X("retry.stored") X("retry.committed") X("wake.stored") X("wake.committed") \
    X("skip.stored") X("skip.committed") X("audit.stored") X("audit.committed") \
    X("migrate.applied") X("migrate.committed")
/* Those of the SQLite store that units pass which share a commit. */
#define SEMEL_FAULT_POINTS_SHARE(X) \
    X("share.joined") X("share.kept") X("share.ready") X("share.committed")
/* clang-format on */

/* Plans a fault for the nth time from now that the library passes `point` (1: the next time). The
 * call then fails with `status`; SEMEL_OK means SIGKILL to this process. A seam has one plan at a
 * time; a NULL point clears it. */
SEMEL_API void semel_test_fault(semel_test_seam *seam, const char *point, uint32_t nth,
                                semel_status status);

/* How often the library has passed `point`. */
SEMEL_API uint32_t semel_test_passed(const semel_test_seam *seam, const char *point);

/* --- transports ------------------------------------------------------------------------------- */

/* A transport that records what is published and delivers nothing. */
SEMEL_API semel_status semel_test_recorder_open(semel_transport **out, semel_error *err);
SEMEL_API size_t semel_test_recorder_count(const semel_transport *recorder);
/* The message is borrowed until the recorder is closed; NULL past the end. */
SEMEL_API const semel_message *semel_test_recorder_message(const semel_transport *recorder,
                                                           size_t index);
/* Gives the next `count` messages with this topic (NULL: any topic) this result. A message with the
 * result UNKNOWN is recorded nevertheless, as a broker whose answer was lost would have it. */
SEMEL_API void semel_test_recorder_answer(semel_transport *recorder, const char *topic,
                                          semel_publish_result result, size_t count);

/* A transport that wraps another one, which must outlive it, and delivers every message twice, late
 * and out of order. */
typedef struct semel_test_chaos_options {
    size_t size;
    uint32_t copies;   /* of each message; default 2 */
    uint32_t hold_max; /* most deliveries that it holds back for later; default 16 */
    uint64_t seed;
} semel_test_chaos_options;

SEMEL_API semel_status semel_test_chaos_open(semel_transport **out, semel_transport *inner,
                                             const semel_test_chaos_options *options,
                                             semel_error *err);

SEMEL_END_DECLS

#endif
