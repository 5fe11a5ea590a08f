/* What is known of the senders of webhooks: for how long they send a message again, and how long
 * they wait for an answer. docs/WEBHOOKS.md says where that is written. */
#ifndef SEMEL_PROGRAM_GATEWAY_SENDER_H
#define SEMEL_PROGRAM_GATEWAY_SENDER_H

#include "program/config/config.h"

typedef struct webhook_sender {
    const char *name;   /* of the preset */
    uint64_t window_ms; /* copies come for so long after the first one; 0: not known */
    uint32_t wait_ms;   /* an answer that takes longer is a failure to the sender; 0: not known */
    int has_time;       /* its signatures have a time, to which `tolerance` applies */
    int body_varies;    /* two copies may differ in something that means nothing */
} webhook_sender;

const webhook_sender *webhook_sender_of(webhook_preset preset);

#endif
