/* One shop, from the provider's side. What is open is at most PREFETCH deliveries, kept in order: those
 * that the running process has, and those that a killed one had and the next must get. A kill hands
 * nothing back; it only makes all of them not handed over. So nothing can be lost here, and everything
 * that was not acknowledged comes again, counted.
 *
 * A kill becomes due at an acknowledgement that the plan names, and falls at a random moment within about
 * two deliveries' time from then: it is as likely in any part of the shop's work as that part is long. */
#include "demo_lane.h"

#include "demo_place.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
    CYCLE_FIRST_US = 2000,
    CYCLE_MAX_US = 100000,
    STALL_US = 30 * 1000000 /* without a sign of life: something is wrong */
};

static void fail(lane *self, const char *format, ...) SEMEL_PRINTF(2, 3);

static void fail(lane *self, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (self->state != LANE_FAILED)
        (void)vsnprintf(self->trouble, sizeof self->trouble, format, arguments);
    self->state = LANE_FAILED;
    va_end(arguments);
}

static void start(lane *self)
{
    int code = worker_start(&self->process, shop_names[self->shop], self->database);
    if (code)
        fail(self, "cannot start the shop: %s", strerror(code));
    self->ready = 0;
    self->last_ack_us = 0;
    self->last_sign_us = now_us();
}

void lane_open(lane *out, uint32_t shop, const plan *to_do, receiver *books, uint64_t seed)
{
    *out = (lane){.shop = shop,
                  .plan = to_do,
                  .receiver = books,
                  .process = {0, -1, -1},
                  .dice = {seed},
                  .cycle_us = CYCLE_FIRST_US,
                  .started_us = now_us()};
    place_database(out->database, (int)sizeof out->database, shop_names[shop]);
    start(out);
}

void lane_close(lane *self)
{
    worker_kill(&self->process);
    worker_close(&self->process);
}

/* --- deliveries -------------------------------------------------------------------------------------------- */

static int hand_over(lane *self, open_delivery *delivery)
{
    const payment *due = &self->plan->payments[self->plan->deliveries[delivery->index]];
    frame f = {.kind = FRAME_DELIVERY, .tag = delivery->index, .delivery = delivery->times + 1};
    (void)snprintf(f.id, sizeof f.id, "%s", due->id);
    (void)snprintf(f.body, sizeof f.body, "{\"payment\":\"%s\",\"cents\":%u}", due->id, due->cents);
    if (frame_send(self->process.deliveries, &f) != 0)
        return -1;
    delivery->times++;
    delivery->handed = 1;
    self->handed_over++;
    return 0;
}

/* A send that fails means that the process is ending: its socket will say so. */
static void feed(lane *self)
{
    for (uint32_t i = 0; i < self->open_count; i++)
        if (!self->open[i].handed && hand_over(self, &self->open[i]))
            return;
    while (self->open_count < PREFETCH && self->next < self->plan->delivery_count) {
        open_delivery *delivery = &self->open[self->open_count];
        *delivery = (open_delivery){.index = self->next};
        if (hand_over(self, delivery))
            return;
        self->open_count++;
        self->next++;
    }
}

static void learn_cycle(lane *self)
{
    int64_t now = now_us();
    if (self->last_ack_us) {
        int64_t took = now - self->last_ack_us;
        took = took < CYCLE_MAX_US ? took : CYCLE_MAX_US;
        self->cycle_us += (took - self->cycle_us) / 8;
    }
    self->last_ack_us = now;
}

static void take_ack(lane *self, const frame *ack)
{
    uint32_t i = 0;
    while (i < self->open_count && self->open[i].index != ack->tag)
        i++;
    if (i == self->open_count) {
        fail(self, "acknowledged what it did not have: delivery %u", ack->tag);
        return;
    }
    memmove(&self->open[i], &self->open[i + 1], (self->open_count - i - 1) * sizeof *self->open);
    self->open_count--;
    self->acknowledged++;
    self->duplicates += ack->duplicate != 0;
    learn_cycle(self);
}

