/* What a server says of itself, and what follows from it for what it keeps. */
#ifndef SEMEL_REDIS_FACTS_H
#define SEMEL_REDIS_FACTS_H

#include "redis/client.h"

enum { REDIS_VALUE_ROOM = 64, REDIS_LOSS_ROOM = 400 };

typedef struct redis_facts {
    int informed; /* INFO was answered */
    unsigned major, minor;
    int valkey;
    int aof;                       /* 0: off, 1: on, -1: not known */
    char fsync[REDIS_VALUE_ROOM];  /* "" if CONFIG is hidden */
    int pauses;                    /* it syncs nothing while it writes its file anew */
    char policy[REDIS_VALUE_ROOM]; /* "" if not known */
    int replicas;
    int cluster;
    char role[REDIS_VALUE_ROOM];
} redis_facts;

/* Of the answers to INFO and to CONFIG GET appendfsync, whatever they are. */
void redis_facts_read(redis_facts *out, const redisReply *info, const redisReply *config);

semel_status redis_facts_ask(redis_facts *out, redis_client *client, semel_error *err);

/* EUNSUPPORTED or EINVAL: the server cannot do what semel, or the URL, needs. */
semel_status redis_facts_check(const redis_facts *f, const redis_client *client, semel_error *err);

/* What a commit or a confirmed message survives. */
semel_durability redis_facts_grade(const redis_facts *f, const redis_address *at);

/* A sentence about the worst that may be lost; 0: nothing is wrong. */
int redis_facts_loss(char out[REDIS_LOSS_ROOM], const redis_facts *f, const redis_client *client);

/* EINVAL with that sentence, unless the URL accepts losses. */
semel_status redis_facts_refuse(const redis_facts *f, const redis_client *client, semel_error *err);

#endif
