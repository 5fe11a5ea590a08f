/* Dead letters, in the order of their ids.
 *
 * A letter is its identity (id, origin, name, key) and a content that is exchanged as a whole:
 * putting one again brings a new content, dropping it takes the content away. A letter without
 * content is not there; it exists only while some unit has not decided yet. Others see what is
 * committed. */
#include "base/mem.h"
#include "store/memory/memory_internal.h"

#include <string.h>

struct memory_content {
    semel_message *message;
    uint32_t attempts;
    int64_t at_ms;
    int64_t first_ms;
    uint32_t cause; /* 0: not known */
    int retry;
    char error[];
};

struct memory_letter {
    int64_t id;
    memory_link by_id;
    memory_link by_key;
    memory_letter *older;
    memory_letter *newer;
    memory_unit *owner;        /* the open unit that has changed it; NULL: none */
    memory_content *content;   /* NULL: dropped, or not there yet */
    memory_content *committed; /* what others see */
    semel_dead_origin origin;
    size_t key_len;
    char *key; /* behind the name */
    char name[];
};

/* --- contents --------------------------------------------------------------------------------- */

static void free_content(memory_store *store, memory_content *content)
{
    if (!content)
        return;
    semel_message_free(content->message);
    mem_free(content);
    store->messages--;
}

/* With the members of the letter, but for those that the store chooses. */
static memory_content *make_content(const semel_dead *dead, semel_error *err)
{
    semel_bytes error = semel_str(dead->error);
    memory_content *content = mem_alloc(sizeof *content + error.len + 1);
    if (!content) {
        (void)memory_out_of_memory(err);
        return NULL;
    }
    if (dead->message && semel_message_copy(&content->message, dead->message, err)) {
        mem_free(content);
        return NULL;
    }
    if (error.len)
        memcpy(content->error, error.data, error.len);
    content->attempts = dead->attempts;
    content->at_ms = dead->at_ms;
    content->first_ms = dead->first_ms;
    content->cause = dead->cause;
    content->retry = dead->retry;
    return content;
}

static semel_status new_content(memory_content **out, memory_store *store, const semel_dead *dead,
                                semel_error *err)
{
    semel_status status = memory_count_message(store, err);
    if (status)
        return status;
    memory_content *content = make_content(dead, err);
    if (!content) {
        store->messages--;
        return SEMEL_ENOMEM;
    }
    content->at_ms = memory_now_ms(store);
    content->first_ms = dead->first_ms ? dead->first_ms : content->at_ms;
    content->retry = SEMEL_RETRY_NONE;
    *out = content;
    return SEMEL_OK;
}

/* --- letters ---------------------------------------------------------------------------------- */

static uint64_t hash_of(const memory_store *store, const semel_dead *dead)
{
    unsigned char origin = (unsigned char)dead->origin;
    hash_state state;
    hash_begin(&state, store->hash);
    hash_add(&state, &origin, 1);
    hash_add(&state, dead->name, strlen(dead->name) + 1);
    hash_add(&state, dead->key.data, dead->key.len);
    return hash_end(&state);
}

static int is_of(const memory_letter *letter, const semel_dead *dead)
{
    return letter->origin == dead->origin && letter->key_len == dead->key.len &&
           strcmp(letter->name, dead->name) == 0 &&
           (!dead->key.len || memcmp(letter->key, dead->key.data, dead->key.len) == 0);
}

static memory_letter *find_by_key(const memory_store *store, const semel_dead *dead)
{
    memory_link *link = memory_index_first(&store->letters_by_key, hash_of(store, dead));
    for (; link; link = memory_index_next(link)) {
        memory_letter *letter = MEMORY_PART_OF(memory_letter, by_key, link);
        if (is_of(letter, dead))
            return letter;
    }
    return NULL;
}

static memory_letter *find_by_id(const memory_store *store, int64_t id)
{
    memory_link *link = memory_index_first(&store->letters_by_id, (uint64_t)id);
    return link ? MEMORY_PART_OF(memory_letter, by_id, link) : NULL;
}

static void append_letter(memory_store *store, memory_letter *letter)
{
    letter->id = ++store->last_letter_id;
    letter->older = store->last_letter;
    *(letter->older ? &letter->older->newer : &store->first_letter) = letter;
    store->last_letter = letter;
}

static memory_letter *add_letter(memory_store *store, const semel_dead *dead)
{
    size_t name_size = strlen(dead->name) + 1;
    if (!memory_index_reserve(&store->letters_by_id, store->letters_by_id.count + 1) ||
        !memory_index_reserve(&store->letters_by_key, store->letters_by_key.count + 1))
        return NULL;
    memory_letter *letter = mem_alloc(sizeof *letter + name_size + dead->key.len);
    if (!letter)
        return NULL;
    letter->origin = dead->origin;
    memcpy(letter->name, dead->name, name_size);
    letter->key = letter->name + name_size;
    letter->key_len = dead->key.len;
    if (dead->key.len)
        memcpy(letter->key, dead->key.data, dead->key.len);
    append_letter(store, letter);
    memory_index_add(&store->letters_by_id, &letter->by_id, (uint64_t)letter->id);
    memory_index_add(&store->letters_by_key, &letter->by_key, hash_of(store, dead));
    return letter;
}

