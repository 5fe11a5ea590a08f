/* The row of a partition: a note of the store, under a number of its own.
 *
 * The number of the note is the position that comes next. Its text has what else is known:
 *
 *     1 LATEST PRINT BEGUN ATTEMPTS THROUGH ORIGIN
 *
 * A unit reads it with a lock and writes it before it commits. So of two owners of a partition one
 * waits for the other, or has a conflict, and then finds the row moved: that is the condition which
 * a consumer that the broker has written off cannot meet. If the process dies before the commit,
 * the row is where it was, and so is the work.
 *
 * The row does not fit the messages if it was written for another cluster, or for a topic that was
 * deleted and made anew with the same name: its positions mean other messages then, and new ones
 * would be taken for copies. It is noticed by the origin, if the broker tells one; by a message
 * that ought to have been handled and is younger than the last move of the row; and by another
 * content at the last position. A message that comes again cannot be younger than the row, because
 * the row remembers the latest time of all messages that it has moved past. */
#include "core/positions.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION "1"

/* --- partitions ------------------------------------------------------------------------------- */

enum { BUCKETS = 256 };

static const hash_key first_key = {1, 7}, second_key = {2, 7};

struct position_table {
    pthread_mutex_t lock;
    position_partition *buckets[BUCKETS];
};

semel_status positions_open(semel_inbox *inbox, semel_error *err)
{
    position_table *table = mem_alloc(sizeof *table);
    if (!table)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory opening an inbox");
    pthread_mutex_init(&table->lock, NULL);
    inbox->positions = table;
    return SEMEL_OK;
}

void positions_close(semel_inbox *inbox)
{
    position_table *table = inbox->positions;
    if (!table)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        for (position_partition *one; (one = table->buckets[i]);) {
            table->buckets[i] = one->same_bucket;
            mem_free(one);
        }
    pthread_mutex_destroy(&table->lock);
    mem_free(table);
}

void positions_write_hash(char out[POSITIONS_HASH], const char *a, const char *b)
{
    uint64_t sums[2];
    for (int i = 0; i < 2; i++) {
        hash_state state;
        hash_begin(&state, i ? second_key : first_key);
        hash_add(&state, a, strlen(a) + 1);
        hash_add(&state, b, strlen(b));
        sums[i] = hash_end(&state);
    }
    (void)snprintf(out, POSITIONS_HASH, "#%016" PRIx64 "%016" PRIx64, sums[0], sums[1]);
}

/* No inbox has a slash in its name, and none begins with #. */
static void write_scope_name(char out[SEMEL_NAME_MAX + 1], const semel_inbox *inbox,
                             const char *partition)
{
    size_t len = strlen(partition), before = strlen(inbox->name);
    if (before + 1 + len > SEMEL_NAME_MAX || !utf8_valid(partition, len)) {
        positions_write_hash(out, inbox->name, partition);
        return;
    }
    memcpy(out, inbox->name, before);
    out[before] = '/';
    memcpy(out + before + 1, partition, len + 1);
}

static position_partition **bucket_of(position_table *table, const char *partition)
{
    return &table->buckets[hash_bytes(first_key, partition, strlen(partition)) % BUCKETS];
}

static position_partition *known_partition(position_table *table, const char *partition)
{
    pthread_mutex_lock(&table->lock);
    position_partition *at = *bucket_of(table, partition);
    while (at && strcmp(at->name, partition) != 0)
        at = at->same_bucket;
    pthread_mutex_unlock(&table->lock);
    return at;
}

/* Two threads may have asked the store for the same number: the first one's entry stays. */
static position_partition *add_partition(position_table *table, position_partition *added)
{
    pthread_mutex_lock(&table->lock);
    position_partition **bucket = bucket_of(table, added->name), *at = *bucket;
    while (at && strcmp(at->name, added->name) != 0)
        at = at->same_bucket;
    if (!at) {
        added->same_bucket = *bucket;
        *bucket = added;
    }
    pthread_mutex_unlock(&table->lock);
    if (at)
        mem_free(added);
    return at ? at : added;
}

semel_status positions_find(position_partition **out, semel_inbox *inbox, const char *partition,
                            semel_error *err)
{
    char name[SEMEL_NAME_MAX + 1];
    semel_store *store = inbox->store;
    int64_t scope;
    if ((*out = known_partition(inbox->positions, partition)))
        return SEMEL_OK;
    write_scope_name(name, inbox, partition);
    semel_status status =
        store->driver->scope(store->state, SEMEL_SCOPE_PARTITION, name, &scope, err);
    if (status)
        return status;
    size_t size = strlen(partition) + 1;
    position_partition *added = mem_alloc(sizeof *added + size);
    if (!added)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a partition");
    memcpy(added->name, partition, size);
    added->scope = scope;
    atomic_store(&added->careful, POSITION_NONE);
    *out = add_partition(inbox->positions, added);
    return SEMEL_OK;
}

