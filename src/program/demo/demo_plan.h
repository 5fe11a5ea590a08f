/* What will happen in a demo, from its seed: the payments that are due, the deliveries of them, and
 * when the shops are killed. */
#ifndef SEMEL_CLI_DEMO_PLAN_H
#define SEMEL_CLI_DEMO_PLAN_H

#include <stdint.h>

enum { SHOPS = 2, PAYMENT_TEXT = 16, COPIES_PERCENT = 30 };

/* Random numbers that are the same for the same seed on every machine. */
typedef struct dice {
    uint64_t state;
} dice;

uint64_t dice_roll(dice *from);
uint32_t dice_below(dice *from, uint32_t limit); /* 0 if the limit is 0 */

typedef struct payment {
    char id[PAYMENT_TEXT];
    uint32_t cents;
} payment;

typedef struct plan {
    payment *payments;
    uint32_t payment_count;
    uint32_t *deliveries; /* which payment is delivered, in the order of time */
    uint32_t delivery_count;
    uint32_t *kills[SHOPS]; /* after how many acknowledged deliveries, ascending */
    uint32_t kill_count;
} plan;

/* Returns 0, or -1 when out of memory. Free it in either case. */
int plan_make(plan *out, uint32_t payments, uint32_t kills, uint64_t seed);
void plan_free(plan *made);

#endif
