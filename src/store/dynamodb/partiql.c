/* semel's own changes as PartiQL statements, for units in which the application has some:
 * DynamoDB mixes statements with nothing else.
 *
 * PartiQL can do less than the operations, and this goes round it:
 *  - INSERT expects that the item is absent; UPDATE, that it is there and as its WHERE says.
 *  - DELETE is content if the item is not there at all, whatever its WHERE says. So a REMOVE is an
 *    UPDATE: the item stays without version and guard, and with the attribute `z`, which
 *    means "there is no record". It goes right after the transaction, by a delete of its own; if
 *    the process dies in between, by the table's TTL, or by who writes the key next.
 *  - A check is an UPDATE of an attribute that nobody reads; one that expects absence, an INSERT of
 *    an item that goes again.
 * An UPDATE sets what is absent to NULL. */
#include "base/seam.h"
#include "store/dynamodb/dynamodb.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NOTHING "{\"NULL\":true}"

/* A statement and its parameters, written side by side. */
typedef struct statement {
    text_buffer text, values;
    const dynamo_writing *w;
    const semel_keyed_change *change;
    const dynamo_place *at;
} statement;

static void add_bytes(statement *s, const char *text, semel_bytes bytes)
{
    text_append_z(&s->text, text);
    text_append_z(&s->values, s->values.len ? "," : "");
    dynamo_write_bytes(&s->values, bytes);
}

static void add_json(statement *s, const char *text, const char *json)
{
    text_append_z(&s->text, text);
    text_append_z(&s->values, s->values.len ? "," : "");
    text_append_z(&s->values, json);
}

static void add_number(statement *s, const char *text, int64_t number)
{
    add_json(s, text, "");
    dynamo_write_number(&s->values, number);
}

static void add_guard(statement *s, const char *text, uint64_t guard)
{
    add_json(s, text, "");
    dynamo_write_guard(&s->values, guard);
}

static void add_key(statement *s, const char *partition, const char *sort)
{
    add_bytes(s, partition, (semel_bytes){s->at->partition, s->at->partition_len});
    add_bytes(s, sort, (semel_bytes){s->at->sort, s->at->sort_len});
}

static void add_table(statement *s, const char *before, const char *behind)
{
    text_append_z(&s->text, before);
    text_append_z(&s->text, s->w->store->at.table);
    text_append_z(&s->text, behind);
}

/* Both forms need no more of a table's name than its letters, which address.c has checked. */
static void insert(statement *s)
{
    const semel_keyed_record *r = &s->change->record;
    add_table(s, "INSERT INTO \"", "\" VALUE {");
    add_key(s, "'p':?", ",'k':?");
    add_bytes(s, ",'v':?", (semel_bytes){r->version, SEMEL_KEYED_VERSION_LEN});
    add_bytes(s, ",'d':?", r->value);
    if (r->guard)
        add_guard(s, ",'g':?", r->guard);
    if (r->until_ms)
        add_number(s, ",'u':?", r->until_ms);
    if (r->body.data)
        add_bytes(s, ",'b':?", r->body);
    if (s->change->expires_ms)
        add_number(s, ",'x':?", dynamo_expires_s(s->change->expires_ms));
    text_append_z(&s->text, "}");
}

static void set_fields(statement *s)
{
    const semel_keyed_record *r = &s->change->record;
    int64_t expires_ms = s->change->expires_ms;
    add_bytes(s, "v=?", (semel_bytes){r->version, SEMEL_KEYED_VERSION_LEN});
    add_bytes(s, ",d=?", r->value);
    if (r->guard)
        add_guard(s, ",g=?", r->guard);
    else
        add_json(s, ",g=?", NOTHING);
    if (r->until_ms)
        add_number(s, ",u=?", r->until_ms);
    else
        add_json(s, ",u=?", NOTHING);
    if (expires_ms)
        add_number(s, ",x=?", dynamo_expires_s(expires_ms));
    else
        add_json(s, ",x=?", NOTHING);
    if (r->body.data)
        add_bytes(s, ",b=?", r->body);
    else if (!s->change->keep_body)
        add_json(s, ",b=?", NOTHING);
}

