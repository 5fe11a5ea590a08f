/* Inboxes: their options, their names, their bookkeeping. */
#include "core/inbox.h"

#include "core/unit.h"

#include <string.h>

enum { WAIT_DEFAULT_MS = 5000, LEASE_DEFAULT_MS = 30000, ATTEMPTS_DEFAULT = 5 };

static semel_status inbox_check_choice(int value, int last, const char *what, semel_error *err)
{
    if (value >= 0 && value <= last)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EINVAL, "semel_inbox_options.%s: there is no choice %d", what,
                      value);
}

static semel_status inbox_check_choices(const semel_inbox_options *options, semel_error *err)
{
    semel_status status = inbox_check_choice((int)options->mode, SEMEL_QUEUED, "mode", err);
    if (!status)
        status = inbox_check_choice((int)options->on_duplicate, SEMEL_DUPLICATE_REJECT,
                                    "on_duplicate", err);
    if (!status)
        status = inbox_check_choice((int)options->on_in_flight, SEMEL_IN_FLIGHT_REPORT,
                                    "on_in_flight", err);
    if (!status)
        status = inbox_check_choice((int)options->on_missing_key, SEMEL_MISSING_KEY_DIGEST,
                                    "on_missing_key", err);
    if (!status)
        status = inbox_check_choice((int)options->on_mismatch, SEMEL_MISMATCH_IGNORE, "on_mismatch",
                                    err);
    if (!status)
        status = inbox_check_choice((int)options->on_stale, SEMEL_STALE_PROCESS, "on_stale", err);
    return status ? status : inbox_check_choice((int)options->age, SEMEL_AGE_IGNORE, "age", err);
}

/* Without dead letters there is no end to the attempts: giving up would lose the message. */
static void fill_defaults(semel_inbox_options *options, const semel_store *store)
{
    if (!store->driver->dead)
        options->attempts_max = UINT32_MAX;
    if (!options->wait_ms)
        options->wait_ms = WAIT_DEFAULT_MS;
    if (!options->lease_ms)
        options->lease_ms = LEASE_DEFAULT_MS;
    if (!options->attempts_max)
        options->attempts_max = ATTEMPTS_DEFAULT;
    if (!options->retention_ms)
        options->retention_ms = SEMEL_RETENTION_DEFAULT_MS;
}

static semel_status plan_key(semel_inbox *inbox, semel_error *err)
{
    const semel_inbox_options *options = &inbox->options;
    if (!options->key_function)
        return key_parse(&inbox->plan, options->key ? options->key : "id", err);
    if (options->key)
        return semel_fail(err, SEMEL_EINVAL,
                          "semel_inbox_options: give either key or key_function, not both");
    inbox->plan.count = 1;
    inbox->plan.parts[0].kind = KEY_FUNCTION;
    inbox->plan.function = options->key_function;
    inbox->plan.context = options->key_context;
    return SEMEL_OK;
}

/* Digests are needed for missing keys if the policy says so: better to say now that there are none. */
static semel_status plan_digest(const semel_inbox *inbox, semel_error *err)
{
    key_plan unused;
    return inbox->options.on_missing_key == SEMEL_MISSING_KEY_DIGEST
               ? key_parse(&unused, "digest", err)
               : SEMEL_OK;
}

static semel_status plan_faults(semel_inbox *inbox, semel_error *err)
{
    const semel_inbox_options *options = &inbox->options;
    if (options->faults && options->faults->store != inbox->store)
        return semel_fail(err, SEMEL_EINVAL,
                          "inbox \"%s\": faults must be an outbox of the same store", inbox->name);
    if (!options->fault_topic)
        return SEMEL_OK;
    size_t len = strlen(options->fault_topic);
    inbox->fault_topic = mem_alloc(len + 1);
    if (!inbox->fault_topic)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory opening an inbox");
    memcpy(inbox->fault_topic, options->fault_topic, len + 1);
    return SEMEL_OK;
}

static semel_status inbox_prepare(semel_inbox *inbox, const char *name,
                                  const semel_inbox_options *options, semel_error *err)
{
    semel_store *store = inbox->store;
    semel_status status = store_check_name("inbox", name, err);
    if (!status)
        status = options_read(&inbox->options, sizeof inbox->options, options,
                              "semel_inbox_options", err);
    if (!status)
        status = inbox_check_choices(&inbox->options, err);
    if (status)
        return status;
    memcpy(inbox->name, name, strlen(name) + 1);
    fill_defaults(&inbox->options, store);
    status = store_can_keep_inbox(store, &inbox->options, err);
    if (!status)
        status = plan_key(inbox, err);
    if (!status)
        status = plan_digest(inbox, err);
    if (!status)
        status = plan_faults(inbox, err);
    return status ? status
                  : store->driver->scope(store->state, SEMEL_SCOPE_INBOX, name, &inbox->scope, err);
}

semel_status semel_inbox_open(semel_inbox **out, semel_store *store, const char *name,
                              const semel_inbox_options *options, semel_error *err)
{
    semel_inbox *inbox = mem_alloc(sizeof *inbox);
    if (!inbox)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory opening an inbox");
    inbox->store = store;
    pthread_mutex_init(&inbox->sweep_lock, NULL);
    semel_status status = inbox_prepare(inbox, name, options, err);
    if (status)
        semel_inbox_close(inbox);
    else
        *out = inbox;
    return status;
}

