/* A store of your own, on whatever can write a few records if each is as expected: here, a list in
 * memory, which is gone when the program ends. Put your database in its place. semel makes the
 * rest: inboxes, outboxes, dead letters, retention. <semel/sys/keyed.h> says what each function
 * must do. */
#include <pthread.h>
#include <semel/sys/keyed.h>
#include <stdlib.h>

enum { CHANGES_MAX = 100 };

typedef struct row {
    struct row *next;
    semel_keyed_record record; /* its bytes are behind it */
} row;

typedef struct liststore {
    pthread_mutex_t lock;
    const semel_seam *seam;
    int64_t offset_ms; /* from the steady clock to the time of day */
    row *rows;
} liststore;

static int compare(semel_bytes a, semel_bytes b)
{
    int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* The link to the record, or the end of the list. */
static row **find(liststore *s, semel_bytes space, semel_bytes key)
{
    row **at = &s->rows;
    while (*at && (compare((*at)->record.space, space) || compare((*at)->record.key, key)))
        at = &(*at)->next;
    return at;
}

static int holds(const semel_keyed_change *change, const row *r)
{
    if (change->expect == SEMEL_EXPECT_ABSENT || !r)
        return change->expect == SEMEL_EXPECT_ABSENT && !r;
    if (change->expect == SEMEL_EXPECT_VERSION)
        return !memcmp(r->record.version, change->expected_version, SEMEL_KEYED_VERSION_LEN);
    return r->record.guard == change->expected_guard &&
           (!change->live_at_ms || r->record.until_ms > change->live_at_ms);
}

static row *new_row(const semel_keyed_change *change, const row *old)
{
    semel_keyed_record to = change->record;
    semel_bytes *parts[] = {&to.space, &to.key, &to.value, &to.body};
    to.body = change->keep_body && old ? old->record.body : to.body;
    row *r = malloc(sizeof *r + to.space.len + to.key.len + to.value.len + to.body.len);
    char *at = (char *)(r + 1);
    for (size_t i = 0; r && i < 4; at += parts[i++]->len)
        if (parts[i]->data) /* there may be no body */
            parts[i]->data = memcpy(at, parts[i]->data, parts[i]->len);
    if (r)
        *r = (row){NULL, to};
    return r;
}

/* All or nothing: what can fail is done before the first record changes. The layer reads what was
 * refused by itself, so the sink is not told. */
static semel_status apply(void *store, semel_keyed_change changes[], size_t count,
                          semel_begin durability, semel_keyed_sink *sink, void *context,
                          semel_error *err)
{
    liststore *s = store;
    semel_status status = SEMEL_OK;
    row *made[CHANGES_MAX] = {NULL};
    (void)durability, (void)sink, (void)context;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < count; i++) {
        const row *old = *find(s, changes[i].record.space, changes[i].record.key);
        changes[i].refused = !holds(&changes[i], old);
        if (changes[i].refused)
            status = semel_fail(err, SEMEL_ECONFLICT, "a record is not as expected");
        else if (changes[i].kind == SEMEL_KEYED_WRITE && !(made[i] = new_row(&changes[i], old)))
            status = status ? status : semel_fail(err, SEMEL_ENOMEM, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        row **at = find(s, changes[i].record.space, changes[i].record.key), *old = *at;
        int stays = status || changes[i].kind == SEMEL_KEYED_CHECK;
        if (!stays && made[i])
            made[i]->next = old ? old->next : NULL;
        if (!stays)
            *at = made[i] ? made[i] : old->next;
        free(stays ? made[i] : old);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

static semel_status get(void *store, semel_bytes space, const semel_bytes keys[], size_t count,
                        int bodies, semel_keyed_sink *sink, void *context, semel_error *err)
{
    liststore *s = store;
    semel_status status = SEMEL_OK;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < count && !status; i++) {
        const row *r = *find(s, space, keys[i]);
        semel_keyed_record shown = r ? r->record : (semel_keyed_record){.guard = 0};
        shown.body = bodies ? shown.body : (semel_bytes){NULL, 0};
        status = r ? sink(&shown, context, err) : SEMEL_OK;
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* Each time the record that is next in the direction of reading. */
static semel_status scan(void *store, const semel_keyed_range *range, semel_keyed_sink *sink,
                         void *context, semel_error *err)
{
    liststore *s = store;
    semel_status status = SEMEL_OK;
    semel_bytes after = range->after;
    int way = range->descending ? -1 : 1;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < range->limit && !status; i++) {
        semel_keyed_record next = {.key = {NULL, 0}};
        for (const row *r = s->rows; r; r = r->next)
            if (!compare(r->record.space, range->space) &&
                (!after.len || way * compare(r->record.key, after) > 0) &&
                (!range->until.len || way * compare(r->record.key, range->until) < 0) &&
                (!next.key.len || way * compare(r->record.key, next.key) < 0))
                next = r->record;
        if (!next.key.len)
            break;
        after = next.key;
        next.body = range->bodies ? next.body : (semel_bytes){NULL, 0};
        status = sink(&next, context, err);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

static semel_status now(void *store, int64_t *out_ms, uint32_t *error_ms, semel_error *err)
{
    const liststore *s = store;
    (void)err;
    *out_ms = s->seam->steady_ms(s->seam->context) + s->offset_ms;
    *error_ms = 0;
    return SEMEL_OK;
}

static semel_durability durability(const void *store)
{
    (void)store;
    return SEMEL_DURABLE_NOT;
}

static semel_status open_store(void *store, const void *argument,
                               const semel_store_settings *settings, semel_error *err)
{
    liststore *s = store;
    (void)argument, (void)err;
    s->seam = settings->seam;
    s->offset_ms = s->seam->wall_ms(s->seam->context) - s->seam->steady_ms(s->seam->context);
    pthread_mutex_init(&s->lock, NULL);
    return SEMEL_OK;
}

static void close_store(void *store)
{
    liststore *s = store;
    for (row *r; (r = s->rows); free(r))
        s->rows = r->next;
    pthread_mutex_destroy(&s->lock);
}

const semel_keyed_driver liststore_driver = {.version = SEMEL_KEYED_DRIVER_VERSION,
                                             .abilities = SEMEL_KEYED_MANY,
                                             .scheme = "list",
                                             .store_size = sizeof(liststore),
                                             .limits = {.changes_max = CHANGES_MAX},
                                             .open = open_store,
                                             .close = close_store,
                                             .now = now,
                                             .durability = durability,
                                             .get = get,
                                             .apply = apply,
                                             .scan = scan};
