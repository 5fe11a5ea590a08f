/* Commands of the application's own, which are written in the same script as semel's records.
 *
 *     HINCRBY {semel}stock ? ?            words, and a question mark for each value
 *     SET {semel}order:? "two words" EX 60
 *
 * A question mark stands for a value's text, alone or inside a word; two are one question mark, as
 * in SQL. Words in quotes are taken as
 * they are: 'single' without escapes, "double" with \" \\ \n \r \t and \xHH, as in redis-cli.
 *
 * Only commands that write, and of which it is known which words are keys, are taken: the script
 * must declare its keys, and in a cluster they must be in the store's slot. What blocks, what
 * changes the server and what only reads has no place in a commit. */
#include "store/redis/redis.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WORDS_MAX = 1000, NUMBER_ROOM = 40 };

typedef struct known_command {
    const char *name;
    size_t words; /* at least, the name included */
    size_t first; /* of the keys; from the end if last is 0 */
    size_t last;  /* 0: to the end */
    size_t step;
    const char *type;
} known_command;

#define ONE_KEY(NAME, WORDS, TYPE) \
    {                              \
        NAME, WORDS, 1, 1, 1, TYPE \
    }
#define TWO_KEYS(NAME, WORDS, TYPE) \
    {                               \
        NAME, WORDS, 1, 2, 1, TYPE  \
    }
#define MANY_KEYS(NAME, WORDS, TYPE) \
    {                                \
        NAME, WORDS, 1, 0, 1, TYPE   \
    }

/* By name. SET and what else replaces a key takes one of any type. */
static const known_command known[] = {
    ONE_KEY("APPEND", 3, "string"),
    ONE_KEY("BITFIELD", 2, "string"),
    {"BITOP", 4, 2, 0, 1, ""},
    TWO_KEYS("COPY", 3, ""),
    ONE_KEY("DECR", 2, "string"),
    ONE_KEY("DECRBY", 3, "string"),
    MANY_KEYS("DEL", 2, ""),
    ONE_KEY("EXPIRE", 3, ""),
    ONE_KEY("EXPIREAT", 3, ""),
    ONE_KEY("GEOADD", 5, "zset"),
    ONE_KEY("GETDEL", 2, "string"),
    ONE_KEY("GETEX", 2, "string"),
    ONE_KEY("GETSET", 3, "string"),
    ONE_KEY("HDEL", 3, "hash"),
    ONE_KEY("HINCRBY", 4, "hash"),
    ONE_KEY("HINCRBYFLOAT", 4, "hash"),
    ONE_KEY("HMSET", 4, "hash"),
    ONE_KEY("HSET", 4, "hash"),
    ONE_KEY("HSETNX", 4, "hash"),
    ONE_KEY("INCR", 2, "string"),
    ONE_KEY("INCRBY", 3, "string"),
    ONE_KEY("INCRBYFLOAT", 3, "string"),
    ONE_KEY("LINSERT", 5, "list"),
    TWO_KEYS("LMOVE", 5, "list"),
    ONE_KEY("LPOP", 2, "list"),
    ONE_KEY("LPUSH", 3, "list"),
    ONE_KEY("LPUSHX", 3, "list"),
    ONE_KEY("LREM", 4, "list"),
    ONE_KEY("LSET", 4, "list"),
    ONE_KEY("LTRIM", 4, "list"),
    {"MSET", 3, 1, 0, 2, ""},
    {"MSETNX", 3, 1, 0, 2, ""},
    ONE_KEY("PERSIST", 2, ""),
    ONE_KEY("PEXPIRE", 3, ""),
    ONE_KEY("PEXPIREAT", 3, ""),
    ONE_KEY("PFADD", 2, "string"),
    MANY_KEYS("PFMERGE", 2, "string"),
    ONE_KEY("PSETEX", 4, ""),
    TWO_KEYS("RENAME", 3, ""),
    TWO_KEYS("RENAMENX", 3, ""),
    ONE_KEY("RPOP", 2, "list"),
    TWO_KEYS("RPOPLPUSH", 3, "list"),
    ONE_KEY("RPUSH", 3, "list"),
    ONE_KEY("RPUSHX", 3, "list"),
    ONE_KEY("SADD", 3, "set"),
    MANY_KEYS("SDIFFSTORE", 3, ""),
    ONE_KEY("SET", 3, ""),
    ONE_KEY("SETBIT", 4, "string"),
    ONE_KEY("SETEX", 4, ""),
    ONE_KEY("SETNX", 3, ""),
    ONE_KEY("SETRANGE", 4, "string"),
    MANY_KEYS("SINTERSTORE", 3, ""),
    TWO_KEYS("SMOVE", 4, "set"),
    ONE_KEY("SPOP", 2, "set"),
    ONE_KEY("SREM", 3, "set"),
    MANY_KEYS("SUNIONSTORE", 3, ""),
    MANY_KEYS("UNLINK", 2, ""),
    ONE_KEY("XACK", 4, "stream"),
    ONE_KEY("XADD", 5, "stream"),
    ONE_KEY("XDEL", 3, "stream"),
    ONE_KEY("XTRIM", 4, "stream"),
    ONE_KEY("ZADD", 4, "zset"),
    ONE_KEY("ZINCRBY", 4, "zset"),
    ONE_KEY("ZPOPMAX", 2, "zset"),
    ONE_KEY("ZPOPMIN", 2, "zset"),
    TWO_KEYS("ZRANGESTORE", 5, ""),
    ONE_KEY("ZREM", 3, "zset"),
    ONE_KEY("ZREMRANGEBYLEX", 4, "zset"),
    ONE_KEY("ZREMRANGEBYRANK", 4, "zset"),
    ONE_KEY("ZREMRANGEBYSCORE", 4, "zset"),
};

