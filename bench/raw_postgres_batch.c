/* Many messages in a transaction by hand, and the outbox, on libpq. Arrays go in binary. */
#include "raw_postgres.h"

#include <stdlib.h>
#include <string.h>

enum { OID_BYTEA = 17, OID_INT8 = 20, HEAD = 20, BATCH_MAX = 1000 };

static void put32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* Room for an array of `count` values of `size` bytes all in all; its head is written. */
static unsigned char *array_begin(raw_connection *c, int slot, uint32_t oid, size_t count,
                                  size_t size)
{
    size_t room = HEAD + count * 4 + size;
    if (c->array_room[slot] < room) {
        free(c->array[slot]);
        c->array[slot] = must_alloc(room);
        c->array_room[slot] = room;
    }
    unsigned char *at = c->array[slot];
    put32(at, 1); /* dimension */
    put32(at + 4, 0);
    put32(at + 8, oid);
    put32(at + 12, (uint32_t)count);
    put32(at + 16, 1); /* numbered from 1 */
    return at + HEAD;
}

static unsigned char *array_add(unsigned char *at, const void *data, size_t len)
{
    put32(at, (uint32_t)len);
    memcpy(at + 4, data, len);
    return at + 4 + len;
}

static void bind_array(raw_connection *c, raw_pg_values *v, int slot, const unsigned char *end)
{
    raw_pg_bind_bytes(v, (semel_bytes){c->array[slot], (size_t)(end - c->array[slot])});
}

static semel_bytes id_of(const semel_message *message)
{
    return message->id;
}

static semel_bytes body_of(const semel_message *message)
{
    return message->body;
}

static void bind_column(raw_connection *c, raw_pg_values *v, int slot,
                        semel_bytes (*column)(const semel_message *),
                        const semel_message *const messages[], size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += column(messages[i]).len;
    unsigned char *at = array_begin(c, slot, OID_BYTEA, count, size);
    for (size_t i = 0; i < count; i++)
        at = array_add(at, column(messages[i]).data, column(messages[i]).len);
    bind_array(c, v, slot, at);
}

static void bind_fingerprints(raw_connection *c, raw_pg_values *v, int slot, size_t count)
{
    static const unsigned char fingerprint[8] = {0, 0, 0, 0, 0x5e, 0xed, 0x5e, 0xed};
    unsigned char *at = array_begin(c, slot, OID_INT8, count, count * 8);
    for (size_t i = 0; i < count; i++)
        at = array_add(at, fingerprint, sizeof fingerprint);
    bind_array(c, v, slot, at);
}

static int raw_pg_compare_ids(const void *left, const void *right)
{
    const semel_message *a = *(const semel_message *const *)left;
    const semel_message *b = *(const semel_message *const *)right;
    return memcmp(a->id.data, b->id.data, ID_TEXT);
}

/* In the order of the keys, or two batches could lock each other up. */
static void sort_ids(const semel_message *sorted[BATCH_MAX], const semel_message *const messages[],
                     size_t count)
{
    if (count > BATCH_MAX)
        die("a batch of %zu; BATCH_MAX is %d", count, BATCH_MAX);
    memcpy((void *)sorted, (const void *)messages, count * sizeof *messages);
    qsort((void *)sorted, count, sizeof *sorted, raw_pg_compare_ids);
}

/* [BEGIN, all markers] [a statement for each new one, COMMIT] */
void raw_postgres_batch(raw_connection *c, const semel_message *const messages[], size_t count)
{
    const semel_message *sorted[BATCH_MAX];
    raw_pg_values v = {0};
    sort_ids(sorted, messages, count);
    bind_column(c, &v, 0, id_of, sorted, count);
    bind_fingerprints(c, &v, 1, count);
    raw_pg_send(c, RAW_PG_BEGIN, NULL);
    raw_pg_send(c, RAW_PG_MARK_MANY, &v);
    PGresult *mine = raw_pg_answers(c, 0, 1);
    size_t at = 0;
    for (int row = 0; row < PQntuples(mine); row++) { /* they come in the order of the keys */
        while (at < count && memcmp(sorted[at]->id.data, PQgetvalue(mine, row, 0), ID_TEXT) != 0)
            at++;
        if (at == count)
            die("a marker that was not asked for");
        raw_pg_values body = {0};
        raw_pg_bind_bytes(&body, sorted[at]->body);
        raw_pg_send(c, RAW_PG_EFFECT, &body);
    }
    PQclear(mine);
    raw_pg_send(c, RAW_PG_COMMIT, NULL);
    (void)raw_pg_answers(c, 0, 0);
}