/* --- what the shop says ------------------------------------------------------------------------------------- */

static void take_event(lane *self, const frame *event)
{
    semel_error err = {0};
    int again = 0;
    frame confirm = {.kind = FRAME_CONFIRM, .tag = event->tag};
    if (receiver_take(&again, self->receiver, self->shop, event, &err)) {
        fail(self, "the provider cannot take an event: %s", err.text);
        return;
    }
    self->events_again += again != 0;
    (void)frame_send(self->process.events, &confirm); /* else it is sent again */
}

static void take(lane *self, const frame *said)
{
    self->last_sign_us = now_us();
    if (said->kind == FRAME_READY)
        self->ready = 1;
    else if (said->kind == FRAME_ACK)
        take_ack(self, said);
    else if (said->kind == FRAME_EVENT)
        take_event(self, said);
    else
        fail(self, "said something unknown: %u", said->kind);
}

/* Returns 1 when the other side is closed, and nothing is left in the socket. */
static int listen_to(lane *self, int fd)
{
    frame said;
    for (;;) {
        frame_result result = frame_receive(&said, fd, 0);
        if (result != FRAME_GOT)
            return result == FRAME_END;
        take(self, &said);
        if (self->state == LANE_FAILED)
            return 0;
    }
}

/* --- kills and the end ----------------------------------------------------------------------------------------- */

static void arm_kill(lane *self)
{
    if (self->kill_at_us || !self->ready || self->kills == self->plan->kill_count ||
        self->acknowledged < self->plan->kills[self->shop][self->kills])
        return;
    self->kill_at_us = now_us() + dice_below(&self->dice, (uint32_t)self->cycle_us * 2);
}

static void kill_and_restart(lane *self)
{
    worker_kill(&self->process);
    (void)listen_to(self, self->process.deliveries);
    (void)listen_to(self, self->process.events);
    worker_close(&self->process);
    self->kill_at_us = 0;
    self->kills++;
    for (uint32_t i = 0; i < self->open_count; i++)
        self->open[i].handed = 0;
    if (self->state != LANE_FAILED)
        start(self);
}

/* It ended without being killed: rightly so, if it was told to. */
static void ended(lane *self)
{
    int status = worker_reap(&self->process);
    worker_close(&self->process);
    if (self->state == LANE_ENDING && status == 0) {
        self->state = LANE_DONE;
        self->ended_us = now_us();
    } else {
        fail(self, "the shop ended by itself, with status %d", status);
    }
}

static void end_if_all_is_done(lane *self)
{
    if (self->state != LANE_RUNNING || self->acknowledged < self->plan->delivery_count ||
        self->kills < self->plan->kill_count || !self->ready)
        return;
    (void)shutdown(self->process.deliveries, SHUT_WR);
    self->state = LANE_ENDING;
}

void lane_turn(lane *self)
{
    if (self->state == LANE_DONE || self->state == LANE_FAILED)
        return;
    if (self->kill_at_us && now_us() >= self->kill_at_us) {
        kill_and_restart(self);
        return;
    }
    int closed = listen_to(self, self->process.events);
    closed = listen_to(self, self->process.deliveries) && closed;
    if (self->state == LANE_FAILED)
        return;
    if (closed) {
        ended(self);
        return;
    }
    if (now_us() - self->last_sign_us > STALL_US)
        fail(self, "the shop has not said anything for %d seconds", STALL_US / 1000000);
    if (self->ready && self->state == LANE_RUNNING)
        feed(self);
    arm_kill(self);
    end_if_all_is_done(self);
}

int64_t lane_wake_us(const lane *self)
{
    int64_t stall = self->last_sign_us + STALL_US;
    return self->kill_at_us && self->kill_at_us < stall ? self->kill_at_us : stall;
}
