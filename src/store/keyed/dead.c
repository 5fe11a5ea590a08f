/* Dead letters: a record of d/ by id, and one of D/ that leads from origin, name and key to the id,
 * so that a second letter of the same message takes the place of the first.
 *
 * A letter is rare. So putting one reads first: the commit expects what was found, and if another
 * process was faster, the core does the unit again. The id is a number of the layer, larger than
 * those of older letters and never used twice.
 *
 * The key of D/ is made of the three as they are or, if that is too long for a key, their
 * SHA-256. */
#include "base/digest.h"
#include "store/keyed/item.h"
#include "store/keyed/letter.h"
#include "store/keyed/set.h"

#include <string.h>

enum {
    LETTER_ORIGIN = 1,
    LETTER_NAME,
    LETTER_KEY,
    LETTER_ATTEMPTS,
    LETTER_AT,
    LETTER_FIRST,
    LETTER_ERROR,
    LETTER_CAUSE,
    LETTER_RETRY,
    LETTER_HAS_MESSAGE
};

enum { INDEX_ID = 1, INDEX_NAME }; /* the name: if the key is a digest */

enum { DIGESTED = 0x80 };

/* --- keys ------------------------------------------------------------------------------------- */

typedef struct letter_key {
    unsigned char bytes[SEMEL_KEYED_KEY_MAX];
    size_t len;
} letter_key;

static semel_status make_index_key(letter_key *out, semel_dead_origin origin, const char *name,
                                   semel_bytes key, semel_error *err)
{
    size_t name_size = strlen(name) + 1, len = 1 + name_size + key.len;
    const unsigned char head[] = {(unsigned char)origin};
    const semel_bytes parts[] = {{head, 1}, {name, name_size}, key};
    out->bytes[0] = (unsigned char)origin;
    if (len > sizeof out->bytes) {
        out->bytes[0] |= DIGESTED;
        out->len = 1 + DIGEST_SIZE;
        return digest_parts(out->bytes + 1, parts, sizeof parts / sizeof *parts, err);
    }
    memcpy(out->bytes + 1, name, name_size);
    if (key.len)
        memcpy(out->bytes + 1 + name_size, key.data, key.len);
    out->len = len;
    return SEMEL_OK;
}

static semel_status get_letter(keyed_row **out, keyed_unit *unit, int64_t id, int body,
                               semel_error *err)
{
    keyed_space space = keyed_space_plain('d');
    unsigned char key[KEYED_NUMBER_LEN];
    keyed_number_write(key, id);
    *out = NULL;
    if (id <= 0)
        return SEMEL_OK;
    return keyed_unit_get(out, unit, keyed_space_bytes(&space), (semel_bytes){key, sizeof key},
                          body, err);
}

static semel_status get_index(keyed_row **out, keyed_unit *unit, const letter_key *key,
                              semel_error *err)
{
    keyed_space space = keyed_space_plain('D');
    *out = NULL;
    return keyed_unit_get(out, unit, keyed_space_bytes(&space), (semel_bytes){key->bytes, key->len},
                          0, err);
}

static int64_t id_of(const semel_keyed_record *index)
{
    fields_reader reader = {.rest = index->value};
    int64_t id = 0;
    while (fields_next(&reader))
        if (reader.field == INDEX_ID)
            id = fields_int_of(&reader);
    return id;
}

/* --- values ----------------------------------------------------------------------------------- */

static int write_value(semel_bytes *out, mem_arena *arena, const semel_dead *dead)
{
    fields_writer writer = {.arena = arena};
    fields_int(&writer, LETTER_ORIGIN, (int64_t)dead->origin);
    fields_text(&writer, LETTER_NAME, dead->name);
    fields_bytes(&writer, LETTER_KEY, dead->key);
    fields_int(&writer, LETTER_ATTEMPTS, dead->attempts);
    fields_int(&writer, LETTER_AT, dead->at_ms);
    fields_int(&writer, LETTER_FIRST, dead->first_ms);
    fields_text(&writer, LETTER_ERROR, dead->error);
    fields_int(&writer, LETTER_CAUSE, dead->cause);
    fields_int(&writer, LETTER_RETRY, dead->retry);
    fields_int(&writer, LETTER_HAS_MESSAGE, dead->message != NULL);
    if (dead->message)
        keyed_message_write(&writer, dead->message);
    return fields_end(out, &writer);
}

typedef struct letter {
    semel_dead dead;
    semel_message message;
    semel_error why; /* the message is damaged */
} letter;

static int take_text(const char **out, const fields_reader *at, mem_arena *arena)
{
    *out = arena_copy(arena, at->bytes.data, at->bytes.len);
    return *out != NULL;
}

