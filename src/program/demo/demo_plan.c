/* The plan of a demo. The provider sends each payment once, some of them a second time a little
 * later, and neighbours change places now and then: as providers do. */
#include "program/demo/demo_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CENTS_MIN = 199,
    CENTS_MAX = 14999,
    STEP = 10,         /* from one payment to the next, in the plan's own unit of time */
    JITTER = 4 * STEP, /* by which a payment may come late */
    COPY_LATE_MAX = 200 * STEP
};

/* splitmix64, by Sebastiano Vigna: small, and good enough for a demo. */
uint64_t dice_roll(dice *from)
{
    uint64_t z = from->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint32_t dice_below(dice *from, uint32_t limit)
{
    return limit ? (uint32_t)((dice_roll(from) >> 32) * limit >> 32) : 0;
}

/* --- deliveries ------------------------------------------------------------------------------- */

typedef struct moment {
    uint64_t when;
    uint32_t payment;
} moment;

static int by_time(const void *a, const void *b)
{
    const moment *left = a, *right = b;
    if (left->when != right->when)
        return left->when < right->when ? -1 : 1;
    return (left->payment > right->payment) - (left->payment < right->payment);
}

/* Exactly `copies` of the payments come twice: each is chosen with the chance that is left for
 * it. */
static void fill_moments(moment *moments, uint32_t payments, uint32_t copies, dice *from)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < payments; i++) {
        uint64_t when = (uint64_t)i * STEP + dice_below(from, JITTER);
        moments[count++] = (moment){when, i};
        if (dice_below(from, payments - i) < copies) {
            copies--;
            moments[count++] = (moment){when + 1 + dice_below(from, COPY_LATE_MAX), i};
        }
    }
    qsort(moments, count, sizeof *moments, by_time);
}

static int plan_deliveries(plan *out, dice *from)
{
    uint32_t copies = (uint32_t)((uint64_t)out->payment_count * COPIES_PERCENT / 100);
    uint32_t count = out->payment_count + copies;
    moment *moments = calloc(count, sizeof *moments);
    out->deliveries = calloc(count, sizeof *out->deliveries);
    if (!moments || !out->deliveries) {
        free(moments);
        return -1;
    }
    fill_moments(moments, out->payment_count, copies, from);
    for (uint32_t i = 0; i < count; i++)
        out->deliveries[i] = moments[i].payment;
    out->delivery_count = count;
    free(moments);
    return 0;
}

static int plan_payments(plan *out, dice *from)
{
    out->payments = calloc(out->payment_count, sizeof *out->payments);
    if (!out->payments)
        return -1;
    for (uint32_t i = 0; i < out->payment_count; i++) {
        payment *due = &out->payments[i];
        (void)snprintf(due->id, sizeof due->id, "pay_%06u", i + 1);
        due->cents = CENTS_MIN + dice_below(from, CENTS_MAX - CENTS_MIN + 1);
    }
    return 0;
}

/* --- kills ------------------------------------------------------------------------------------ */

static int by_size(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static int plan_kills(plan *out, uint32_t shop, dice *from)
{
    uint32_t *after = calloc(out->kill_count + 1, sizeof *after);
    out->kills[shop] = after;
    if (!after)
        return -1;
    for (uint32_t i = 0; i < out->kill_count; i++)
        after[i] = dice_below(from, out->delivery_count);
    qsort(after, out->kill_count, sizeof *after, by_size);
    return 0;
}

int plan_make(plan *out, uint32_t payments, uint32_t kills, uint64_t seed)
{
    dice from = {seed};
    *out = (plan){.payment_count = payments, .kill_count = kills};
    int failed = plan_payments(out, &from) || plan_deliveries(out, &from);
    for (uint32_t shop = 0; !failed && shop < SHOPS; shop++)
        failed = plan_kills(out, shop, &from);
    return failed ? -1 : 0;
}

void plan_free(plan *made)
{
    free(made->payments);
    free(made->deliveries);
    for (uint32_t shop = 0; shop < SHOPS; shop++)
        free(made->kills[shop]);
    memset(made, 0, sizeof *made);
}
