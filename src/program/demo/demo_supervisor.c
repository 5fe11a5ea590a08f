/* One shop, from the provider's side. What is open is at most PREFETCH deliveries, kept in order:
 * those that the running process has, and those that a killed one had and the next must get. A kill
 * gives nothing back; it only makes all of them unsent. So nothing can be lost here, and everything
 * that was not acknowledged comes again, counted.
 *
 * A kill becomes due at an acknowledgement that the plan names, and falls at a random moment within
 * about two deliveries' time from then: it is as likely in any part of the shop's work as that part
 * is long. */
#include "program/demo/demo_supervisor.h"

#include "program/demo/demo_dir.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
    CYCLE_FIRST_US = 2000,
    CYCLE_MAX_US = 100000,
    STALL_US = 30 * 1000000 /* without a sign of life: something is wrong */
};

static void supervisor_fail(supervisor *self, const char *format, ...) SEMEL_PRINTF(2, 3);

static void supervisor_fail(supervisor *self, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (self->state != SUPERVISOR_FAILED)
        (void)vsnprintf(self->error, sizeof self->error, format, arguments);
    self->state = SUPERVISOR_FAILED;
    va_end(arguments);
}

static void start_shop(supervisor *self)
{
    int code = worker_start(&self->process, shop_names[self->shop], self->database);
    if (code)
        supervisor_fail(self, "cannot start the shop: %s", strerror(code));
    self->ready = 0;
    self->last_ack_us = 0;
    self->last_sign_us = now_us();
}

void supervisor_open(supervisor *out, uint32_t shop, const plan *to_do, receiver *books,
                     uint64_t seed)
{
    *out = (supervisor){.shop = shop,
                        .plan = to_do,
                        .receiver = books,
                        .process = {0, -1, -1},
                        .dice = {seed},
                        .cycle_us = CYCLE_FIRST_US,
                        .started_us = now_us()};
    demo_dir_database(out->database, (int)sizeof out->database, shop_names[shop]);
    start_shop(out);
}

void supervisor_close(supervisor *self)
{
    worker_kill(&self->process);
    worker_close(&self->process);
}

/* --- deliveries ------------------------------------------------------------------------------- */

static int send_delivery(supervisor *self, open_delivery *delivery)
{
    const payment *due = &self->plan->payments[self->plan->deliveries[delivery->index]];
    frame f = {.kind = FRAME_DELIVERY, .tag = delivery->index, .delivery = delivery->times + 1};
    (void)snprintf(f.id, sizeof f.id, "%s", due->id);
    (void)snprintf(f.body, sizeof f.body, "{\"payment\":\"%s\",\"cents\":%u}", due->id, due->cents);
    if (wire_send(self->process.deliveries, &f) != 0)
        return -1;
    delivery->times++;
    delivery->sent = 1;
    self->deliveries_sent++;
    return 0;
}

/* A send that fails means that the process is ending: its socket will say so. */
static void send_deliveries(supervisor *self)
{
    for (uint32_t i = 0; i < self->open_count; i++)
        if (!self->open[i].sent && send_delivery(self, &self->open[i]))
            return;
    while (self->open_count < PREFETCH && self->next < self->plan->delivery_count) {
        open_delivery *delivery = &self->open[self->open_count];
        *delivery = (open_delivery){.index = self->next};
        if (send_delivery(self, delivery))
            return;
        self->open_count++;
        self->next++;
    }
}

static void learn_cycle(supervisor *self)
{
    int64_t now = now_us();
    if (self->last_ack_us) {
        int64_t took = now - self->last_ack_us;
        took = took < CYCLE_MAX_US ? took : CYCLE_MAX_US;
        self->cycle_us += (took - self->cycle_us) / 8;
    }
    self->last_ack_us = now;
}

static void handle_ack(supervisor *self, const frame *ack)
{
    uint32_t i = 0;
    while (i < self->open_count && self->open[i].index != ack->tag)
        i++;
    if (i == self->open_count) {
        supervisor_fail(self, "acknowledged what it did not have: delivery %u", ack->tag);
        return;
    }
    memmove(&self->open[i], &self->open[i + 1], (self->open_count - i - 1) * sizeof *self->open);
    self->open_count--;
    self->acknowledged++;
    self->duplicates += ack->duplicate != 0;
    learn_cycle(self);
}