static int take_field(letter *out, const fields_reader *at, mem_arena *arena)
{
    semel_dead *dead = &out->dead;
    int64_t number = fields_int_of(at);
    switch (at->field) {
    case LETTER_ORIGIN:
        dead->origin = (semel_dead_origin)number;
        return 1;
    case LETTER_NAME:
        return take_text(&dead->name, at, arena);
    case LETTER_KEY:
        dead->key = (semel_bytes){arena_copy(arena, at->bytes.data, at->bytes.len), at->bytes.len};
        return dead->key.data != NULL;
    case LETTER_ATTEMPTS:
        dead->attempts = (uint32_t)number;
        return 1;
    case LETTER_AT:
        dead->at_ms = number;
        return 1;
    case LETTER_FIRST:
        dead->first_ms = number;
        return 1;
    case LETTER_ERROR:
        return take_text(&dead->error, at, arena);
    case LETTER_CAUSE:
        dead->cause = (uint32_t)number;
        return 1;
    case LETTER_RETRY:
        dead->retry = (int)number;
        return 1;
    case LETTER_HAS_MESSAGE:
        dead->message = &out->message;
        return 1;
    default:
        return keyed_message_take(&out->message, at, arena);
    }
}

/* A letter that is damaged has no message, and its error says why. */
static semel_status read_letter(letter *out, const semel_keyed_record *record, int contents,
                                mem_arena *arena, semel_error *err)
{
    fields_reader reader = {.rest = record->value};
    *out = (letter){.dead = {.size = sizeof out->dead, .name = "", .error = ""},
                    .message = {.size = sizeof out->message}};
    if (record->key.len == KEYED_NUMBER_LEN)
        out->dead.id = keyed_number_read(record->key.data);
    while (fields_next(&reader))
        if (!take_field(out, &reader, arena))
            return keyed_out_of_memory(err);
    semel_status status = SEMEL_OK;
    if (reader.damaged)
        status = semel_fail(&out->why, SEMEL_ESTORE, "its fields are cut off");
    else if (contents)
        status = keyed_message_take_body(&out->message, arena, record->body, &out->why);
    if (status == SEMEL_ENOMEM)
        return keyed_out_of_memory(err);
    if (status) {
        out->dead.message = NULL;
        out->dead.error = out->why.text;
    }
    return SEMEL_OK;
}

/* --- put -------------------------------------------------------------------------------------- */

static semel_status check_size(const keyed_store *store, semel_bytes value, semel_bytes body,
                               semel_error *err)
{
    enum { REST = 128 }; /* space, key, version */
    uint64_t max = store->driver->limits.record_max, size = REST + value.len + body.len;
    if (!max || size <= max)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ELIMIT,
                      "a dead letter of %llu bytes does not fit into a %s: store, whose records "
                      "have at most %llu",
                      (unsigned long long)size, store->driver->scheme, (unsigned long long)max);
}

static semel_status write_letter(keyed_unit *unit, const keyed_row *found, const semel_dead *dead,
                                 int keep_body, semel_error *err)
{
    keyed_space space = keyed_space_plain('d');
    unsigned char key[KEYED_NUMBER_LEN];
    keyed_number_write(key, dead->id);
    semel_keyed_record now = {.space = keyed_space_bytes(&space), .key = {key, sizeof key}};
    if (!write_value(&now.value, &unit->arena, dead) ||
        (dead->message && !keep_body &&
         !keyed_message_body(&now.body, &unit->arena, dead->message)))
        return keyed_out_of_memory(err);
    semel_status status = check_size(unit->store, now.value, now.body, err);
    return status ? status : keyed_set(unit, found ? &found->record : NULL, &now, keep_body, err);
}

static semel_status write_index(keyed_unit *unit, const keyed_row *found, const letter_key *key,
                                const semel_dead *dead, semel_error *err)
{
    keyed_space space = keyed_space_plain('D');
    fields_writer writer = {.arena = &unit->arena};
    semel_keyed_record now = {.space = keyed_space_bytes(&space), .key = {key->bytes, key->len}};
    fields_int(&writer, INDEX_ID, dead->id);
    if (key->bytes[0] & DIGESTED)
        fields_text(&writer, INDEX_NAME, dead->name);
    if (!fields_end(&now.value, &writer))
        return keyed_out_of_memory(err);
    return keyed_set(unit, found ? &found->record : NULL, &now, 0, err);
}