/* It expires at once, by the host's clock: nothing depends on when. */
static int64_t now_s(const statement *s)
{
    return seam_wall_ms(s->w->store->settings.seam) / 1000;
}

static void set_gone(statement *s)
{
    add_json(s, "z=?", "{\"BOOL\":true}");
    add_json(s, ",v=?", NOTHING);
    add_json(s, ",g=?", NOTHING);
    add_json(s, ",u=?", NOTHING);
    add_json(s, ",d=?", NOTHING);
    add_json(s, ",b=?", NOTHING);
    add_number(s, ",x=?", now_s(s));
}

static void touch(statement *s)
{
    add_bytes(s, "c=?", (semel_bytes){s->change->expected_version, SEMEL_KEYED_VERSION_LEN});
}

static void update(statement *s)
{
    const semel_keyed_change *change = s->change;
    add_table(s, "UPDATE \"", "\" SET ");
    if (change->kind == SEMEL_KEYED_WRITE)
        set_fields(s);
    else if (change->kind == SEMEL_KEYED_REMOVE)
        set_gone(s);
    else
        touch(s);
    add_key(s, " WHERE p=?", " AND k=?");
    if (change->expect == SEMEL_EXPECT_VERSION) {
        add_bytes(s, " AND v=?", (semel_bytes){change->expected_version, SEMEL_KEYED_VERSION_LEN});
        return;
    }
    add_guard(s, " AND g=?", change->expected_guard);
    if (change->live_at_ms)
        add_number(s, " AND u>?", change->live_at_ms);
}

/* Absence is checked by an item that is none, and goes again. */
static void insert_gone(statement *s)
{
    add_table(s, "INSERT INTO \"", "\" VALUE {");
    add_key(s, "'p':?", ",'k':?");
    add_json(s, ",'z':?", "{\"BOOL\":true}");
    add_number(s, ",'x':?", now_s(s));
    text_append_z(&s->text, "}");
}

void dynamo_write_statement(text_buffer *to, const dynamo_writing *w, size_t index)
{
    statement s = {.w = w, .change = &w->changes[index], .at = &w->places[index]};
    if (s.change->expect != SEMEL_EXPECT_ABSENT)
        update(&s);
    else if (s.change->kind == SEMEL_KEYED_WRITE)
        insert(&s);
    else
        insert_gone(&s);
    text_append_z(to, "{\"Statement\":");
    text_append_json(to, s.text.bytes, s.text.len);
    text_append_z(to, ",\"Parameters\":[");
    text_append(to, s.values.bytes, s.values.len);
    text_append_z(to, "],\"ReturnValuesOnConditionCheckFailure\":\"ALL_OLD\"}");
    to->failed |= s.text.failed | s.values.failed;
    mem_free(s.text.bytes);
    mem_free(s.values.bytes);
}

/* --- what statements left behind -------------------------------------------------------------- */

semel_status dynamo_drop_item(dynamo_store *store, const dynamo_place *at, semel_error *err)
{
    text_buffer request = {0};
    aws_answer answer = {.lost = 0};
    text_append_z(&request, "{");
    dynamo_write_table(&request, store);
    text_append_z(&request, ",\"Key\":{");
    dynamo_write_key(&request, at);
    text_append_z(&request, "},\"ConditionExpression\":\"attribute_exists(z)\"}");
    semel_status status = dynamo_call(store, "DeleteItem", &request, &answer, err);
    if (!status && answer.type[0] && strcmp(answer.type, "ConditionalCheckFailedException") != 0)
        status = dynamo_fail(store, &answer, "removing", err);
    aws_answer_clear(&answer);
    mem_free(request.bytes);
    return status == SEMEL_EUNKNOWN ? SEMEL_EUNAVAILABLE : status;
}

/* The unit is committed: what fails here is left to the TTL. */
void dynamo_drop_gone(dynamo_writing *w)
{
    for (size_t i = 0; i < w->count; i++) {
        const semel_keyed_change *change = &w->changes[i];
        if (change->kind == SEMEL_KEYED_REMOVE ||
            (change->kind == SEMEL_KEYED_CHECK && change->expect == SEMEL_EXPECT_ABSENT))
            (void)dynamo_drop_item(w->store, &w->places[i], NULL);
    }
}
