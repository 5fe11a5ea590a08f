/* A broker with partitions and positions, in memory: as Kafka is, seen by the consumers of one
 * group. Each member of the group is a transport of its own. A partition belongs to one member at a
 * time, whom the test chooses; its next owner begins behind what was acknowledged without a gap. A
 * member that has lost a partition keeps what was delivered to it, and its answers count no more.
 * Threads may share all of it. */
#ifndef SEMEL_TESTS_FAKE_LOG_H
#define SEMEL_TESTS_FAKE_LOG_H

#include "support/fixture/fixture.h"

#include <semel/sys/transport.h>

enum { FAKE_LOG_PARTITIONS = 8, FAKE_LOG_MEMBERS = 4 };

typedef struct fake_log fake_log;

/* With so many partitions, "log/0" and so on, which all belong to member 0. Closed with the
 * fixture. */
fake_log *fake_log_open(fixture *f, unsigned partitions, const char *origin);

/* The transport of a member. Closed with the fixture. */
semel_transport *fake_log_member(fixture *f, fake_log *log, unsigned member);

/* Appends a message, made at this time (0: it does not say), and returns its position. */
int64_t fake_log_add(fake_log *log, unsigned partition, const char *id, int64_t time_ms);
void fake_log_skip(fake_log *log, unsigned partition, int64_t positions); /* leaves a gap */

/* The partition gets another owner, or is delivered again to the one that it has. With `quietly`
 * the owner before is not told: it takes itself for the owner (a zombie). */
void fake_log_assign(fake_log *log, unsigned partition, unsigned member, int quietly);

/* The topic is deleted and made anew: there is nothing in it, and positions begin at 0. */
void fake_log_recreate(fake_log *log, const char *origin);

int64_t fake_log_committed(fake_log *log, unsigned partition); /* what is delivered next time */

#endif
