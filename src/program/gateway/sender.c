/* See sender.h. */
#include "program/gateway/sender.h"

#define HOUR_MS UINT64_C(3600000)

/* Stripe: three days of retries. Its events say how many deliveries are pending, which changes
 * between two copies. Standard Webhooks: the schedule of the specification ends after 75 h 35 m; 15
 * to 30 seconds for an answer. GitHub: no retries, but a person can have a delivery of the last
 * three days sent again; 10 seconds. Shopify: eight retries within 4 hours; 5 seconds. Slack: three
 * retries, the last one after 5 minutes; 3 seconds. */
static const webhook_sender senders[] = {
    [WEBHOOK_NONE] = {"none", 0, 0, 0, 0},
    [WEBHOOK_STANDARD] = {"standard", 76 * HOUR_MS, 30000, 1, 0},
    [WEBHOOK_STRIPE] = {"stripe", 72 * HOUR_MS, 0, 1, 1},
    [WEBHOOK_GITHUB] = {"github", 72 * HOUR_MS, 10000, 0, 0},
    [WEBHOOK_SHOPIFY] = {"shopify", 4 * HOUR_MS, 5000, 0, 0},
    [WEBHOOK_SLACK] = {"slack", HOUR_MS, 3000, 1, 0},
    [WEBHOOK_HMAC] = {"hmac", 0, 0, 1, 0},
};

const webhook_sender *webhook_sender_of(webhook_preset preset)
{
    return &senders[preset];
}
