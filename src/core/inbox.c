/* Inboxes: their options, their names, their bookkeeping. */
#include "core/inbox.h"

#include "core/positions.h"

#include <string.h>

enum {
    MARGIN_DEFAULT_MS = 60000,
    WAIT_DEFAULT_MS = 5000,
    LEASE_DEFAULT_MS = 30000,
    ATTEMPTS_DEFAULT = 5
};

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
    if (!status)
        status = inbox_check_choice((int)options->age, SEMEL_AGE_IGNORE, "age", err);
    return status ? status
                  : inbox_check_choice((int)options->remember, SEMEL_REMEMBER_POSITIONS, "remember",
                                       err);
}

/* What an inbox without keys cannot do: the member, or NULL. */
static const char *find_about_keys(const semel_inbox_options *options)
{
    return options->key              ? "key"
           : options->key_function   ? "key_function"
           : options->fingerprint    ? "fingerprint"
           : options->on_duplicate   ? "on_duplicate"
           : options->on_missing_key ? "on_missing_key"
           : options->on_mismatch    ? "on_mismatch"
           : options->on_stale       ? "on_stale"
           : options->age            ? "age"
           : options->keep_details   ? "keep_details"
                                     : NULL;
}

static semel_status no_key(void *key, size_t capacity, size_t *len, const semel_message *message,
                           void *context, semel_error *err)
{
    (void)key, (void)capacity, (void)message, (void)context, (void)err;
    *len = 0;
    return SEMEL_OK;
}

/* From here on it is an inbox whose messages have no keys, but for what runs do. */
static semel_status plan_positions(semel_inbox *inbox, semel_error *err)
{
    semel_inbox_options *options = &inbox->options;
    if (options->remember != SEMEL_REMEMBER_POSITIONS)
        return SEMEL_OK;
    const char *about_keys = find_about_keys(options);
    if (about_keys)
        return semel_fail(err, SEMEL_EINVAL,
                          "inbox \"%s\" remembers positions, and semel_inbox_options.%s is about "
                          "keys: leave it out, or remember keys",
                          inbox->name, about_keys);
    if (options->mode == SEMEL_CLAIM)
        return semel_fail(err, SEMEL_EINVAL,
                          "inbox \"%s\": a position moves in the transaction of the work, so an "
                          "inbox in claim mode remembers keys",
                          inbox->name);
    options->key_function = no_key;
    options->on_missing_key = SEMEL_MISSING_KEY_PROCESS;
    options->fingerprint = "none";
    options->age = SEMEL_AGE_IGNORE;
    options->retention_ms = SEMEL_RETENTION_FOREVER;
    return positions_open(inbox, err);
}

semel_status inbox_takes_keys(const semel_inbox *inbox, semel_error *err)
{
    return inbox->positions
               ? semel_fail(err, SEMEL_EMISUSE,
                            "inbox \"%s\" remembers positions, and knows a message only by those: "
                            "use semel_inbox_receive_run() or a consumer",
                            inbox->name)
               : SEMEL_OK;
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
    if (!options->clock_margin_ms)
        options->clock_margin_ms = MARGIN_DEFAULT_MS;
    if (!options->sweep_every_ms)
        options->sweep_every_ms = SEMEL_SWEEP_DEFAULT_MS;
    if (!options->dead_retention_ms)
        options->dead_retention_ms = SEMEL_RETENTION_FOREVER;
}

static semel_status plan_key(semel_inbox *inbox, semel_error *err)
{
    const semel_inbox_options *options = &inbox->options;
    if (!options->key_function)
        return key_parse(&inbox->plan, "key", options->key ? options->key : "id", err);
    if (options->key)
        return semel_fail(err, SEMEL_EINVAL,
                          "semel_inbox_options: give either key or key_function, not both");
    inbox->plan.count = 1;
    inbox->plan.parts[0].kind = KEY_FUNCTION;
    inbox->plan.function = options->key_function;
    inbox->plan.context = options->key_context;
    return SEMEL_OK;
}

static semel_status plan_fingerprint(semel_inbox *inbox, semel_error *err)
{
    semel_inbox_options *options = &inbox->options;
    if (!options->fingerprint)
        options->fingerprint = fingerprint_default(&inbox->plan);
    return fingerprint_parse(&inbox->fingerprint, options->fingerprint, err);
}

/* Digests are needed for missing keys if the policy says so: better to say now that there are
 * none. */
