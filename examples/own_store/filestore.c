/* A store of your own: inboxes in claim mode, in one file, for a program that has no database.
 *
 * The file is an array of markers, which are in memory, too. One unit is open at a time, and
 * changes one marker, which commit writes to its place: a killed process changed all or nothing.
 *
 * What is optional is left out: transaction mode, outboxes, dead letters, results, savepoints, SQL.
 * semel refuses what needs them, and leaves what fails too often to the broker. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semel/sys/store.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { MARKERS = 4096 };

typedef struct marker {
    int64_t inbox, expires_ms, lease_until_ms; /* inbox 0: the place was never used */
    uint64_t fingerprint, token, key_len;
    uint32_t attempts;
    semel_mark_state state; /* DONE, or FREE: open, and held as long as its lease is live */
    unsigned char key[SEMEL_KEY_MAX];
} marker;

typedef struct filestore {
    const semel_seam *seam;
    int64_t offset_ms; /* from the steady clock to the time of day */
    int fd;
    pthread_mutex_t one; /* held by the unit that is open */
    marker markers[MARKERS];
} filestore;

typedef struct unit {
    filestore *store;
    marker *place, contents; /* what it changes, and how */
} unit;

static void filestore_close(void *store)
{
    pthread_mutex_destroy(&((filestore *)store)->one);
    close(((filestore *)store)->fd);
}

/* A file that is new is empty, and gets room for all markers. */
static semel_status filestore_open(void *store, const void *path,
                                   const semel_store_settings *settings, semel_error *err)
{
    filestore *s = store;
    s->seam = settings->seam;
    s->offset_ms = s->seam->wall_ms(s->seam->context) - s->seam->steady_ms(s->seam->context);
    pthread_mutexattr_t checks;
    pthread_mutexattr_init(&checks);
    pthread_mutexattr_settype(&checks, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&s->one, &checks);
    s->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int locked = s->fd >= 0 && flock(s->fd, LOCK_EX | LOCK_NB) == 0;
    ssize_t got = locked ? pread(s->fd, s->markers, sizeof s->markers, 0) : -1;
    if (got == (ssize_t)sizeof s->markers ||
        (got == 0 && ftruncate(s->fd, (off_t)sizeof s->markers) == 0))
        return SEMEL_OK;
    const char *why = got < 0 ? strerror(errno) : "this is not a filestore";
    filestore_close(s);
    return semel_fail(err, SEMEL_ESTORE, "%s: %s", (const char *)path, why);
}

static int64_t now_ms(const filestore *s)
{
    return s->seam->steady_ms(s->seam->context) + s->offset_ms;
}

static semel_status filestore_now(void *store, int64_t *out_ms, semel_error *err)
{
    (void)err;
    *out_ms = now_ms(store);
    return SEMEL_OK;
}

static semel_durability filestore_durability(const void *store)
{
    (void)store;
    return SEMEL_DURABLE_PROCESS;
}

/* The number of a name is a hash of it, so that there is nothing to keep. */
static semel_status filestore_scope(void *store, semel_scope kind, const char *name, int64_t *out,
                                    semel_error *err)
{
    uint64_t hash = UINT64_C(14695981039346656037) + (uint64_t)kind;
    (void)store, (void)err;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    *out = (int64_t)(hash >> 1 | 1);
    return SEMEL_OK;
}

static semel_status filestore_begin(void *store, void *state, semel_begin durability,
                                    uint32_t wait_ms, semel_error *err)
{
    filestore *s = ((unit *)state)->store = store;
    (void)durability, (void)wait_ms; /* units are short: no handler runs inside one */
    int nested = pthread_mutex_lock(&s->one) != 0;
    return nested ? semel_fail(err, SEMEL_EMISUSE, "filestore: a unit in a unit") : SEMEL_OK;
}

static void filestore_rollback(void *state)
{
    pthread_mutex_unlock(&((unit *)state)->store->one);
}

static semel_status filestore_commit(void *state, semel_error *err)
{
    unit *u = state;
    filestore *s = u->store;
    off_t at = u->place ? (char *)u->place - (char *)s->markers : 0;
    int failed = u->place && pwrite(s->fd, &u->contents, sizeof(marker), at) != sizeof(marker);
    if (u->place && !failed)
        *u->place = u->contents;
    filestore_rollback(u);
    return failed ? semel_fail(err, SEMEL_ESTORE, "filestore: writing failed") : SEMEL_OK;
}

static int is_held(const filestore *s, const marker *at)
{
    return at->token && now_ms(s) < at->lease_until_ms;
}

/* The marker of the key; else a free place (or one that expired), emptied; else NULL. */
static marker *find(filestore *s, const semel_mark *mark)
{
    marker *room = NULL;
    for (marker *at = s->markers, *end = at + MARKERS; at < end; at++) {
        int used = at->inbox && (now_ms(s) < at->expires_ms || is_held(s, at));
        if (used && at->inbox == mark->inbox && at->key_len == mark->key.len &&
            memcmp(at->key, mark->key.data, mark->key.len) == 0)
            return at;
        room = used ? room : at;
    }
    if (room)
        *room = (marker){0};
    return room;
}

