/* What a request asks: its path and its query, and the body of a request that changes something.
 * Strict: what is not understood is refused with a sentence, and nothing is guessed. */
#ifndef SEMEL_PROGRAM_ADMIN_API_QUERY_H
#define SEMEL_PROGRAM_ADMIN_API_QUERY_H

#include "program/support/memory.h"

#include <semel/message.h>
#include <stdint.h>

enum {
    API_TARGET_MAX = 8192, /* bytes of path and query */
    API_VALUE_MAX = 4096,  /* of one parameter, or one text of a body */
    API_PAIRS_MAX = 16,
    API_SEGMENTS_MAX = 4,
    API_BODY_MAX = 65536,
    API_IDS_MAX = 200, /* letters that one change may name */
    API_REASON_MAX = 500,
    API_WHO_MAX = 64
};

typedef struct api_pair {
    const char *name;
    const char *value;
} api_pair;

/* Of /api/v1/inboxes/mail?state=dead: "inboxes", "mail", and one pair. Decoded. */
typedef struct api_query {
    const char *segments[API_SEGMENTS_MAX];
    size_t segment_count;
    api_pair pairs[API_PAIRS_MAX];
    size_t pair_count;
} api_query;

/* NULL, or what is wrong: a constant. The target is as it was sent, from the / of /api on. */
const char *api_query_parse(api_query *out, region *memory, const char *target);

/* The value of a parameter; NULL: it is not there, or empty. */
const char *api_query_get(const api_query *q, const char *name);

/* A number that is not negative. 1, or 0 if the text is none. NULL is 1, and leaves *out. */
int api_query_number(int64_t *out, const char *text);

typedef enum api_verb {
    API_DEAD_RETRY = 1,
    API_DEAD_DISCARD,
    API_INBOX_FORGET,
    API_OUTBOX_REQUEUE,
    API_OUTBOX_SKIP,
    API_QUEUE_PURGE,
    API_VERBS
} api_verb;

extern const char *const api_verb_names[API_VERBS]; /* "dead.retry" */

/* A change, as it was asked for. Texts are as they are typed in commands. */
typedef struct api_action {
    api_verb verb;
    const char *inbox, *outbox, *queue, *type, *error, *cause, *since, *until, *key, *id;
    int64_t until_id;             /* 0: not given */
    const char *ids[API_IDS_MAX]; /* of letters */
    size_t id_count;
    int64_t count; /* that was confirmed; -1: none was */
    const char *reason, *who;
    int forget;
} api_action;

/* "dead.retry --inbox mail --cause 7f3a90c1", for the audit of a change that was refused. */
const char *api_action_text(region *memory, const api_action *action);

/* NULL, or what is wrong. */
const char *api_action_parse(api_action *out, region *memory, semel_bytes body);

#endif
