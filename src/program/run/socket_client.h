/* A client of the socket (socket.c): what it asks, and what is still to be written to it. */
#ifndef SEMEL_PROGRAM_RUN_SOCKET_CLIENT_H
#define SEMEL_PROGRAM_RUN_SOCKET_CLIENT_H

#include "program/run/live_internal.h"

typedef enum client_state {
    CLIENT_ASKS = 0, /* its question is not complete */
    CLIENT_WAITS,    /* for the health of the process */
    CLIENT_TAILS,
    CLIENT_ENDS /* when everything is written */
} client_state;

typedef struct client {
    int fd; /* -1: there is none */
    client_state state;
    buffer question;
    buffer answer;
    size_t written;   /* of the answer */
    int64_t moved_ns; /* when something was last read or written */
    tap *tap;
    uint32_t stalled_after_ms;
} client;

void client_begin(client *c, int fd);
void client_end(client *c, taps *all);

/* For poll(). */
short client_events(const client *c);

/* Reads what has come; a complete question is answered, begun or refused. A client that has gone
 * ends. */
void client_read(client *c, live *all);

/* Takes the text as the last line of the answer. */
void client_answer(client *c, const buffer *text);

/* Outcomes from the ring of a client that tails, as many as it may have waiting. 1: some came. */
int client_fill(client *c, const log *l);

/* 0: the client has gone, or everything is written and it ends. */
int client_write(client *c);

int client_hangs(const client *c);

#endif
