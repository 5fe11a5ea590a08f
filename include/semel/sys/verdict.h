/* How a message is settled: by a relay that has leased it from an outbox, or by a consumer that has
 * received it from a broker. Both driver tables use these verdicts.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_SYS_VERDICT_H
#define SEMEL_SYS_VERDICT_H

#include <semel/export.h>

SEMEL_BEGIN_DECLS

typedef enum semel_verdict {
    SEMEL_VERDICT_ACK = 1, /* finished: the store or broker may forget the message */
    /* the attempt failed and counts: try again, no earlier than after delay_ms */
    SEMEL_VERDICT_RETRY,
    /* the message was not tried, and the attempt does not count: available again after delay_ms;
     * with 0 at once, in its old place. Outboxes only */
    SEMEL_VERDICT_RELEASE,
    /* never again: to the broker's own dead letters, if it has any. Brokers only */
    SEMEL_VERDICT_REJECT
} semel_verdict;

SEMEL_END_DECLS

#endif
