/* apply(): one script, one round trip. */
#include "store/redis/redis.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CODE_ROOM = 32, CHANNEL_ROOM = REDIS_NAMESPACE_MAX + 16 };

/* Of the server: 1 048 576 words in a command, of which a record is at most six, values of 512 MB,
 * and 1 GB in all. They are far beyond what a unit has, so the layer is not told. */
enum { CHANGES_MAX = 100000, RECORD_MAX = 500000000, APPLY_MAX = 900000000 };

/* What of a call is known before it is written. */
typedef struct plan {
    redis_store *store;
    semel_keyed_change *changes;
    size_t count;
    size_t records;       /* those that are no commands */
    size_t *index_of;     /* for each change the number of its index, from 1 on */
    semel_bytes *indexes; /* the spaces */
    size_t index_count;
    redis_command *commands;
    size_t command_count;
    int wakes; /* a relay may have something to do */
    mem_arena arena;
} plan;

static semel_status out_of_memory(semel_error *err)
{
    return semel_fail(err, SEMEL_ENOMEM, "out of memory for changes of records");
}

static int is_same(semel_bytes a, semel_bytes b)
{
    return a.len == b.len && (!a.len || memcmp(a.data, b.data, a.len) == 0);
}

static size_t find_index(plan *p, semel_bytes space)
{
    size_t i = 0;
    while (i < p->index_count && !is_same(p->indexes[i], space))
        i++;
    if (i == p->index_count)
        p->indexes[p->index_count++] = space;
    return i + 1;
}

static int is_watched(semel_bytes space)
{
    size_t len = strlen(SEMEL_KEYED_WATCHED);
    return space.len >= len && memcmp(space.data, SEMEL_KEYED_WATCHED, len) == 0;
}

static semel_status add_command(plan *p, const semel_keyed_change *change, semel_error *err)
{
    semel_status status = redis_command_read(&p->commands[p->command_count], p->store, &p->arena,
                                             change->statement, change->values, change->count, err);
    p->command_count += !status;
    return status;
}

static semel_status make_plan(plan *p, semel_error *err)
{
    semel_status status = SEMEL_OK;
    p->index_of = arena_alloc(&p->arena, p->count * sizeof *p->index_of);
    p->indexes = arena_alloc(&p->arena, p->count * sizeof *p->indexes);
    p->commands = arena_alloc(&p->arena, p->count * sizeof *p->commands);
    if (!p->index_of || !p->indexes || !p->commands)
        return out_of_memory(err);
    for (size_t i = 0; !status && i < p->count; i++) {
        const semel_keyed_change *change = &p->changes[i];
        p->changes[i].refused = 0;
        if (change->kind == SEMEL_KEYED_FOREIGN) {
            status = add_command(p, change, err);
            continue;
        }
        p->records++;
        p->index_of[i] = find_index(p, change->record.space);
        p->wakes |= change->kind == SEMEL_KEYED_WRITE && is_watched(change->record.space);
    }
    return status;
}

/* --- writing it ------------------------------------------------------------------------------- */

static size_t command_keys(const plan *p)
{
    size_t keys = 0;
    for (size_t i = 0; i < p->command_count; i++)
        keys += redis_command_keys(&p->commands[i]);
    return keys;
}

static void write_keys_of(redis_request *r, const redis_command *command)
{
    for (size_t i = command->first; i <= command->last; i += command->step)
        redis_word(r, command->words[i].data, command->words[i].len);
}

static void write_keys(redis_request *r, const plan *p)
{
    redis_word_number(r, (int64_t)(p->records + p->index_count + command_keys(p)));
    for (size_t i = 0; i < p->count; i++)
        if (p->changes[i].kind != SEMEL_KEYED_FOREIGN)
            redis_record_word(p->store, r, p->changes[i].record.space, p->changes[i].record.key);
    for (size_t i = 0; i < p->index_count; i++)
        redis_index_word(p->store, r, p->indexes[i]);
    for (size_t i = 0; i < p->command_count; i++)
        write_keys_of(r, &p->commands[i]);
}