/* --- the row as text -------------------------------------------------------------------------- */

/* The next number of the text; *ok is 0 if there is none. */
static int64_t next_number(const char **at, int base, int *ok)
{
    char *end;
    int64_t number = base == 16 ? (int64_t)strtoull(*at, &end, base) : strtoll(*at, &end, base);
    *ok = *ok && end != *at && *end == ' ';
    *at = *end ? end + 1 : end;
    return number;
}

static semel_status decode(position_row *row, const semel_note_value *note, semel_error *err)
{
    const char *at = note->text + sizeof VERSION;
    int ok = strncmp(note->text, VERSION " ", sizeof VERSION) == 0;
    if (!ok)
        return semel_fail(err, SEMEL_ESCHEMA,
                          "the row of a partition was written by a newer semel: \"%.40s\"",
                          note->text);
    row->latest_ms = next_number(&at, 10, &ok);
    row->print = (uint64_t)next_number(&at, 16, &ok);
    row->begun = next_number(&at, 10, &ok);
    row->attempts = (uint32_t)next_number(&at, 10, &ok);
    row->through = next_number(&at, 10, &ok);
    size_t len = strnlen(at, sizeof row->origin);
    if (!ok || len > ORIGIN_MAX)
        return semel_fail(err, SEMEL_ESTORE, "the row of a partition is damaged: \"%.80s\"",
                          note->text);
    memcpy(row->origin, at, len + 1);
    return SEMEL_OK;
}

semel_status position_read(position_row *out, work_unit *unit, const position_partition *of,
                           semel_note_lock lock, semel_error *err)
{
    semel_note_value note;
    semel_status status = unit->store->driver->notes->read(unit->state, of->scope,
                                                           SEMEL_NOTE_POSITION, lock, &note, err);
    if (status)
        return status;
    *out = (position_row){.is_new = !note.text[0],
                          .next = note.number,
                          .begun = POSITION_NONE,
                          .through = POSITION_NONE,
                          .now_ms = note.now_ms};
    return out->is_new ? SEMEL_OK : decode(out, &note, err);
}

semel_status position_write(work_unit *unit, const position_partition *of, const position_row *row,
                            semel_error *err)
{
    semel_note_value note;
    note.number = row->next;
    note.now_ms = 0;
    (void)snprintf(note.text, sizeof note.text,
                   VERSION " %" PRId64 " %016" PRIx64 " %" PRId64 " %" PRIu32 " %" PRId64 " %s",
                   row->latest_ms, row->print, row->begun, row->attempts, row->through,
                   row->origin);
    return unit->store->driver->notes->write(unit->state, of->scope, SEMEL_NOTE_POSITION, &note,
                                             err);
}

/* --- does it fit the messages? ---------------------------------------------------------------- */

#define WHAT_TO_DO \
    "if that is meant, forget the partition (semel_inbox_forget_partition) or set accept_changes"

static semel_status check_origin(const position_run *r, const position_row *row, semel_error *err)
{
    if (!row->origin[0] || !r->origin[0] || strcmp(row->origin, r->origin) == 0)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EREJECTED,
                      "inbox \"%.80s\", partition \"%.80s\": its position %" PRId64 " is one of "
                      "\"%.60s\", and these messages are of \"%.60s\": another cluster, or the "
                      "topic was recreated; " WHAT_TO_DO,
                      r->inbox->name, r->partition->name, row->next, row->origin, r->origin);
}

static semel_status refuse_recreated(const position_run *r, const position_row *row, size_t index,
                                     const char *why, semel_error *err)
{
    return semel_fail(err, SEMEL_EREJECTED,
                      "inbox \"%.80s\", partition \"%.80s\": all before position %" PRId64
                      " were handled, but the message at %" PRId64 " %s: the topic was "
                      "recreated, or belongs to another cluster; " WHAT_TO_DO,
                      r->inbox->name, r->partition->name, row->next, r->positions[index], why);
}

/* The times that producers write may be anything. */
static int64_t latest_of_copies(const position_run *r, const position_row *row)
{
    int64_t margin_ms = (int64_t)r->inbox->options.clock_margin_ms;
    return row->latest_ms < INT64_MAX - margin_ms ? row->latest_ms + margin_ms : INT64_MAX;
}

/* Of those that would be suppressed. */
static semel_status check_copies(const position_run *r, const position_row *row, semel_error *err)
{
    int64_t latest_ms = latest_of_copies(r, row);
    for (size_t i = r->at; i < r->count && r->positions[i] < row->next; i++) {
        const semel_message *message = r->messages[i];
        if (message->time_ms > latest_ms)
            return refuse_recreated(r, row, i, "is younger than that", err);
        if (r->positions[i] == row->next - 1 && row->print &&
            row->print != key_fingerprint(message))
            return refuse_recreated(r, row, i, "is not the one that was handled", err);
    }
    return SEMEL_OK;
}