static semel_status plan_digest(const semel_inbox *inbox, semel_error *err)
{
    key_plan unused;
    return inbox->options.on_missing_key == SEMEL_MISSING_KEY_DIGEST
               ? key_parse(&unused, "key", "digest", err)
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
    status = plan_positions(inbox, err);
    if (status)
        return status;
    fill_defaults(&inbox->options, store);
    status = store_can_keep_inbox(store, &inbox->options, err);
    if (!status)
        status = plan_key(inbox, err);
    if (!status)
        status = plan_fingerprint(inbox, err);
    if (!status)
        status = plan_digest(inbox, err);
    if (!status)
        status = plan_faults(inbox, err);
    if (!status)
        status = store->driver->scope(store->state, SEMEL_SCOPE_INBOX, name, &inbox->scope, err);
    if (!status)
        status = inbox_details_open(inbox, err);
    return status ? status : inbox_register(inbox, err);
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

static semel_status new_unkeyed(semel_inbox **out, semel_store *store, const char *name,
                                const semel_inbox_options *options, semel_error *err)
{
    semel_inbox *inbox = mem_alloc(sizeof *inbox);
    if (!inbox)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory opening an inbox");
    inbox->store = store;
    pthread_mutex_init(&inbox->sweep_lock, NULL);
    memcpy(inbox->name, name, strlen(name) + 1);
    inbox->options = *options;
    inbox->options.key_function = no_key;
    fill_defaults(&inbox->options, store);
    semel_status status = plan_key(inbox, err);
    if (status)
        semel_inbox_close(inbox);
    else
        *out = inbox;
    return status;
}

semel_status inbox_open_unkeyed(semel_inbox **out, semel_store *store, const char *name,
                                uint32_t attempts_max, semel_error *err)
{
    const semel_inbox_options options = {.size = sizeof options,
                                         .on_missing_key = SEMEL_MISSING_KEY_PROCESS,
                                         .attempts_max = attempts_max};
    return new_unkeyed(out, store, name, &options, err);
}

semel_status semel_inbox_open_known(semel_inbox **out, semel_store *store, const char *name,
                                    semel_error *err)
{
    const semel_inbox_options options = {.size = sizeof options,
                                         .fingerprint = "none",
                                         .retention_ms = SEMEL_RETENTION_FOREVER,
                                         .sweep_every_ms = SEMEL_SWEEP_OFF};
    semel_inbox *inbox = NULL;
    semel_status status = store_check_name("inbox", name, err);
    if (!status)
        status = new_unkeyed(&inbox, store, name, &options, err);
    if (status)
        return status;
    atomic_store(&inbox->horizon_ms, SEMEL_RETENTION_FOREVER);
    status = plan_fingerprint(inbox, err);
    if (!status)
        status = store->driver->scope(store->state, SEMEL_SCOPE_INBOX, name, &inbox->scope, err);
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
    inbox_details_close(inbox);
    positions_close(inbox);
    mem_free(inbox->fault_topic);
    mem_free(inbox);
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

/* --- tools ------------------------------------------------------------------------------------ */

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

static semel_status refuse_letter(const semel_dead *dead, void *context, semel_error *err)
{
    (void)context;
    return semel_fail(err, SEMEL_EREJECTED,
                      "inbox \"%s\": the key is that of dead letter %lld; discard the letter",
                      dead->name, (long long)dead->id);
}

/* The key is removed first: a unit that buries it at this moment has ended then, and its letter is
 * seen. */
static semel_status forget_without_letter(work_unit *unit, void *context, semel_error *err)
{
    const semel_inbox *inbox = context;
    const semel_store_driver *driver = unit->store->driver;
    const semel_dead_filter filter = {.size = sizeof filter,
                                      .origin = SEMEL_DEAD_INBOX,
                                      .name = inbox->name,
                                      .key = unit->item.mark.key,
                                      .limit = 1,
                                      .brief = 1};
    semel_status status = forget_key(unit, NULL, err);
    if (status || !driver->dead)
        return status;
    return driver->dead->list(unit->state, &filter, refuse_letter, NULL, err);
}

semel_status semel_inbox_forget_key(semel_inbox *inbox, semel_bytes key, semel_error *err)
{
    work_unit *unit = NULL;
    if (!key.len || key.len > SEMEL_KEY_MAX)
        return semel_fail(err, SEMEL_EINVAL, "inbox \"%s\": no key is stored that is %s",
                          inbox->name, key.len ? "so long" : "empty");
    semel_status status = unit_new(&unit, inbox->store, err);
    if (status)
        return status;
    unit->item.mark = (semel_mark){.inbox = inbox->scope, .key = key};
    status = unit_transact(unit, SEMEL_BEGIN_DURABLE, forget_without_letter, inbox, err);
    unit_free(unit);
    return status;
}