static void write_expected(redis_request *r, const semel_keyed_change *change)
{
    char guard[REDIS_HEAD_MAX];
    semel_keyed_record expected = {.guard = change->expected_guard, .until_ms = change->live_at_ms};
    if (change->expect == SEMEL_EXPECT_VERSION)
        redis_word(r, change->expected_version, SEMEL_KEYED_VERSION_LEN);
    if (change->expect != SEMEL_EXPECT_GUARD)
        return;
    size_t len = redis_head_write(guard, &expected) - SEMEL_KEYED_VERSION_LEN;
    redis_word(r, guard + SEMEL_KEYED_VERSION_LEN, change->live_at_ms ? len : 8);
}

static void write_change(redis_request *r, const semel_keyed_change *change, size_t index)
{
    static const char kinds[] = " WRC", expects[] = " AVG";
    char code[CODE_ROOM], head[REDIS_HEAD_MAX];
    const semel_keyed_record *record = &change->record;
    char body = record->body.data ? 'b' : change->keep_body ? 'k' : 'n';
    int len = snprintf(code, sizeof code, "%c%c%c%zu", kinds[change->kind], expects[change->expect],
                       body, index);
    redis_word(r, code, (size_t)len);
    write_expected(r, change);
    if (change->kind != SEMEL_KEYED_WRITE)
        return;
    redis_word(r, head, redis_head_write(head, record));
    redis_word(r, record->value.data, record->value.len);
    if (record->body.data)
        redis_word(r, record->body.data, record->body.len);
}

static void write_command(redis_request *r, const redis_command *command)
{
    redis_word_number(r, (int64_t)redis_command_keys(command));
    redis_word_z(r, command->type);
    write_keys_of(r, command);
    redis_word_number(r, (int64_t)command->count);
    for (size_t i = 0; i < command->count; i++)
        redis_word(r, command->words[i].data, command->words[i].len);
}

static void write_request(redis_request *r, const plan *p)
{
    char channel[CHANNEL_ROOM];
    (void)snprintf(channel, sizeof channel, "%sready", p->store->prefix);
    write_keys(r, p);
    redis_word_number(r, (int64_t)p->records);
    redis_word_z(r, p->wakes ? channel : "");
    redis_word_z(r, r->durable && redis_waits(&p->store->client) ? "1" : "");
    for (size_t i = 0; i < p->count; i++)
        if (p->changes[i].kind != SEMEL_KEYED_FOREIGN)
            write_change(r, &p->changes[i], p->index_of[i]);
    redis_word_number(r, (int64_t)p->command_count);
    for (size_t i = 0; i < p->command_count; i++)
        write_command(r, &p->commands[i]);
}

/* --- reading the answer ----------------------------------------------------------------------- */

static semel_status damaged(semel_error *err)
{
    return semel_fail(err, SEMEL_ESTORE, "redis, writing: an answer that no script of semel gives");
}

static semel_keyed_change *record_change(const plan *p, long long number)
{
    long long seen = 0;
    for (size_t i = 0; i < p->count; i++)
        if (p->changes[i].kind != SEMEL_KEYED_FOREIGN && ++seen == number)
            return &p->changes[i];
    return NULL;
}

/* number, head (empty: there is none), value */
static semel_status read_refused(const plan *p, redisReply *const fields[], semel_keyed_sink *sink,
                                 void *context, semel_error *err)
{
    semel_keyed_change *change =
        fields[0]->type == REDIS_REPLY_INTEGER ? record_change(p, fields[0]->integer) : NULL;
    if (!change || fields[1]->type != REDIS_REPLY_STRING)
        return damaged(err);
    change->refused = 1;
    if (!sink || !fields[1]->len)
        return SEMEL_OK;
    semel_keyed_record there = {.space = change->record.space, .key = change->record.key};
    semel_status status = redis_head_read(&there, fields[1], err);
    there.value = redis_reply_bytes(fields[2]);
    return status ? status : sink(&there, context, err);
}

