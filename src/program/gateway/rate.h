/* How many requests come from one address: a bucket of tokens for each address and route, which
 * holds as many as a second brings.
 *
 * The table is of a fixed size, and the bucket that is fullest gives way to a new one: whoever is
 * forgotten begins with a full bucket. So many addresses cost no memory, and an address that sends
 * too much is not forgotten for the sake of one that does not. Addresses of IPv6 count by their
 * first 64 bits, since one host has as many as it likes behind them. */
#ifndef SEMEL_PROGRAM_GATEWAY_RATE_H
#define SEMEL_PROGRAM_GATEWAY_RATE_H

#include <stdint.h>

typedef struct rate_table rate_table;

rate_table *rate_open(void);
void rate_close(rate_table *table);

/* Takes a token. 0: there was one, else the milliseconds until there is one. `now_ns` is of the
 * steady clock. From any thread. */
uint32_t rate_take(rate_table *table, const char *address, const char *route, uint32_t rate,
                   int64_t now_ns);

#endif