static const known_command *find_command(semel_bytes name)
{
    char text[24];
    if (name.len >= sizeof text)
        return NULL;
    memcpy(text, name.data, name.len);
    text[name.len] = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (text_same(known[i].name, text))
            return &known[i];
    return NULL;
}

/* --- words ------------------------------------------------------------------------------------ */

typedef struct reading {
    const char *at;
    mem_arena *arena;
    const semel_value *values;
    size_t value_count, used;
    text_buffer word;
    int has_value; /* the word has one that is not known yet */
} reading;

static semel_status add_value(reading *r, semel_error *err)
{
    char digits[NUMBER_ROOM];
    if (r->used == r->value_count)
        return semel_fail(err, SEMEL_EINVAL,
                          "the command has more question marks than values (%zu)", r->value_count);
    size_t number = r->used++;
    const semel_value *value = r->values ? &r->values[number] : NULL;
    r->has_value |= !value;
    if (!value)
        return SEMEL_OK;
    switch (value->kind) {
    case SEMEL_VALUE_NULL:
        return semel_fail(err, SEMEL_EINVAL, "value %zu is NULL, which Redis does not have",
                          number + 1);
    case SEMEL_VALUE_INT:
        (void)snprintf(digits, sizeof digits, "%" PRId64, value->integer);
        text_append_z(&r->word, digits);
        break;
    case SEMEL_VALUE_REAL:
        (void)snprintf(digits, sizeof digits, "%.17g", value->real);
        text_append_z(&r->word, digits);
        break;
    default:
        text_append(&r->word, value->bytes.data, value->bytes.len);
    }
    return SEMEL_OK;
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = c ? strchr(digits, text_lower(c)) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* Behind a backslash, in double quotes. */
static void add_escape(reading *r)
{
    static const char names[] = "nrt", meant[] = "\n\r\t";
    char c = *r->at;
    const char *name = strchr(names, c);
    if (c == 'x' && hex_digit(r->at[1]) >= 0 && hex_digit(r->at[2]) >= 0) {
        c = (char)(hex_digit(r->at[1]) * 16 + hex_digit(r->at[2]));
        r->at += 2;
    } else if (c && name) {
        c = meant[name - names];
    }
    text_append(&r->word, &c, 1);
    r->at++;
}

static semel_status add_quoted(reading *r, semel_error *err)
{
    char quote = *r->at++;
    while (*r->at && *r->at != quote) {
        if (quote == '"' && *r->at == '\\' && r->at[1]) {
            r->at++;
            add_escape(r);
        } else {
            text_append(&r->word, r->at++, 1);
        }
    }
    if (!*r->at)
        return semel_fail(err, SEMEL_EINVAL, "the command has a quote %c that does not end", quote);
    r->at++;
    return SEMEL_OK;
}

static int is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static semel_status read_word(reading *r, semel_error *err)
{
    semel_status status = SEMEL_OK;
    r->word.len = 0;
    r->has_value = 0;
    while (!status && *r->at && !is_space(*r->at)) {
        if (*r->at == '?' && r->at[1] == '?') {
            text_append(&r->word, r->at, 1);
            r->at += 2;
        } else if (*r->at == '?') {
            r->at++;
            status = add_value(r, err);
        } else if (*r->at == '"' || *r->at == '\'') {
            status = add_quoted(r, err);
        } else {
            text_append(&r->word, r->at++, 1);
        }
    }
    if (!status && r->word.failed)
        status = semel_fail(err, SEMEL_ENOMEM, "out of memory for a command");
    return status;
}

/* A word whose value is not known yet has no data. */
static semel_status keep_word(redis_command *out, reading *r, semel_error *err)
{
    if (out->count == WORDS_MAX)
        return semel_fail(err, SEMEL_ELIMIT, "the command has over %d words", WORDS_MAX);
    char *copy = r->has_value ? NULL : arena_copy(r->arena, r->word.bytes, r->word.len);
    if (!copy && !r->has_value)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a command");
    out->words[out->count++] = (semel_bytes){copy, copy ? r->word.len : 0};
    return SEMEL_OK;
}

static semel_status read_words(redis_command *out, reading *r, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (;;) {
        while (is_space(*r->at))
            r->at++;
        if (!*r->at)
            break;
        status = read_word(r, err);
        if (!status)
            status = keep_word(out, r, err);
        if (status)
            return status;
    }
    if (r->used != r->value_count)
        return semel_fail(err, SEMEL_EINVAL, "the command has %zu question marks for %zu values",
                          r->used, r->value_count);
    return SEMEL_OK;
}

/* --- keys ------------------------------------------------------------------------------------- */

/* What decides about the slot: between the first { and the } behind it, if that is not empty. */
static int is_in_slot(const redis_store *store, semel_bytes key)
{
    const char *open = memchr(key.data, '{', key.len);
    const char *end = (const char *)key.data + key.len;
    const char *close = open ? memchr(open, '}', (size_t)(end - open)) : NULL;
    size_t len = strlen(store->at.name);
    return close && (size_t)(close - open - 1) == len && memcmp(open + 1, store->at.name, len) == 0;
}

static semel_status check_key(const redis_store *store, semel_bytes key, semel_error *err)
{
    if (!key.data)
        return SEMEL_OK;
    if (key.len >= store->prefix_len && memcmp(key.data, store->prefix, store->prefix_len) == 0)
        return semel_fail(err, SEMEL_EINVAL, "keys that begin with %s are semel's own",
                          store->prefix);
    if (store->cluster && !is_in_slot(store, key))
        return semel_fail(err, SEMEL_EINVAL,
                          "in a cluster a key that is written with semel's records must have {%s} "
                          "in its name: then both are in one slot",
                          store->at.name);
    return SEMEL_OK;
}

static semel_status find_keys(redis_command *out, const redis_store *store, semel_error *err)
{
    const known_command *found = find_command(out->words[0]);
    if (!found)
        return semel_fail(
            err, SEMEL_EINVAL,
            "%.*s is not a command that can be queued: it must write, must not block, "
            "and its keys must be known; docs/REDIS.md lists them",
            out->words[0].len < 32 ? (int)out->words[0].len : 32, (const char *)out->words[0].data);
    if (out->count < found->words)
        return semel_fail(err, SEMEL_EINVAL, "%s takes at least %zu words after it, not %zu",
                          found->name, found->words - 1, out->count - 1);
    out->first = found->first;
    out->last = found->last ? found->last : out->count - 1;
    out->step = found->step;
    out->type = found->type;
    semel_status status = SEMEL_OK;
    for (size_t i = out->first; !status && i <= out->last; i += out->step)
        status = check_key(store, out->words[i], err);
    return status;
}

size_t redis_command_keys(const redis_command *command)
{
    return (command->last - command->first) / command->step + 1;
}

/* A command has no more words than its text has characters. */
static size_t words_room(const char *statement)
{
    size_t room = strlen(statement) / 2 + 1;
    return room < WORDS_MAX ? room : WORDS_MAX;
}

semel_status redis_command_read(redis_command *out, redis_store *store, mem_arena *arena,
                                const char *statement, const semel_value values[], size_t count,
                                semel_error *err)
{
    reading r = {.at = statement, .arena = arena, .values = values, .value_count = count};
    memset(out, 0, sizeof *out);
    out->words = arena_alloc(arena, words_room(statement) * sizeof *out->words);
    if (!out->words)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a command");
    semel_status status = read_words(out, &r, err);
    mem_free(r.word.bytes);
    if (!status && (!out->count || !out->words[0].data))
        status = semel_fail(err, SEMEL_EINVAL,
                            "a command begins with its name, as in HINCRBY {%s}stock ? ?",
                            store->at.name);
    return status ? status : find_keys(out, store, err);
}

semel_status redis_queue(void *state, const char *statement, const semel_value values[],
                         size_t count, semel_error *err)
{
    mem_arena arena = {0};
    redis_command command;
    semel_status status =
        redis_command_read(&command, state, &arena, statement, values, count, err);
    arena_free(&arena);
    return status;
}