/* "F", number of the command, of keys that could not be undone, error */
static semel_status fail_command(const plan *p, redisReply *const fields[], size_t count,
                                 semel_error *err)
{
    if (count < 4 || fields[1]->type != REDIS_REPLY_INTEGER ||
        fields[2]->type != REDIS_REPLY_INTEGER || fields[3]->type != REDIS_REPLY_STRING ||
        fields[1]->integer < 1 || (size_t)fields[1]->integer > p->command_count)
        return damaged(err);
    const semel_bytes *name = &p->commands[fields[1]->integer - 1].words[0];
    char torn[160] = "";
    if (fields[2]->integer)
        (void)snprintf(torn, sizeof torn,
                       "; %lld keys that commands before it had changed are too large to be put "
                       "back: these changes stay, without a marker",
                       fields[2]->integer);
    return semel_fail(err, SEMEL_EHANDLER, "command %lld (%.*s) failed: %.*s%s", fields[1]->integer,
                      (int)name->len, (const char *)name->data,
                      (int)strcspn(fields[3]->str, "\r\n"), fields[3]->str, torn);
}

static semel_status read_outcome(const plan *p, const redisReply *reply, semel_keyed_sink *sink,
                                 void *context, semel_error *err)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2)
        return damaged(err);
    if (reply->elements == 2)
        return SEMEL_OK;
    if (reply->element[2]->type == REDIS_REPLY_STRING)
        return fail_command(p, reply->element + 2, reply->elements - 2, err);
    semel_status status = SEMEL_OK;
    for (size_t i = 2; !status && i + 2 < reply->elements; i += 3)
        status = read_refused(p, reply->element + i, sink, context, err);
    return status ? status
                  : semel_fail(err, SEMEL_ECONFLICT, "a record is not as it was expected to be");
}

static semel_status check_sizes(const plan *p, semel_error *err)
{
    uint64_t all = 0;
    if (p->count > CHANGES_MAX)
        return semel_fail(err, SEMEL_ELIMIT, "%zu changes in one commit; at most %d are possible",
                          p->count, CHANGES_MAX);
    for (size_t i = 0; i < p->count; i++) {
        const semel_keyed_record *r = &p->changes[i].record;
        uint64_t size = (uint64_t)r->space.len + r->key.len + r->value.len + r->body.len;
        all += size;
        if (size > RECORD_MAX || all > APPLY_MAX)
            return semel_fail(err, SEMEL_ELIMIT,
                              "a record of %" PRIu64 " bytes, in a commit of %" PRIu64
                              "; at most %d and %d are possible",
                              size, all, RECORD_MAX, APPLY_MAX);
    }
    return SEMEL_OK;
}

/* What is refused is waited for, too: the records that are there may be our own, of a request whose
 * answer was lost, and a copy of a message is acknowledged because of them. */
static semel_status send_plan(plan *p, semel_begin durability, semel_keyed_sink *sink,
                              void *context, semel_error *err)
{
    redis_request r = {.doing = "writing",
                       .script = &p->store->scripts[SCRIPT_APPLY],
                       .writes = 1,
                       .durable = durability == SEMEL_BEGIN_DURABLE};
    redis_answer answer;
    semel_error waiting;
    write_request(&r, p);
    semel_status status = redis_exchange(&p->store->client, &r, &answer, err);
    if (status)
        return status;
    redis_learn_time(p->store, &answer, answer.replies[0]);
    status = read_outcome(p, answer.replies[0], sink, context, err);
    if ((!status || status == SEMEL_ECONFLICT) && answer.count > 1) {
        semel_status stored = redis_check_wait(&p->store->client, answer.replies[1], &waiting);
        if (stored)
            status = semel_fail(err, stored, "%s", waiting.text);
    }
    redis_answer_free(&answer);
    return status;
}

semel_status redis_apply(void *state, semel_keyed_change changes[], size_t count,
                         semel_begin durability, semel_keyed_sink *sink, void *context,
                         semel_error *err)
{
    plan p = {.store = state, .changes = changes, .count = count};
    semel_status status = count ? check_sizes(&p, err) : SEMEL_OK;
    if (!status && count)
        status = make_plan(&p, err);
    if (!status && count)
        status = send_plan(&p, durability, sink, context, err);
    arena_free(&p.arena);
    return status;
}
