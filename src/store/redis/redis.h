/* The Redis store: a driver of the keyed layer (<semel/sys/keyed.h>). docs/REDIS.md says what it
 * promises and what it may lose.
 *
 *     address.c   the URL           socket.c   bytes, TLS          link.c   a connection, replies
 *     exchange.c  requests and their answers: pool, scripts, redirections, what an error means
 *     script.c    the scripts, which are the only way to write
 *     command.c   commands of the application's own: which are known, and which keys they write
 *     apply.c     changes           read.c     get, scan, count    grade.c  what the server keeps
 *     listen.c    wake-up of relays redis.c    opening, the tables
 *
 * A record is a hash, {namespace}/SPACE:KEY, with three fields:
 *     h   version (16 bytes), guard (8 bytes, the highest first), until_ms (20 digits)
 *     d   the value
 *     b   the body, if there is one
 * and a member of a sorted set, {namespace}/SPACE, whose scores are all 0: its order is that of the
 * bytes of keys. The braces make all keys of a namespace one slot of a cluster. */
#ifndef SEMEL_STORE_REDIS_REDIS_H
#define SEMEL_STORE_REDIS_REDIS_H

#include "base/text.h"
#include "store/redis/socket.h"
#include "store/sql/pool.h"

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <semel/sys/keyed.h>

/* --- a connection ----------------------------------------------------------------------------- */

typedef struct redis_store redis_store;

typedef struct redis_link {
    redis_store *store;
    redis_socket socket;
    redisReader *reader;
    uint64_t place; /* redis_store.place when it was made */
} redis_link;

/* Connected, logged in, and in its database. EUNAVAILABLE: worth another attempt. */
semel_status redis_link_open(redis_link **out, redis_store *store, const char *host, uint32_t port,
                             int64_t until_ms, semel_error *err);
void redis_link_close(redis_link *link); /* NULL is a no-op */

/* The next reply, to be freed with freeReplyObject(). 0: none came; socket.why says why. */
int redis_link_reply(redis_link *link, redisReply **out, int64_t until_ms);

/* --- requests --------------------------------------------------------------------------------- */

enum { REDIS_SHA_LEN = 40 };

typedef struct redis_script {
    const char *text;
    char sha[REDIS_SHA_LEN + 1];
} redis_script;

typedef enum redis_script_name {
    SCRIPT_APPLY,
    SCRIPT_SCAN,
    SCRIPT_RIGHTS,
    REDIS_SCRIPTS
} redis_script_name;

/* Starts as {0}. With a script: what follows EVALSHA and the hash. Without: whole commands. */
typedef struct redis_request {
    const char *doing; /* for errors: "writing" */
    const redis_script *script;
    text_buffer bytes;
    size_t arguments; /* of the script, the number of keys included */
    size_t replies;   /* of the commands */
    int writes;       /* if its answer is lost nobody knows whether it was carried out */
    int durable;      /* the URL's sync and replicas are waited for */
} redis_request;

void redis_begin(redis_request *r, size_t arguments); /* a command of so many words */
void redis_word(redis_request *r, const void *data, size_t len);
void redis_word_z(redis_request *r, const char *text);
void redis_word_number(redis_request *r, int64_t number);

/* A word in pieces: its length, then all of it. */
void redis_word_len(redis_request *r, size_t len);
void redis_word_part(redis_request *r, const void *data, size_t len);
void redis_word_end(redis_request *r);

typedef struct redis_answer {
    redisReply **replies;
    size_t count;
    int64_t sent_us, heard_us; /* by the steady clock */
} redis_answer;

/* Sends the request, again where that is safe, and frees its bytes. OK: `count` replies, none of
 * which is an error unless it has come to a command without a script. They are to be freed. */
semel_status redis_exchange(redis_store *store, redis_request *r, redis_answer *out,
                            semel_error *err);
void redis_answer_free(redis_answer *answer);

/* The same on one connection, once: nothing is repeated, and errors stay in the replies. */
semel_status redis_talk(redis_store *store, redis_link *link, redis_request *r, redis_answer *out,
                        semel_error *err);

/* What an error reply means, by its first word. */
semel_status redis_fail(const redisReply *reply, const char *doing, semel_error *err);
int redis_is_error(const redisReply *reply, const char *code);

/* --- the store -------------------------------------------------------------------------------- */

typedef struct redis_facts redis_facts;

struct redis_store {
    redis_address at;
    mem_arena arena; /* of the address */
    const semel_store_settings *settings;
    SSL_CTX *tls;
    redis_script scripts[REDIS_SCRIPTS];
    pool connections;
    char prefix[REDIS_NAMESPACE_MAX + 4]; /* "{semel}/" */
    size_t prefix_len;
    semel_durability grade;
    int cluster;

    pthread_mutex_t lock; /* for what follows */
    semel_keyed_clock clock;
    char host[256]; /* of the node that has our slot */
    uint32_t port;
    uint64_t place; /* changes with them */

    redis_link *listener; /* listen.c; the core calls that one at a time */
    uint32_t listen_pause_ms;
    int64_t listen_again_ms;
};

semel_status redis_scripts_prepare(redis_store *store, semel_error *err);

/* redis_store.host and port, for a new connection. */
uint64_t redis_place(redis_store *store, char host[256], uint32_t *port);
void redis_place_reset(redis_store *store); /* to the URL's */

/* From the seconds and microseconds that stand at the beginning of a reply. */
void redis_learn_time(redis_store *store, const redis_answer *answer, const redisReply *reply);
int64_t redis_steady_us(void);

/* --- keys and records ------------------------------------------------------------------------- */

size_t redis_space_len(semel_bytes space); /* with escapes */
void redis_index_word(redis_store *store, redis_request *r, semel_bytes space);
void redis_record_word(redis_store *store, redis_request *r, semel_bytes space, semel_bytes key);

enum { REDIS_HEAD_FIXED = 24, REDIS_HEAD_LEN = 44, REDIS_HEAD_MAX = 48 };
size_t redis_head_write(char out[REDIS_HEAD_MAX], const semel_keyed_record *record);

/* ESTORE if it is no record of semel's. */
semel_status redis_head_read(semel_keyed_record *out, const redisReply *head, semel_error *err);
semel_bytes redis_reply_bytes(const redisReply *reply);

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