/* [BEGIN, a statement for each, COMMIT] */
void raw_postgres_effects(raw_connection *c, const semel_message *const messages[], size_t count)
{
    raw_pg_send(c, RAW_PG_BEGIN, NULL);
    for (size_t i = 0; i < count; i++) {
        raw_pg_values body = {0};
        raw_pg_bind_bytes(&body, messages[i]->body);
        raw_pg_send(c, RAW_PG_EFFECT, &body);
    }
    raw_pg_send(c, RAW_PG_COMMIT, NULL);
    (void)raw_pg_answers(c, 0, 0);
}

/* All in one statement, which is its own transaction. */
void raw_postgres_rows(raw_connection *c, const semel_message *const messages[], size_t count)
{
    const semel_message *sorted[BATCH_MAX];
    raw_pg_values v = {0};
    sort_ids(sorted, messages, count);
    bind_column(c, &v, 0, id_of, sorted, count);
    bind_fingerprints(c, &v, 1, count);
    bind_column(c, &v, 2, body_of, sorted, count);
    raw_pg_send(c, RAW_PG_ALL_ROWS, &v);
    (void)raw_pg_answers(c, 0, 0);
}

void raw_postgres_send(raw_connection *c, const semel_message *const messages[], size_t count)
{
    raw_pg_values v = {0};
    bind_column(c, &v, 0, id_of, messages, count);
    bind_column(c, &v, 1, body_of, messages, count);
    raw_pg_send(c, RAW_PG_BEGIN, NULL);
    raw_pg_send(c, RAW_PG_SEND, &v);
    raw_pg_send(c, RAW_PG_COMMIT, NULL);
    (void)raw_pg_answers(c, 0, 0);
}

/* The rows as messages; they point into the result. */
static void publish_rows(const PGresult *taken, size_t count, recipient *publish, void *context)
{
    enum { ID = 2, TYPE = 4, TOPIC, BODY = 10 };
    semel_message *messages = must_alloc(count * sizeof *messages);
    const semel_message **pointers = must_alloc(count * sizeof *pointers);
    for (size_t i = 0; i < count; i++) {
        int row = (int)i;
        messages[i] = (semel_message){
            .size = sizeof messages[i],
            .id = {PQgetvalue(taken, row, ID), (size_t)PQgetlength(taken, row, ID)},
            .type = PQgetvalue(taken, row, TYPE),
            .topic = PQgetvalue(taken, row, TOPIC),
            .body = {PQgetvalue(taken, row, BODY), (size_t)PQgetlength(taken, row, BODY)}};
        pointers[i] = &messages[i];
    }
    publish(context, pointers, count);
    free(messages);
    free((void *)pointers);
}

size_t raw_postgres_relay_to(raw_connection *c, size_t batch, recipient *publish, void *context)
{
    raw_pg_values v = {0};
    raw_pg_bind_int(&v, (int64_t)batch);
    raw_pg_send(c, RAW_PG_LEASE, &v);
    PGresult *taken = raw_pg_answers(c, 0, 1);
    size_t count = (size_t)PQntuples(taken);
    if (publish && count)
        publish_rows(taken, count, publish, context);
    unsigned char *at = array_begin(c, 0, OID_INT8, count, count * 8);
    for (size_t i = 0; i < count; i++)
        at = array_add(at, PQgetvalue(taken, (int)i, 0), 8);
    PQclear(taken);
    raw_pg_values seqs = {0};
    bind_array(c, &seqs, 0, at);
    if (count) {
        raw_pg_send(c, RAW_PG_REMOVE, &seqs);
        (void)raw_pg_answers(c, 0, 0);
    }
    return count;
}

size_t raw_postgres_relay(raw_connection *c, size_t batch)
{
    return raw_postgres_relay_to(c, batch, NULL, NULL);
}
