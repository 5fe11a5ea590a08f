/* Waiting for other threads and processes. They end it, in real time, whatever clock the seam has:
 * a test's clock may stand still. What is *measured* (leases, retention, backoff) goes by the seam
 * instead. */
#ifndef SEMEL_BASE_WAIT_H
#define SEMEL_BASE_WAIT_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

int64_t wait_clock_ms(void); /* CLOCK_MONOTONIC */
int64_t wait_clock_ns(void);

/* That clock's time as the waiting calls take it. */
struct timespec wait_until(int64_t at_ms);
struct timespec wait_until_ns(int64_t at_ns);

/* A condition whose timed waits go by that clock. 0, or an errno. */
int wait_condition_init(pthread_cond_t *condition);

void wait_nap_us(uint32_t us);

#endif