static semel_status check_row(const position_run *r, position_row *row, semel_error *err)
{
    semel_status status = check_origin(r, row, err);
    if (!status)
        status = check_copies(r, row, err);
    if (status != SEMEL_EREJECTED || !r->inbox->options.accept_changes)
        return status;
    *row = (position_row){
        .is_new = 1, .begun = POSITION_NONE, .through = POSITION_NONE, .now_ms = row->now_ms};
    atomic_store(&r->partition->careful, POSITION_NONE);
    return SEMEL_OK;
}

semel_status run_lock_row(const position_run *r, position_row *row, semel_error *err)
{
    semel_status status = position_read(row, r->unit, r->partition, SEMEL_NOTE_EXCLUSIVE, err);
    if (!status && !row->is_new)
        status = check_row(r, row, err);
    if (status)
        return status;
    if (row->is_new) {
        row->next = r->positions[r->at];
        row->latest_ms = row->now_ms;
    }
    if (r->origin[0])
        memcpy(row->origin, r->origin, strlen(r->origin) + 1);
    return SEMEL_OK;
}

semel_status run_read_row(position_run *r, position_row *row, semel_error *err)
{
    semel_status status = run_lock_row(r, row, err);
    if (status)
        return status;
    size_t end = r->at;
    while (end < r->end && r->positions[end] < row->next)
        end++;
    run_decide(r, end, SEMEL_DUPLICATE);
    return SEMEL_OK;
}

/* --- moving it -------------------------------------------------------------------------------- */

void run_move_row(position_row *row, const position_run *r, size_t end)
{
    if (row->latest_ms < row->now_ms)
        row->latest_ms = row->now_ms;
    for (size_t i = r->at; i < end; i++)
        if (row->latest_ms < r->messages[i]->time_ms)
            row->latest_ms = r->messages[i]->time_ms;
    row->next = r->positions[end - 1] + 1;
    row->print = key_fingerprint(r->messages[end - 1]);
    if (row->begun < row->next) {
        row->begun = POSITION_NONE;
        row->attempts = 0;
    }
    if (row->through < row->next)
        row->through = POSITION_NONE;
}

/* --- for tools -------------------------------------------------------------------------------- */

typedef struct question {
    semel_inbox *inbox;
    position_partition *of;
    position_row row;
} question;

static semel_status find_row(question *q, semel_inbox *inbox, const char *partition,
                             semel_error *err)
{
    q->inbox = inbox;
    if (!inbox->positions)
        return semel_fail(err, SEMEL_EINVAL, "inbox \"%s\" remembers keys, not positions",
                          inbox->name);
    return positions_find(&q->of, inbox, partition, err);
}

static semel_status read_row(work_unit *unit, void *context, semel_error *err)
{
    question *q = context;
    return position_read(&q->row, unit, q->of, SEMEL_NOTE_UNLOCKED, err);
}

semel_status semel_inbox_position(int64_t *next, semel_inbox *inbox, const char *partition,
                                  semel_error *err)
{
    question q;
    semel_status status = find_row(&q, inbox, partition, err);
    if (!status)
        status = store_transact(inbox->store, SEMEL_BEGIN_RELAXED, read_row, &q, err);
    if (!status && q.row.is_new)
        status = semel_fail(err, SEMEL_ENOTFOUND, "inbox \"%s\" knows no position of \"%s\"",
                            inbox->name, partition);
    if (!status)
        *next = q.row.next;
    return status;
}

static semel_status forget_row(work_unit *unit, void *context, semel_error *err)
{
    question *q = context;
    const semel_note_value none = {0};
    semel_status status = position_read(&q->row, unit, q->of, SEMEL_NOTE_EXCLUSIVE, err);
    return status ? status
                  : unit->store->driver->notes->write(unit->state, q->of->scope,
                                                      SEMEL_NOTE_POSITION, &none, err);
}

semel_status semel_inbox_forget_partition(semel_inbox *inbox, const char *partition,
                                          semel_error *err)
{
    question q;
    uint32_t tries = 0;
    semel_status status = find_row(&q, inbox, partition, err);
    if (status)
        return status;
    do
        status = store_transact(inbox->store, SEMEL_BEGIN_DURABLE, forget_row, &q, err);
    while (store_retry_after_pause(inbox->store, status, NULL, &tries));
    atomic_store(&q.of->warm, 0);
    atomic_store(&q.of->careful, POSITION_NONE);
    return status;
}