void semel_inbox_close(semel_inbox *inbox)
{
    if (!inbox)
        return;
    pthread_mutex_destroy(&inbox->sweep_lock);
    mem_free(inbox->fault_topic);
    mem_free(inbox);
}

void inbox_count(semel_inbox *inbox, semel_outcome outcome)
{
    static const tally of[] = {[SEMEL_PROCESSED] = TALLY_PROCESSED,
                               [SEMEL_DUPLICATE] = TALLY_DUPLICATES,
                               [SEMEL_REPLAYED] = TALLY_REPLAYED,
                               [SEMEL_IN_PROGRESS] = TALLY_IN_PROGRESS,
                               [SEMEL_MISMATCH] = TALLY_MISMATCHED,
                               [SEMEL_STALE] = TALLY_STALE,
                               [SEMEL_MISSING_KEY] = TALLY_MISSING_KEY,
                               [SEMEL_FAILED] = TALLY_FAILED,
                               [SEMEL_DEAD] = TALLY_DEAD};
    if (outcome >= SEMEL_PROCESSED && outcome <= SEMEL_DEAD)
        store_count(inbox->store, of[outcome], 1);
}

int semel_outcome_settled(semel_outcome outcome)
{
    return outcome == SEMEL_PROCESSED || outcome == SEMEL_DUPLICATE || outcome == SEMEL_REPLAYED ||
           outcome == SEMEL_DEAD;
}

const char *semel_outcome_name(semel_outcome outcome)
{
    static const char *const names[] = {"undecided",   "claimed",     "processed", "duplicate",
                                        "replayed",    "in progress", "mismatch",  "stale",
                                        "missing key", "failed",      "dead"};
    return (size_t)outcome < sizeof names / sizeof *names ? names[outcome] : "unknown";
}

/* --- tools ------------------------------------------------------------------------------------------- */

semel_status semel_inbox_key(void *key, size_t capacity, size_t *len, const semel_inbox *inbox,
                             const semel_message *message, semel_error *err)
{
    mem_arena arena = {0};
    semel_bytes found;
    semel_status status = key_compute(&found, &arena, &inbox->plan, message, err);
    if (!status && !found.len)
        status =
            semel_fail(err, SEMEL_ENOTFOUND, "inbox \"%s\": the message has no key", inbox->name);
    if (!status) {
        if (capacity)
            memcpy(key, found.data, found.len < capacity ? found.len : capacity);
        *len = found.len;
    }
    arena_free(&arena);
    return status;
}

static semel_status forget_key(work_unit *unit, void *context, semel_error *err)
{
    (void)context;
    return unit->store->driver->markers->forget(unit->state, &unit->item.mark, err);
}

semel_status semel_inbox_forget(semel_inbox *inbox, const semel_message *message, semel_error *err)
{
    int missing;
    work_unit *unit = NULL;
    semel_status status = unit_new(&unit, inbox->store, err);
    if (status)
        return status;
    status = unit_identify(&missing, unit, inbox, message, err);
    if (!status && !unit->item.mark.inbox)
        status =
            semel_fail(err, SEMEL_ENOTFOUND, "inbox \"%s\": the message has no key", inbox->name);
    if (!status)
        status = unit_transact(unit, SEMEL_BEGIN_DURABLE, forget_key, NULL, err);
    unit_free(unit);
    return status;
}

/* --- retention ----------------------------------------------------------------------------------------- */

/* Everything last changed before this moment may go. INT64_MIN: nothing may. A retention longer than the
 * time since 1970 must not wrap around to "everything". */
static int64_t cutoff(int64_t now_ms, uint64_t retention_ms)
{
    if (retention_ms == SEMEL_RETENTION_NONE)
        return now_ms == INT64_MAX ? now_ms
                                   : now_ms + 1; /* what was done in this millisecond, too */
    if (retention_ms == SEMEL_RETENTION_FOREVER || now_ms <= 0 || retention_ms >= (uint64_t)now_ms)
        return INT64_MIN;
    return now_ms - (int64_t)retention_ms;
}

semel_status semel_inbox_sweep(size_t *swept, int *more, semel_inbox *inbox, uint32_t rows,
                               semel_error *err)
{
    semel_store *store = inbox->store;
    size_t removed = 0;
    int64_t now;
    semel_status status = semel_store_now(&now, store, err);
    if (status)
        return status;
    if (!store->driver->markers->sweep) {
        *swept = 0;
        *more = 0;
        return SEMEL_OK;
    }
    pthread_mutex_lock(&inbox->sweep_lock);
    status = store->driver->markers->sweep(
        store->state, inbox->scope, cutoff(now, inbox->options.retention_ms),
        rows ? rows : SEMEL_SWEEP_BATCH, &inbox->sweep_position, &removed, err);
    if (!status) {
        *swept = removed;
        *more = inbox->sweep_position.len != 0;
    }
    pthread_mutex_unlock(&inbox->sweep_lock);
    store_count(store, TALLY_SWEPT, removed);
    return status;
}