/* What a letter that is there already keeps. */
static semel_status merge(semel_dead *dead, keyed_unit *unit, const keyed_row *before,
                          semel_error *err)
{
    letter old;
    semel_status status = read_letter(&old, &before->record, 0, &unit->arena, err);
    if (status)
        return status;
    dead->id = old.dead.id;
    dead->retry = old.dead.retry;
    if (old.dead.first_ms && old.dead.first_ms < dead->first_ms)
        dead->first_ms = old.dead.first_ms;
    return SEMEL_OK;
}

static semel_status keyed_dead_put(void *state, const semel_dead *given, semel_error *err)
{
    keyed_unit *unit = state;
    semel_dead dead = *given;
    letter_key key;
    keyed_row *index = NULL, *before = NULL;
    semel_status status = make_index_key(&key, dead.origin, dead.name, dead.key, err);
    if (!status)
        status = keyed_now(unit->store, &dead.at_ms, NULL, err);
    if (!status)
        status = get_index(&index, unit, &key, err);
    if (!status && index)
        status = get_letter(&before, unit, id_of(&index->record), 0, err);
    if (status)
        return status;
    dead.retry = SEMEL_RETRY_NONE;
    dead.first_ms = given->first_ms ? given->first_ms : dead.at_ms;
    status = before ? merge(&dead, unit, before, err)
                    : keyed_next_number(unit->store, 'd', &dead.id, err);
    if (!status)
        status = write_letter(unit, before, &dead, 0, err);
    return status || before ? status : write_index(unit, index, &key, &dead, err);
}

/* --- drop, set_retry -------------------------------------------------------------------------- */

static semel_status keyed_dead_drop(void *state, int64_t id, semel_error *err)
{
    keyed_unit *unit = state;
    keyed_row *found = NULL, *index = NULL;
    letter old;
    letter_key key;
    semel_status status = get_letter(&found, unit, id, 0, err);
    if (status)
        return status;
    if (!found)
        return semel_fail(err, SEMEL_ENOTFOUND, "there is no dead letter %lld (any more)",
                          (long long)id);
    status = read_letter(&old, &found->record, 0, &unit->arena, err);
    if (!status)
        status = make_index_key(&key, old.dead.origin, old.dead.name, old.dead.key, err);
    if (!status)
        status = get_index(&index, unit, &key, err);
    if (!status)
        status = keyed_unset(unit, &found->record, err);
    return status || !index || id_of(&index->record) != id ? status
                                                           : keyed_unset(unit, &index->record, err);
}

semel_status keyed_dead_set_retry(void *state, int64_t id, semel_retry from, semel_retry to,
                                  const char *error, semel_error *err)
{
    keyed_unit *unit = state;
    keyed_row *found = NULL;
    letter old = {.dead = {.retry = SEMEL_RETRY_NONE}};
    semel_status status = get_letter(&found, unit, id, 0, err);
    if (!status && found)
        status = read_letter(&old, &found->record, 0, &unit->arena, err);
    if (status)
        return status;
    if (!found || (to != SEMEL_RETRY_ASKED && old.dead.retry != (int)from))
        return semel_fail(
            err, SEMEL_ENOTFOUND,
            "dead letter %lld is not there (any more), or another process has taken it",
            (long long)id);
    old.dead.retry = (int)to;
    if (to == SEMEL_RETRY_FAILED) {
        old.dead.error = error;
        old.dead.cause = 0;
        old.dead.attempts++;
    }
    return write_letter(unit, found, &old.dead, 1, err);
}

/* --- list ------------------------------------------------------------------------------------- */

typedef struct letter_list {
    const semel_dead_filter *filter;
    semel_dead_visitor *visitor;
    void *context;
} letter_list;

static int is_wanted(const semel_dead *dead, const semel_dead_filter *filter)
{
    const char *type = dead->message && dead->message->type ? dead->message->type : "";
    return dead->id > filter->after_id && (!filter->last_id || dead->id <= filter->last_id) &&
           (!filter->key.data || keyed_same(dead->key, filter->key)) &&
           (!filter->cause || !dead->cause || filter->cause == dead->cause) &&
           (!filter->retry || dead->retry == SEMEL_RETRY_ASKED) &&
           (filter->origin == SEMEL_DEAD_ANY || filter->origin == dead->origin) &&
           (!filter->name || strcmp(filter->name, dead->name) == 0) &&
           (!filter->type || strcmp(type, filter->type) == 0) &&
           (!filter->since_ms || dead->at_ms >= filter->since_ms) &&
           (!filter->until_ms || dead->at_ms < filter->until_ms);
}

