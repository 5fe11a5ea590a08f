/* The two shops of the demo. Each is a process of its own, which is killed and started again; it
 * has its deliveries on the standard input and its events on the standard output, both as
 * frames. */
#ifndef SEMEL_CLI_DEMO_WORKER_H
#define SEMEL_CLI_DEMO_WORKER_H

#include "program/demo/demo_wire.h"

enum { DELIVERIES_FD = 0, EVENTS_FD = 1 };

/* Run until there are no more deliveries. Both return an exit status. */
int shop_naive(const char *database);
int shop_semel(const char *database);

/* Both answer -1 if the provider is gone. */
int shop_ready(void);
int shop_acknowledge(const frame *delivery, int duplicate);

/* The rest of the work of a charge, in both shops: a receipt, say. It takes its time. */
void shop_write_receipt(void);

/* A broker is not on the same host: what is sent is on its way for a while. Once per batch of
 * events, in both shops. */
void shop_cross_network(void);

/* Sends an event; waits for the provider to confirm one: up to wait_ms, -1 as long as it takes. */
int shop_send_event(uint32_t tag, const char *id, size_t id_len, const char *body, size_t body_len);
frame_result shop_await_confirm(uint32_t *tag, int wait_ms);

#endif
