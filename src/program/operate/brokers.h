/* The kinds of brokers: what commands have to know of each. The one place that tells them apart. */
#ifndef SEMEL_PROGRAM_OPERATE_BROKERS_H
#define SEMEL_PROGRAM_OPERATE_BROKERS_H

#include "program/support/memory.h"

#include <semel/error.h>

typedef struct broker_kind {
    const char *scheme;  /* or the beginning of several */
    const char *receive; /* the parameter of a URL that receivers need, ... */
    const char *without; /* ... and what to say of a queue if it is not there */
    int declares;        /* its URLs have declare=: what is missing can be made */
    int in_path;         /* the path of a URL names what its messages are in */
    int says_which;      /* its errors name what is missing */
} broker_kind;

/* NULL: a queue of this kind cannot be asked. */
const broker_kind *broker_kind_of(const char *url);

/* What a broker's own number of an error means. */
typedef enum broker_fault {
    BROKER_OTHER = 0,
    BROKER_MISSING,   /* a queue, an exchange, a stream, a consumer, a group or a topic */
    BROKER_DIFFERENT, /* it is there, and not as the URL says */
    BROKER_REFUSED    /* the login failed, or it lacks a right */
} broker_fault;

broker_fault broker_fault_of(const char *url, const semel_error *why);

/* A URL by which one can look and nothing more: it changes nothing at the broker, and accepts that
 * messages may get lost, because none is published. */
const char *broker_url_to_look(region *memory, const char *url);

/* The scheme and the host of a URL: neither user nor password, nor parameters. */
const char *broker_location(region *memory, const char *url);

/* The same with the stream or the topic, where the path names one. */
const char *broker_queue_location(region *memory, const char *url);

#endif