static void remove_letter(memory_store *store, memory_letter *letter)
{
    *(letter->older ? &letter->older->newer : &store->first_letter) = letter->newer;
    *(letter->newer ? &letter->newer->older : &store->last_letter) = letter->older;
    memory_index_remove(&store->letters_by_id, &letter->by_id);
    memory_index_remove(&store->letters_by_key, &letter->by_key);
    mem_free(letter);
}

void memory_letters_free(memory_store *store)
{
    while (store->first_letter) {
        free_content(store, store->first_letter->content);
        remove_letter(store, store->first_letter);
    }
    memory_index_free(&store->letters_by_id);
    memory_index_free(&store->letters_by_key);
}

/* --- the journal ------------------------------------------------------------------------------ */

static void undo_letter(memory_unit *unit, const memory_record *record)
{
    memory_letter *letter = record->letter.letter;
    free_content(unit->store, letter->content);
    letter->content = record->letter.content_before;
    letter->owner = record->letter.owner_before;
    if (!letter->owner && !letter->content)
        remove_letter(unit->store, letter);
}

/* Of all records of one letter the first lets go of it: the one that found it without owner. */
static void commit_letter(memory_unit *unit, const memory_record *record, int64_t now_ms)
{
    memory_letter *letter = record->letter.letter;
    (void)now_ms;
    free_content(unit->store, record->letter.content_before);
    if (record->letter.owner_before)
        return;
    letter->owner = NULL;
    letter->committed = letter->content;
    if (!letter->content)
        remove_letter(unit->store, letter);
}

static const memory_change letter_change = {undo_letter, commit_letter};

/* The record has been reserved. */
static void exchange_content(memory_unit *unit, memory_record *record, memory_letter *letter,
                             memory_content *content)
{
    record->change = &letter_change;
    record->letter.letter = letter;
    record->letter.owner_before = letter->owner;
    record->letter.content_before = letter->content;
    unit->count++;
    letter->owner = unit;
    letter->content = content;
}

/* --- put, drop, list -------------------------------------------------------------------------- */

static int is_anothers(const memory_unit *unit, const memory_letter *letter)
{
    return letter && letter->owner && letter->owner != unit;
}

static semel_status in_use(semel_error *err)
{
    return semel_fail(err, SEMEL_EBUSY, "the dead letter is in a unit that has not ended");
}

static semel_status put_locked(memory_unit *unit, const semel_dead *dead, semel_error *err)
{
    memory_store *store = unit->store;
    memory_wait wait = {.wait_ms = store->busy_ms};
    memory_content *content = NULL;
    memory_letter *letter;
    do
        letter = find_by_key(store, dead);
    while (is_anothers(unit, letter) && memory_wait_for_others(store, &wait));
    if (is_anothers(unit, letter))
        return in_use(err);
    memory_record *record = memory_journal_next(unit);
    if (!record)
        return memory_out_of_memory(err);
    semel_status status = new_content(&content, store, dead, err);
    if (status)
        return status;
    if (!letter && !(letter = add_letter(store, dead))) {
        free_content(store, content);
        return memory_out_of_memory(err);
    }
    if (letter->content && letter->content->first_ms < content->first_ms)
        content->first_ms = letter->content->first_ms;
    if (letter->content)
        content->retry = letter->content->retry;
    exchange_content(unit, record, letter, content);
    return SEMEL_OK;
}

semel_status memory_dead_put(void *unit, const semel_dead *dead, semel_error *err)
{
    memory_unit *self = unit;
    pthread_mutex_lock(&self->store->lock);
    semel_status status = put_locked(self, dead, err);
    pthread_mutex_unlock(&self->store->lock);
    return status;
}

/* Waits for a unit that is about to change the letter: what it commits decides. */
static memory_letter *find_settled(memory_unit *unit, int64_t id)
{
    memory_wait wait = {.wait_ms = unit->store->busy_ms};
    memory_letter *letter;
    do
        letter = find_by_id(unit->store, id);
    while (is_anothers(unit, letter) && memory_wait_for_others(unit->store, &wait));
    return letter;
}

static semel_status drop_locked(memory_unit *unit, int64_t id, semel_error *err)
{
    memory_letter *letter = find_settled(unit, id);
    if (is_anothers(unit, letter))
        return in_use(err);
    if (!letter || !letter->content)
        return semel_fail(err, SEMEL_ENOTFOUND, "there is no dead letter %lld (any more)",
                          (long long)id);
    memory_record *record = memory_journal_next(unit);
    if (!record)
        return memory_out_of_memory(err);
    exchange_content(unit, record, letter, NULL);
    return SEMEL_OK;
}

semel_status memory_dead_drop(void *unit, int64_t id, semel_error *err)
{
    memory_unit *self = unit;
    pthread_mutex_lock(&self->store->lock);
    semel_status status = drop_locked(self, id, err);
    pthread_mutex_unlock(&self->store->lock);
    return status;
}

