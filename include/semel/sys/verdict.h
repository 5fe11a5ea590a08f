/* What becomes of a message that was handed out: by an outbox to a relay, or by a broker to a consumer. One set of
 * words for both driver tables.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_SYS_VERDICT_H
#define SEMEL_SYS_VERDICT_H

#include <semel/export.h>

SEMEL_BEGIN_DECLS

typedef enum semel_verdict {
    SEMEL_VERDICT_ACK = 1, /* dealt with: the store or broker may forget it */
    SEMEL_VERDICT_RETRY,   /* it failed, and the attempt counts: again, not before delay_ms */
    SEMEL_VERDICT_RELEASE, /* it was not tried, and the attempt does not count: again after delay_ms; with 0 at once,
                            * in its old place. Outboxes only */
    SEMEL_VERDICT_REJECT /* never again; to the broker's own dead letters, if it has any. Brokers only */
} semel_verdict;

SEMEL_END_DECLS

#endif
