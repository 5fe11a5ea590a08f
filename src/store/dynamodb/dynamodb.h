/* DynamoDB as a keyed driver (<semel/sys/keyed.h>): what its files share.
 *
 *     dynamodb.c   the tables, opening, time          address.c  the URL
 *     place.c      space and key as the table's keys  item.c     records as items, conditions
 *     read.c       get                                scan.c     scan, count
 *     apply.c      writing; cancel.c what a transaction that was cancelled says
 *     partiql.c    semel's changes as statements      foreign.c  the application's writes
 *     table.c      the table, its TTL, inspection     errors.c   what an error means
 *
 * One table. An item is a record:
 *     p  the space, for markers with a shard      k  the key   (binary: the table's key)
 *     v  version    g  guard    u  until, in ms   d  value    b  body
 *     x  when it may expire, in seconds (the table's TTL attribute)
 * and there are two kinds of items that are no records:
 *     z  the record was removed by a statement (partiql.c says why); the item goes right after
 *     l  keys of more than 1023 bytes begin like this one (place.c)
 * What is absent is not there, or is of the type NULL: statements cannot remove attributes
 * together with others. */
#ifndef SEMEL_STORE_DYNAMODB_H
#define SEMEL_STORE_DYNAMODB_H

#include "base/mem.h"
#include "base/text.h"
#include "cloud/aws.h"
#include "store/dynamodb/address.h"

#include <json-c/json.h>
#include <pthread.h>
#include <semel/sys/keyed.h>

enum {
    DYNAMO_ITEM_MAX = 400 * 1024, /* bytes of an item */
    DYNAMO_ROOM = 512,            /* of it, for what an item has beside space, key, value, body */
    DYNAMO_ACTIONS_MAX = 100,     /* of a transaction */
    DYNAMO_APPLY_MAX = 4 << 20,   /* bytes of a transaction */
    DYNAMO_GET_MAX = 100,         /* keys of one BatchGetItem */
    DYNAMO_JSON_DEPTH = 64
};

typedef struct dynamo_store {
    dynamo_address at;
    mem_arena arena; /* of the address */
    aws_client *aws;
    semel_store_settings settings;
    pthread_mutex_t lock; /* for what follows */
    semel_keyed_clock clock;
} dynamo_store;

extern const semel_keyed_driver dynamo_driver;

/* --- requests --------------------------------------------------------------------------------- */

/* aws_call() of a text that is being written; ENOMEM if it has failed. Learns the time. */
semel_status dynamo_call(dynamo_store *store, const char *operation, const text_buffer *body,
                         aws_answer *answer, semel_error *err);

/* The same for what changes nothing: an answer that was lost is EUNAVAILABLE, and what the service
 * refuses an error. *out is the document, for json_object_put(). */
semel_status dynamo_ask(dynamo_store *store, const char *operation, const text_buffer *body,
                        const char *doing, json_object **out, semel_error *err);

/* The body of an answer. ESTORE if it is no JSON object. */
semel_status dynamo_parse(json_object **out, const text_buffer *body, semel_error *err);

/* An error of the service: ESCHEMA if the table is not there, else as aws_fail(). */
semel_status dynamo_fail(const dynamo_store *store, const aws_answer *answer, const char *doing,
                         semel_error *err);
semel_status dynamo_no_memory(semel_error *err);
semel_status dynamo_strange(const char *what, semel_error *err); /* an answer that is none */

/* --- places (place.c) ------------------------------------------------------------------------- */

enum {
    DYNAMO_SHORT_MAX = 1023, /* longer keys are split after one byte more */
    DYNAMO_SHARDS = 8,
    DYNAMO_PARTITION_MAX = SEMEL_KEYED_SPACE_MAX + 2 + 1 + DYNAMO_SHORT_MAX + 1,
    DYNAMO_SORT_MAX = DYNAMO_SHORT_MAX + 1
};

/* A key of the table. */
typedef struct dynamo_place {
    unsigned char partition[DYNAMO_PARTITION_MAX];
    size_t partition_len;
    unsigned char sort[DYNAMO_SORT_MAX];
    size_t sort_len;
} dynamo_place;

int dynamo_is_long(semel_bytes key);
unsigned dynamo_shards(semel_bytes space); /* how many partitions it has */

/* EINVAL if the space or the key is longer than the layer's, or empty. */
semel_status dynamo_place_of(dynamo_place *out, semel_bytes space, semel_bytes key,
                             semel_error *err);

/* Of a long key: the item that says that there are such keys. */
void dynamo_place_of_head(dynamo_place *out, semel_bytes space, semel_bytes key);

/* The partition of a shard; and that of the long keys that begin with `head`, which was found
 * in it. */
void dynamo_partition(dynamo_place *out, semel_bytes space, unsigned shard);
void dynamo_long_partition(dynamo_place *out, semel_bytes head);