static semel_status filestore_look(void *state, semel_mark *mark, semel_error *err)
{
    const unit *u = state;
    const marker *at = find(u->store, mark);
    if (!at)
        return semel_fail(err, SEMEL_ELIMIT, "filestore: there is room for %d keys", MARKERS);
    mark->state = is_held(u->store, at) ? SEMEL_MARK_HELD : at->state;
    mark->attempts = at->attempts;
    mark->known_fingerprint = at->fingerprint;
    mark->held_until_ms = is_held(u->store, at) ? at->lease_until_ms : 0;
    return SEMEL_OK;
}

static semel_status change(unit *u, const semel_mark *mark, semel_mark_state to, uint32_t lease_ms)
{
    int64_t now = now_ms(u->store);
    u->place = find(u->store, mark);
    int kept = mark->keep_ms < (uint64_t)(INT64_MAX - now);
    u->contents = (marker){.inbox = mark->attempts ? mark->inbox : 0, /* 0 ends a claim untried */
                           .expires_ms = kept ? now + (int64_t)mark->keep_ms : INT64_MAX,
                           .lease_until_ms = now + lease_ms,
                           .fingerprint = mark->fingerprint,
                           .token = lease_ms ? mark->token : 0,
                           .key_len = mark->key.len,
                           .attempts = mark->attempts,
                           .state = to};
    memcpy(u->contents.key, mark->key.data, mark->key.len);
    return SEMEL_OK;
}

static semel_status filestore_claim(void *state, semel_mark *mark, uint32_t lease_ms,
                                    semel_error *err)
{
    unit *u = state;
    uint32_t known = mark->attempts;
    semel_status status = filestore_look(u, mark, err);
    if (status || mark->state != SEMEL_MARK_FREE)
        return status;
    mark->attempts = (mark->attempts > known ? mark->attempts : known) + 1;
    mark->state = SEMEL_MARK_TAKEN;
    u->store->seam->random(u->store->seam->context, &mark->token, sizeof mark->token);
    mark->token |= 1; /* never 0 */
    return change(u, mark, SEMEL_MARK_FREE, lease_ms);
}

/* Of a claim that is still ours; without a token, of a key that is free. */
static semel_status change_ours(unit *u, const semel_mark *mark, semel_mark_state to,
                                uint32_t lease_ms, semel_error *err)
{
    const marker *at = find(u->store, mark);
    int held = at && is_held(u->store, at), open = at && at->state == SEMEL_MARK_FREE;
    int ours = mark->token ? held && at->token == mark->token : open && !held;
    return ours ? change(u, mark, to, lease_ms)
                : semel_fail(err, SEMEL_ELOST, "filestore: the key is not ours any more");
}

static semel_status filestore_finish(void *state, const semel_mark *mark, semel_error *err)
{
    return change_ours(state, mark, SEMEL_MARK_DONE, 0, err);
}

static semel_status filestore_renew(void *state, const semel_mark *mark, uint32_t lease_ms,
                                    semel_error *err)
{
    return change_ours(state, mark, SEMEL_MARK_FREE, lease_ms, err);
}

static semel_status filestore_fail(void *state, const semel_mark *mark, const char *why,
                                   semel_error *err)
{
    (void)why;
    return change_ours(state, mark, SEMEL_MARK_FREE, 0, err);
}

static semel_status filestore_forget(void *state, const semel_mark *mark, semel_error *err)
{
    unit *u = state;
    u->place = find(u->store, mark);
    if (!u->place || !u->place->inbox || mark->state == SEMEL_MARK_DEAD) /* none is ever dead */
        return semel_fail(err, SEMEL_ENOTFOUND, "filestore: the key is not known");
    int held = is_held(u->store, u->place); /* else the contents stay empty: a free place */
    return held ? semel_fail(err, SEMEL_EBUSY, "filestore: the key is claimed") : SEMEL_OK;
}

static const semel_store_units units = {
    .begin = filestore_begin, .commit = filestore_commit, .rollback = filestore_rollback};

static const semel_store_markers markers = {.look = filestore_look,
                                            .claim = filestore_claim,
                                            .finish = filestore_finish,
                                            .renew = filestore_renew,
                                            .fail = filestore_fail,
                                            .forget = filestore_forget};

const semel_store_driver filestore_driver = {.version = SEMEL_STORE_DRIVER_VERSION,
                                             .scheme = "filestore",
                                             .store_size = sizeof(filestore),
                                             .unit_size = sizeof(unit),
                                             .changes_max = 1,
                                             .open = filestore_open,
                                             .close = filestore_close,
                                             .now = filestore_now,
                                             .durability = filestore_durability,
                                             .scope = filestore_scope,
                                             .units = &units,
                                             .markers = &markers};
