/* A server whose handler tells what it was asked, and clients that are raw sockets. */
#ifndef SEMEL_TEST_HTTP_KIT_H
#define SEMEL_TEST_HTTP_KIT_H

#include "program/http/server.h"
#include "program/support/show.h"
#include "support/base/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BODY_MAX = 64 << 10,
    HEADER_MAX = 4096,
    PATIENCE_MS = 20000,
    PATIENT_MS = 60000, /* longer than any test waits */
    NS_PER_MS = 1000000
};

#define H "Host: a\r\n"
#define C "Connection: close\r\n"

/* --- the server ------------------------------------------------------------------------------- */

/* What a handler was told to wait for. Requests for /held wait there in a worker, those for /later
 * in a thread of their own. */
extern struct http_gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int is_open;
    int waiting; /* handlers at the gate */
    pthread_t late;
} gate;

void set_gate(int is_open);
void wait_for_gate(int waiting);
http_server_options usual(const char *listen);
http_server *open_server(const http_server_options *options);
http_server *open_usual(void);

/* --- clients ---------------------------------------------------------------------------------- */

int open_client(const http_server *server);
void send_bytes(int fd, const char *text, size_t len);
void send_text(int fd, const char *text);
int wait_readable(int fd);
char *read_to_end(int fd);
char *read_until(int fd, const char *end);
char *ask(const http_server *server, const char *text);
size_t occurrences(const char *text, const char *of);
void assert_pending(const http_server *server, size_t wanted);
void assert_works(const http_server *server);

#endif