/* --- what the shop says ----------------------------------------------------------------------- */

static void handle_event(supervisor *self, const frame *event)
{
    semel_error err = {0};
    int again = 0;
    frame confirm = {.kind = FRAME_CONFIRM, .tag = event->tag};
    if (receiver_receive(&again, self->receiver, self->shop, event, &err)) {
        supervisor_fail(self, "the provider cannot take an event: %s", err.text);
        return;
    }
    self->events_again += again != 0;
    (void)wire_send(self->process.events, &confirm); /* else it is sent again */
}

static void handle_frame(supervisor *self, const frame *said)
{
    self->last_sign_us = now_us();
    if (said->kind == FRAME_READY)
        self->ready = 1;
    else if (said->kind == FRAME_ACK)
        handle_ack(self, said);
    else if (said->kind == FRAME_EVENT)
        handle_event(self, said);
    else
        supervisor_fail(self, "said something unknown: %u", said->kind);
}

/* Returns 1 when the other side is closed, and nothing is left in the socket. */
static int read_frames(supervisor *self, int fd)
{
    frame said;
    for (;;) {
        frame_result result = wire_receive(&said, fd, 0);
        if (result != FRAME_GOT)
            return result == FRAME_END;
        handle_frame(self, &said);
        if (self->state == SUPERVISOR_FAILED)
            return 0;
    }
}

/* --- kills and the end ------------------------------------------------------------------------ */

static void arm_kill(supervisor *self)
{
    if (self->kill_at_us || !self->ready || self->kills == self->plan->kill_count ||
        self->acknowledged < self->plan->kills[self->shop][self->kills])
        return;
    self->kill_at_us = now_us() + dice_below(&self->dice, (uint32_t)self->cycle_us * 2);
}

static void kill_and_restart(supervisor *self)
{
    worker_kill(&self->process);
    (void)read_frames(self, self->process.deliveries);
    (void)read_frames(self, self->process.events);
    worker_close(&self->process);
    self->kill_at_us = 0;
    self->kills++;
    for (uint32_t i = 0; i < self->open_count; i++)
        self->open[i].sent = 0;
    if (self->state != SUPERVISOR_FAILED)
        start_shop(self);
}

/* It ended without being killed: rightly so, if it was told to. */
static void shop_ended(supervisor *self)
{
    int status = worker_reap(&self->process);
    worker_close(&self->process);
    if (self->state == SUPERVISOR_ENDING && status == 0) {
        self->state = SUPERVISOR_DONE;
        self->ended_us = now_us();
    } else {
        supervisor_fail(self, "the shop ended by itself, with status %d", status);
    }
}

static void end_if_all_is_done(supervisor *self)
{
    if (self->state != SUPERVISOR_RUNNING || self->acknowledged < self->plan->delivery_count ||
        self->kills < self->plan->kill_count || !self->ready)
        return;
    (void)shutdown(self->process.deliveries, SHUT_WR);
    self->state = SUPERVISOR_ENDING;
}

void supervisor_step(supervisor *self)
{
    if (self->state == SUPERVISOR_DONE || self->state == SUPERVISOR_FAILED)
        return;
    if (self->kill_at_us && now_us() >= self->kill_at_us) {
        kill_and_restart(self);
        return;
    }
    int closed = read_frames(self, self->process.events);
    closed = read_frames(self, self->process.deliveries) && closed;
    if (self->state == SUPERVISOR_FAILED)
        return;
    if (closed) {
        shop_ended(self);
        return;
    }
    if (now_us() - self->last_sign_us > STALL_US)
        supervisor_fail(self, "the shop has not said anything for %d seconds", STALL_US / 1000000);
    if (self->ready && self->state == SUPERVISOR_RUNNING)
        send_deliveries(self);
    arm_kill(self);
    end_if_all_is_done(self);
}

int64_t supervisor_wake_us(const supervisor *self)
{
    int64_t stall = self->last_sign_us + STALL_US;
    return self->kill_at_us && self->kill_at_us < stall ? self->kill_at_us : stall;
}