static semel_status visit_letter(const semel_keyed_record *record, void *context, uint32_t *left,
                                 semel_error *err)
{
    const letter_list *list = context;
    mem_arena arena = {NULL, NULL};
    letter found;
    semel_status status = read_letter(&found, record, !list->filter->brief, &arena, err);
    if (!status && is_wanted(&found.dead, list->filter)) {
        --*left;
        status = list->visitor(&found.dead, list->context, err);
    }
    arena_free(&arena);
    return status;
}

/* The only letter with this key. */
static semel_status list_by_key(keyed_unit *unit, letter_list *list, semel_error *err)
{
    const semel_dead_filter *filter = list->filter;
    letter_key key;
    keyed_row *index = NULL, *found = NULL;
    uint32_t left = filter->limit;
    semel_status status = make_index_key(&key, filter->origin, filter->name, filter->key, err);
    if (!status)
        status = get_index(&index, unit, &key, err);
    if (!status && index)
        status = get_letter(&found, unit, id_of(&index->record), !filter->brief, err);
    return status || !found ? status : visit_letter(&found->record, list, &left, err);
}

/* A page behind last_id is not read. */
static semel_status keyed_dead_list(void *state, const semel_dead_filter *filter,
                                    semel_dead_visitor *visitor, void *context, semel_error *err)
{
    keyed_unit *unit = state;
    keyed_space space = keyed_space_plain('d');
    unsigned char after[KEYED_NUMBER_LEN], until[KEYED_NUMBER_LEN];
    letter_list list = {filter, visitor, context};
    semel_keyed_range range = {
        .space = keyed_space_bytes(&space), .limit = filter->limit, .bodies = !filter->brief};
    if (filter->key.data && filter->name && filter->origin != SEMEL_DEAD_ANY)
        return list_by_key(unit, &list, err);
    if (filter->after_id > 0) {
        keyed_number_write(after, filter->after_id);
        range.after = (semel_bytes){after, sizeof after};
    }
    if (filter->last_id > 0 && filter->last_id < INT64_MAX) {
        keyed_number_write(until, filter->last_id + 1);
        range.until = (semel_bytes){until, sizeof until};
    }
    return keyed_list(unit->store, unit, &range, visit_letter, &list, err);
}

/* --- counting --------------------------------------------------------------------------------- */

typedef struct letter_count {
    semel_bytes name; /* of those with a digest; empty: all */
    uint64_t count;
} letter_count;

static semel_status count_letter(const semel_keyed_record *record, void *context, uint32_t *left,
                                 semel_error *err)
{
    letter_count *counted = context;
    fields_reader reader = {.rest = record->value};
    int is_wanted = !counted->name.len;
    (void)left, (void)err;
    while (!is_wanted && fields_next(&reader))
        is_wanted = reader.field == INDEX_NAME && keyed_same(reader.bytes, counted->name);
    counted->count += (uint64_t)is_wanted;
    return SEMEL_OK;
}

static semel_status count_range(keyed_store *store, semel_bytes after, semel_bytes until,
                                letter_count *counted, semel_error *err)
{
    keyed_space space = keyed_space_plain('D');
    semel_keyed_range range = {
        .space = keyed_space_bytes(&space), .after = after, .until = until, .limit = UINT32_MAX};
    return keyed_list(store, NULL, &range, count_letter, counted, err);
}

/* Those of an origin and a name are the entries of D/ that begin with them, and some of those whose
 * key is a digest. */
semel_status keyed_letters_count(keyed_store *store, int origin, const char *name, uint64_t *out,
                                 semel_error *err)
{
    keyed_space all = keyed_space_plain('d');
    letter_key from, to;
    letter_count plain = {{NULL, 0}, 0}, digested = {semel_str(name), 0};
    if (!origin || !name)
        return keyed_count(store, keyed_space_bytes(&all), out, err);
    semel_status status =
        make_index_key(&from, (semel_dead_origin)origin, name, (semel_bytes){NULL, 0}, err);
    if (status)
        return status;
    to = from;
    to.bytes[to.len - 1] = 1; /* behind all that begin with the name and its NUL */
    status = count_range(store, (semel_bytes){from.bytes, from.len - 1},
                         (semel_bytes){to.bytes, to.len}, &plain, err);
    from.bytes[0] |= DIGESTED;
    to.bytes[0] = (unsigned char)(from.bytes[0] + 1);
    if (!status)
        status = count_range(store, (semel_bytes){from.bytes, 1}, (semel_bytes){to.bytes, 1},
                             &digested, err);
    if (!status)
        *out = plain.count + digested.count;
    return status;
}

const semel_store_dead keyed_dead = {
    .put = keyed_dead_put,
    .drop = keyed_dead_drop,
    .list = keyed_dead_list,
};
