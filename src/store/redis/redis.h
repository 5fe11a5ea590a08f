/* The Redis store: a driver of the keyed layer (<semel/sys/keyed.h>). docs/REDIS.md says what it
 * promises and what it may lose.
 *
 * The connection, the URL's common part and what an error means are in src/redis.
 *
 *     address.c   the URL           keys.c     keys and records    grade.c  what the server keeps
 *     script.c    the scripts, which are the only way to write
 *     command.c   commands of the application's own: which are known, and which keys they write
 *     apply.c     changes           read.c     get, scan, count
 *     listen.c    wake-up of relays redis.c    opening, connections, the tables
 *
 * A record is a hash, {namespace}/SPACE:KEY, with three fields:
 *     h   version (16 bytes), guard (8 bytes, the highest first), until_ms (20 digits)
 *     d   the value
 *     b   the body, if there is one
 * and a member of a sorted set, {namespace}/SPACE, whose scores are all 0: its order is that of the
 * bytes of keys. The braces make all keys of a namespace one slot of a cluster. */
#ifndef SEMEL_STORE_REDIS_REDIS_H
#define SEMEL_STORE_REDIS_REDIS_H

#include "redis/client.h"
#include "store/redis/address.h"
#include "store/sql/pool.h"

#include <semel/sys/keyed.h>

typedef enum redis_script_name {
    SCRIPT_APPLY,
    SCRIPT_SCAN,
    SCRIPT_RIGHTS,
    REDIS_SCRIPTS
} redis_script_name;

/* --- the store -------------------------------------------------------------------------------- */

typedef struct redis_store {
    redis_client client; /* its lock is for `clock`, too */
    redis_store_address at;
    mem_arena arena; /* of the address */
    const semel_store_settings *settings;
    redis_script scripts[REDIS_SCRIPTS];
    pool connections;
    char prefix[REDIS_NAMESPACE_MAX + 4]; /* "{semel}/" */
    size_t prefix_len;
    semel_durability grade;
    int cluster;
    semel_keyed_clock clock;

    redis_link *listener; /* listen.c; the core calls that one at a time */
    uint32_t listen_pause_ms;
    int64_t listen_again_ms;
} redis_store;

semel_status redis_scripts_prepare(redis_store *store, semel_error *err);

/* From the seconds and microseconds that stand at the beginning of a reply. */
void redis_learn_time(redis_store *store, const redis_answer *answer, const redisReply *reply);

/* --- keys and records ------------------------------------------------------------------------- */

size_t redis_space_len(semel_bytes space); /* with escapes */
void redis_index_word(redis_store *store, redis_request *r, semel_bytes space);
void redis_record_word(redis_store *store, redis_request *r, semel_bytes space, semel_bytes key);

enum { REDIS_HEAD_FIXED = 24, REDIS_HEAD_LEN = 44, REDIS_HEAD_MAX = 48 };
size_t redis_head_write(char out[REDIS_HEAD_MAX], const semel_keyed_record *record);

/* ESTORE if it is no record of semel's. */
semel_status redis_head_read(semel_keyed_record *out, const redisReply *head, semel_error *err);

/* --- commands of the application's own -------------------------------------------------------- */

typedef struct redis_command {
    semel_bytes *words;
    size_t count;
    size_t first, last, step; /* which of the words are keys */
    const char *type;         /* that such a key has; "": any */
} redis_command;

/* Into the arena. EINVAL says what is wrong with it. `values` may be NULL: then they are not known
 * yet, and keys made of them are not looked at. */
semel_status redis_command_read(redis_command *out, redis_store *store, mem_arena *arena,
                                const char *statement, const semel_value values[], size_t count,
                                semel_error *err);
size_t redis_command_keys(const redis_command *command);

/* --- members ---------------------------------------------------------------------------------- */

semel_status redis_apply(void *store, semel_keyed_change changes[], size_t count,
                         semel_begin durability, semel_keyed_sink *sink, void *context,
                         semel_error *err);
semel_status redis_get(void *store, semel_bytes space, const semel_bytes keys[], size_t count,
                       int bodies, semel_keyed_sink *sink, void *context, semel_error *err);
semel_status redis_scan(void *store, const semel_keyed_range *range, semel_keyed_sink *sink,
                        void *context, semel_error *err);
semel_status redis_count(void *store, semel_bytes space, uint64_t *out, semel_error *err);
semel_status redis_queue(void *store, const char *statement, const semel_value values[],
                         size_t count, semel_error *err);
semel_status redis_inspect(void *store, semel_finding_visitor *visitor, void *context,
                           semel_error *err);

/* Asks the server what it keeps, and refuses what could forget markers. Sets grade and cluster. */
semel_status redis_grade(redis_store *store, semel_error *err);

int redis_watch(void *store);
int redis_heard(void *store);
void redis_unwatch(void *store);

extern const semel_keyed_driver redis_keyed_driver;

#endif