/* --- items (item.c) --------------------------------------------------------------------------- */

void dynamo_write_bytes(text_buffer *to, semel_bytes bytes);         /* {"B":"..."} */
void dynamo_write_number(text_buffer *to, int64_t number);           /* {"N":"..."} */
void dynamo_write_key(text_buffer *to, const dynamo_place *at);      /* "p":...,"k":... */
void dynamo_write_table(text_buffer *to, const dynamo_store *store); /* "TableName":"..." */
void dynamo_write_projection(text_buffer *to, int bodies); /* ,"ProjectionExpression":"..." */

/* What an operation or an action of a transaction has between its braces: of a WRITE, a Put, or an
 * Update if the body is kept; of the others a Delete or a ConditionCheck. The condition with it,
 * and that the item is told if it does not hold. */
void dynamo_write_action(text_buffer *to, const dynamo_store *store,
                         const semel_keyed_change *change, const dynamo_place *at);
const char *dynamo_action_name(const semel_keyed_change *change); /* "Put" */

void dynamo_write_guard(text_buffer *to, uint64_t guard); /* {"B":...} */
int64_t dynamo_expires_s(int64_t expires_ms);             /* rounded up */

/* Bytes of an item, as the limit counts them, about. */
uint64_t dynamo_size(const semel_keyed_change *change);

typedef enum dynamo_kind { DYNAMO_RECORD = 1, DYNAMO_GONE, DYNAMO_HEAD } dynamo_kind;

typedef struct dynamo_item {
    dynamo_kind kind;
    semel_bytes sort;          /* of the table */
    semel_keyed_record record; /* space and key are not set */
} dynamo_item;

/* All in the arena. ESTORE if it is not an item of semel's. */
semel_status dynamo_read_item(dynamo_item *out, json_object *item, mem_arena *arena,
                              semel_error *err);

/* A member of an object: NULL if there is none, or it is of another type. */
json_object *dynamo_member(json_object *object, const char *name, json_type type);

/* --- reading ---------------------------------------------------------------------------------- */

semel_status dynamo_get(void *store, semel_bytes space, const semel_bytes keys[], size_t count,
                        int bodies, semel_keyed_sink *sink, void *context, semel_error *err);
semel_status dynamo_get_item(dynamo_item *out, int *found, dynamo_store *store,
                             const dynamo_place *at, int body, mem_arena *arena, semel_error *err);
semel_status dynamo_scan(void *store, const semel_keyed_range *range, semel_keyed_sink *sink,
                         void *context, semel_error *err);
semel_status dynamo_count(void *store, semel_bytes space, uint64_t *out, semel_error *err);

/* --- writing ---------------------------------------------------------------------------------- */

semel_status dynamo_apply(void *store, semel_keyed_change changes[], size_t count,
                          semel_begin durability, semel_keyed_sink *sink, void *context,
                          semel_error *err);

/* One apply(), in its files. */
typedef struct dynamo_writing {
    dynamo_store *store;
    semel_keyed_change *changes;
    size_t count;
    dynamo_place *places; /* of each change that is not FOREIGN */
    semel_keyed_sink *sink;
    void *context;
    mem_arena arena;
    int statements; /* as PartiQL */
    int foreign;    /* has writes of the application's own */
} dynamo_writing;

/* A refused change: marks it, and gives the sink what is there. `item` may be NULL. */
semel_status dynamo_refuse(dynamo_writing *w, size_t index, json_object *item, semel_error *err);

/* A TransactionCanceledException. ECONFLICT with marks, EHANDLER for a statement that failed, or
 * OK and *again if nothing was wrong but the moment. */
semel_status dynamo_canceled(dynamo_writing *w, const aws_answer *answer, int *again,
                             semel_error *err);

/* partiql.c: an element of TransactStatements. */
void dynamo_write_statement(text_buffer *to, const dynamo_writing *w, size_t index);
/* Of an apply() that was carried out: the items of removed records go. */
void dynamo_drop_gone(dynamo_writing *w);
semel_status dynamo_drop_item(dynamo_store *store, const dynamo_place *at, semel_error *err);

/* foreign.c */
semel_status dynamo_queue(void *store, const char *statement, const semel_value values[],
                          size_t count, semel_error *err);
int dynamo_is_json(const char *statement);
semel_status dynamo_write_foreign(text_buffer *to, const semel_keyed_change *change,
                                  semel_error *err);

/* --- the table -------------------------------------------------------------------------------- */

semel_status dynamo_prepare(void *store, semel_error *err);
semel_status dynamo_inspect(void *store, semel_finding_visitor *visitor, void *context,
                            semel_error *err);
semel_status dynamo_check_table(dynamo_store *store, semel_error *err); /* when it is opened */

#endif
