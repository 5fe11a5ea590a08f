/* A pool, a server that is made up, and others who use the pool. */
#ifndef SEMEL_TESTS_SUPPORT_POOL_CASE_H
#define SEMEL_TESTS_SUPPORT_POOL_CASE_H

#include "base/pool.h"
#include "support/crew.h"

enum { POOL_MINUTE = 60000, TRIES_KEPT = 64 };

typedef struct fake_server {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    semel_status answer; /* to those who connect */
    int holding;         /* they wait at the door */
    unsigned gather;     /* they wait for so many of them */
    unsigned refusals;   /* so many are turned away first ... */
    unsigned every;      /* ... and then one in so many */
    unsigned tries;
    unsigned at_the_door, at_the_door_max;
    int open, open_max, closed;
    uint32_t given_ms; /* the time that the last one was given */
    int64_t tried_at[TRIES_KEPT];
} fake_server;

typedef struct fake_socket {
    fake_server *of;
    _Atomic int dead;
    unsigned uses; /* by one thread at a time: the thread sanitizer watches it */
} fake_socket;

extern const pool_calls fake_calls; /* their context is a fake_server */

void fake_start(fake_server *s);
void fake_answer(fake_server *s, semel_status answer);
void fake_hold(fake_server *s, int holding);
unsigned fake_tries(fake_server *s);
void fake_await_tries(fake_server *s, unsigned tries);

typedef struct pool_case {
    fake_server server;
    pool pool;
} pool_case;

/* At the end, whatever happened, nothing is left open. */
void pool_case_begin(pool_case *f, uint32_t limit);
void pool_case_end(pool_case *f);

/* Must succeed; must fail so. */
fake_socket *pool_case_take(pool_case *f, uint32_t wait_ms);
void pool_case_refused(pool_case *f, semel_status status, uint32_t wait_ms);

/* One who takes a connection in a thread of its own and gives it back, or keeps it. */
typedef struct customer {
    pool_case *f;
    uint32_t wait_ms;
    int keeps;
    int name;
    crew_member thread;
    void *got;
    semel_status status;
    semel_error err;
} customer;

extern int served[CREW_MAX]; /* names, in the order in which they got one: the first of each case */
extern int served_count;

void customer_start(customer *c);
void customer_send(customer *c, pool_case *f, int name, uint32_t wait_ms);
void customer_await(customer *c, semel_status status);

/* A connection that another thread has, and keeps. */
void *pool_case_taken_by_another(pool_case *f);

/* Until so many have asked: whoever then has got nothing stands in the line. */
void pool_case_await_asked(pool_case *f, uint64_t count);

#endif
