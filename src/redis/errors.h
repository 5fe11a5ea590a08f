/* What the errors of a server mean. */
#ifndef SEMEL_REDIS_ERRORS_H
#define SEMEL_REDIS_ERRORS_H

#include "redis/client.h"

typedef struct redis_error_class {
    const char *code;    /* the first word of the error */
    semel_status status; /* 0: the role's `broken` */
    int later;           /* 1: it passes by itself */
    int elsewhere;       /* 1: another connection may find another server */
    const char *advice;
} redis_error_class;

const redis_error_class *redis_classify(const redisReply *reply);

#endif
