/* A store of your own, on whatever can write a few records if each is as expected: here, a list in
 * memory, which is gone when the program ends. Put your database in its place. semel makes the
 * rest: inboxes, outboxes, dead letters, retention. <semel/sys/keyed.h> says what each function
 * must do. A database that other processes use, too, also has a clock for all of them (`now`), and
 * one that keeps what it has acknowledged says so (`durability`). */
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
    row *rows;
} liststore;

/* The link to the record, or the end of the list. */
static row **find(liststore *s, semel_bytes space, semel_bytes key)
{
    row **at = &s->rows;
    while (*at && (semel_keyed_compare((*at)->record.space, space) ||
                   semel_keyed_compare((*at)->record.key, key)))
        at = &(*at)->next;
    return at;
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
        changes[i].refused = !semel_keyed_holds(&changes[i], old ? &old->record : NULL);
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
    (void)bodies; /* they cost nothing here */
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < count && !status; i++) {
        const row *r = *find(s, space, keys[i]);
        if (r)
            status = sink(&r->record, context, err);
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
    semel_keyed_range rest = *range;
    pthread_mutex_lock(&s->lock);
    for (; rest.limit && !status; rest.limit--) {
        const row *next = NULL;
        for (const row *r = s->rows; r; r = r->next)
            if (semel_keyed_covers(&rest, &r->record)) {
                next = r;
                rest.until = r->record.key; /* nearer ones only */
            }
        if (!next)
            break;
        status = sink(&next->record, context, err);
        rest.after = next->record.key;
        rest.until = range->until;
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

static semel_status open_store(void *store, const void *argument,
                               const semel_store_settings *settings, semel_error *err)
{
    (void)argument, (void)settings, (void)err;
    pthread_mutex_init(&((liststore *)store)->lock, NULL);
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
                                             .get = get,
                                             .apply = apply,
                                             .scan = scan};