/* The letter with this content, as a list shows it. */
static semel_dead show_letter(const memory_letter *letter, const memory_content *content)
{
    return (semel_dead){.size = sizeof(semel_dead),
                        .id = letter->id,
                        .origin = letter->origin,
                        .name = letter->name,
                        .key = {letter->key, letter->key_len},
                        .message = content->message,
                        .attempts = content->attempts,
                        .at_ms = content->at_ms,
                        .error = content->error,
                        .first_ms = content->first_ms,
                        .cause = content->cause,
                        .retry = content->retry};
}

static semel_status visit_letter(const memory_letter *letter, const memory_content *content,
                                 int brief, semel_dead_visitor *visitor, void *context,
                                 semel_error *err)
{
    semel_dead dead = show_letter(letter, content);
    semel_message message;
    if (brief && dead.message) {
        message = *dead.message;
        message.headers = NULL;
        message.header_count = 0;
        message.body = (semel_bytes){NULL, 0};
        dead.message = &message;
    }
    return visitor(&dead, context, err);
}

static int has_type(const memory_content *content, const char *type)
{
    return content->message && content->message->type && strcmp(content->message->type, type) == 0;
}

static int has_key(const memory_letter *letter, semel_bytes key)
{
    return letter->key_len == key.len && (!key.len || memcmp(letter->key, key.data, key.len) == 0);
}

static int is_wanted(const memory_letter *letter, const memory_content *content,
                     const semel_dead_filter *filter)
{
    return (!filter->last_id || letter->id <= filter->last_id) &&
           (!filter->key.data || has_key(letter, filter->key)) &&
           (!filter->cause || !content->cause || filter->cause == content->cause) &&
           (!filter->retry || content->retry == SEMEL_RETRY_ASKED) &&
           (filter->origin == SEMEL_DEAD_ANY || filter->origin == letter->origin) &&
           (!filter->name || strcmp(filter->name, letter->name) == 0) &&
           (!filter->type || has_type(content, filter->type)) &&
           content->at_ms >= filter->since_ms &&
           (!filter->until_ms || content->at_ms < filter->until_ms);
}

/* A page begins where the last one ended, so the way there is by the index, not along the list. */
static const memory_letter *first_after(const memory_store *store, int64_t id)
{
    const memory_letter *letter = find_by_id(store, id);
    if (letter)
        return letter->newer;
    letter = id < INT64_MAX ? find_by_id(store, id + 1) : NULL;
    if (letter)
        return letter;
    for (letter = store->first_letter; letter && letter->id <= id; letter = letter->newer)
        continue;
    return letter;
}

semel_status memory_dead_list(void *unit, const semel_dead_filter *filter,
                              semel_dead_visitor *visitor, void *context, semel_error *err)
{
    memory_unit *self = unit;
    semel_status status = SEMEL_OK;
    uint32_t left = filter->limit;
    pthread_mutex_lock(&self->store->lock);
    const memory_letter *letter = first_after(self->store, filter->after_id);
    for (; letter && left && !status; letter = letter->newer) {
        const memory_content *seen = letter->owner == self ? letter->content : letter->committed;
        if (!seen || !is_wanted(letter, seen, filter))
            continue;
        status = visit_letter(letter, seen, filter->brief, visitor, context, err);
        left--;
    }
    pthread_mutex_unlock(&self->store->lock);
    return status;
}

/* --- retries ---------------------------------------------------------------------------------- */

static semel_status set_retry(memory_unit *unit, int64_t id, semel_retry from, semel_retry to,
                              const char *error, semel_error *err)
{
    memory_letter *letter = find_settled(unit, id);
    if (is_anothers(unit, letter))
        return in_use(err);
    if (!letter || !letter->content ||
        (to != SEMEL_RETRY_ASKED && letter->content->retry != (int)from))
        return semel_fail(
            err, SEMEL_ENOTFOUND,
            "dead letter %lld is not there (any more), or another process has taken it",
            (long long)id);
    semel_dead changed = show_letter(letter, letter->content);
    changed.retry = (int)to;
    if (to == SEMEL_RETRY_FAILED) {
        changed.error = error;
        changed.cause = 0;
        changed.attempts++;
    }
    memory_record *record = memory_journal_next(unit);
    memory_content *content = record ? make_content(&changed, err) : NULL;
    if (!content)
        return memory_out_of_memory(err);
    unit->store->messages++; /* until the unit ends there are two */
    exchange_content(unit, record, letter, content);
    return SEMEL_OK;
}

semel_status memory_dead_set_retry(void *unit, int64_t id, semel_retry from, semel_retry to,
                                   const char *error, semel_error *err)
{
    memory_unit *self = unit;
    pthread_mutex_lock(&self->store->lock);
    semel_status status = set_retry(self, id, from, to, error, err);
    pthread_mutex_unlock(&self->store->lock);
    return status;
}

uint64_t memory_letters_count(const memory_store *store, int origin, const char *name)
{
    uint64_t count = 0;
    for (const memory_letter *at = store->first_letter; at; at = at->newer)
        count +=
            at->committed && (!origin || ((int)at->origin == origin && !strcmp(at->name, name)));
    return count;
}
