/* Did a shop do what was due, no more and no less? Answered from the databases alone: what the
 * provider has written down, and what the shop's ledger says. */
#ifndef SEMEL_CLI_DEMO_CHECK_H
#define SEMEL_CLI_DEMO_CHECK_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

typedef struct verdict {
    int64_t due;            /* payments */
    int64_t made;           /* charges in the ledger */
    int64_t twice;          /* of those: more than one of a payment */
    int64_t never;          /* payments without a charge */
    int64_t wrong;          /* charges of another amount, or of no payment that is due */
    int64_t over_cents;     /* what customers were charged too much, in sum */
    int64_t received;       /* events, after the provider's inbox */
    int64_t events_lost;    /* payments without an event */
    int64_t events_doubled; /* events beyond the first of a payment */
    int64_t events_wrong;   /* of another amount, or of no payment that is due */
    int64_t unsent;         /* still in the outbox */
    int64_t dead;           /* given up on */
} verdict;

/* Compares `ledger` with the provider's database for the shop of that name. Returns 0; or -1 with
 * one line of text in `error`, if a database cannot be read. */
int check_shop(verdict *out, const char *provider, const char *shop, const char *ledger,
               char *error, size_t error_size);

/* What the shop's semel store still holds, into unsent and dead. */
int check_store(verdict *out, const char *ledger, char *error, size_t error_size);

/* 1 if every charge was made once, rightly, and every event of it arrived once. */
int verdict_is_exact(const verdict *v);

/* The index-th thing that is wrong, in words; 0 if there are not so many. */
int verdict_complaint(char *out, size_t size, const verdict *v, size_t index);

/* How many charges too many there are in a ledger that is being written: a look in passing, 0 if it
 * cannot be had. */
void check_glance(int64_t *twice, int64_t *over_cents, sqlite3 *db);

#endif
