/* See unique_id.h. */
#include "program/support/unique_id.h"

#include "program/support/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

/* Without randomness there would be two messages with one id, and one of them lost. */
static void fill_random(unsigned char *out, size_t len)
{
    if (getrandom(out, len, 0) == (ssize_t)len)
        return;
    (void)fputs("semel: the system has no random numbers\n", stderr);
    _Exit(1);
}

void unique_id(char out[UNIQUE_ID_SIZE])
{
    unsigned char b[16];
    uint64_t now = (uint64_t)wall_clock_ms();
    fill_random(b, sizeof b);
    for (int i = 0; i < 6; i++)
        b[i] = (unsigned char)(now >> (40 - 8 * i));
    b[6] = (unsigned char)(0x70 | (b[6] & 0x0f));
    b[8] = (unsigned char)(0x80 | (b[8] & 0x3f));
    (void)snprintf(out, UNIQUE_ID_SIZE,
                   "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                   b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
                   b[14], b[15]);
}
