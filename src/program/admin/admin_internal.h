/* The admin server as its parts share it. */
#ifndef SEMEL_PROGRAM_ADMIN_ADMIN_INTERNAL_H
#define SEMEL_PROGRAM_ADMIN_ADMIN_INTERNAL_H

#include "program/admin/admin.h"
#include "program/admin/api.h"
#include "program/admin/readiness.h"
#include "program/admin/totals.h"
#include "program/http/server.h"

#include <pthread.h>

/* What is known of the configuration, copied. */
typedef struct admin_inbox {
    const char *name;
    const char *handler; /* "sql", "exec"; of the keys of a proxy route: "proxy" */
    uint64_t retention_ms;
} admin_inbox;

typedef struct admin_outbox {
    const char *name;
    const char *to;
} admin_outbox;

typedef struct admin_names {
    region memory;
    admin_inbox *inboxes;
    admin_outbox *outboxes;
    const char **hosts;
    size_t inbox_count, outbox_count, host_count;
    int is_public; /* it listens on more than the loopback */
    int has_page;
} admin_names;

struct admin {
    admin_links links;
    readiness *readiness;
    totals *totals;
    api *api;
    http_server *server;
    http_server *prepared; /* on another address; NULL: none */
    char *listen, *prepared_listen;
    char *url;
    pthread_rwlock_t lock; /* over what follows */
    admin_names names;
    struct gateway *gateway;
};

/* admin_names.c */
void admin_names_read(admin_names *out, const config *all);
/* Is the server meant by this Host header? NULL: there was none. */
int admin_names_permit(const admin_names *names, const char *host);

/* metrics.c: the lock is held for reading. */
void metrics_write(admin *a, buffer *to, int is_open_metrics);

/* admin_answers.c: the handler of the server. */
void admin_handle(http_request *request, void *context);
extern const http_header admin_headers[]; /* of every answer */

#endif
