/* One request by libcurl, as the http handler and the proxy of the gateway make it: neither
 * redirects nor other protocols, a bounded time, a bounded answer, no private address unless they
 * are allowed, and a lease that is renewed meanwhile.
 *
 * Handles of libcurl keep their connections, and wait in a pool for the next request. */
#ifndef SEMEL_PROGRAM_HANDLER_HTTP_TRANSFER_H
#define SEMEL_PROGRAM_HANDLER_HTTP_TRANSFER_H

#include "program/support/memory.h"

#include <curl/curl.h>
#include <pthread.h>
#include <semel/semel.h>

typedef struct http_handle http_handle;

/* A zeroed one is not open. From any thread. */
typedef struct http_pool {
    pthread_mutex_t lock;
    http_handle *idle;
} http_pool;

void http_pool_open(http_pool *pool);
void http_pool_close(http_pool *pool); /* no transfer uses it */

/* SEMEL_EINVAL unless it is one of http or https. */
semel_status http_url_check(const char *what, const char *url, semel_error *err);

typedef struct http_transfer {
    /* set by the caller */
    uint32_t timeout_ms;
    int private_addresses;
    int sends_once;   /* libcurl must not repeat it, as it does when a kept connection has died */
    size_t room;      /* for the body of the answer */
    semel_unit *unit; /* whose lease is renewed; NULL: none */
    uint32_t lease_ms;
    int (*gives_up)(const struct http_transfer *t); /* asked about once a second; NULL: never */

    /* what became of it */
    CURL *curl;     /* between begin and end */
    buffer body;    /* the caller frees it */
    int too_long;   /* the answer was */
    int is_private; /* an address was refused */
    int sent;       /* how often the request was about to be sent; 0: nobody has got it */
    semel_status lost;
    semel_error why; /* of the lease that is lost */
    char said[CURL_ERROR_SIZE];

    /* the transfer's own */
    http_pool *pool;
    http_handle *handle;
    int64_t renew_ms;
} http_transfer;

/* Takes a handle and sets all of the above; the caller then sets the request itself at t->curl. */
semel_status http_transfer_begin(http_transfer *t, http_pool *pool, semel_error *err);
CURLcode http_transfer_run(http_transfer *t);
/* What went wrong, as an error of this status: names, numbers and addresses, and no header or
 * body. */
semel_status http_transfer_fail(const http_transfer *t, CURLcode code, semel_status status,
                                semel_error *err);
void http_transfer_end(http_transfer *t);

/* Renews the lease if it is time: three times in a lease, so one that fails for a while costs
 * nothing. 0 if the lease is lost. */
int http_transfer_keep_lease(http_transfer *t);

#endif
