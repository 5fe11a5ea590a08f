/* The tools of the store suite: opening what a test needs, asking what it found. See
 * conformance_store.h. */
#include "support/conformance/conformance_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int store_has(const store_fixture *f, unsigned members)
{
    return !(f->quirks->lacks & members);
}

/* --- opening and closing ---------------------------------------------------------------------- */

/* Where two threads meet, one of them may be kept from going on for this long. */
enum { PATIENCE_MS = 60000 };

static semel_store *open_handle(store_fixture *f)
{
    semel_store_options options = {
        .size = sizeof options, .busy_ms = PATIENCE_MS, .seam = &f->store_seam};
    const char *url = f->base.place.url;
    semel_store *store = NULL;
    if (f->quirks->driver)
        OK(semel_store_open_driver(&store, f->quirks->driver, url, &options, &last_error));
    else
        OK(semel_store_open(&store, url, &options, &last_error));
    return store;
}

void open_store(store_fixture *f)
{
    f->base.store = open_handle(f);
}

semel_store *open_second_handle(store_fixture *f)
{
    semel_store *store = open_handle(f);
    fixture_keep_store(&f->base, store);
    return store;
}

semel_inbox *open_inbox_on(store_fixture *f, semel_store *store, const char *name,
                           const semel_inbox_options *options)
{
    semel_inbox_options chosen = {.size = sizeof chosen, .wait_ms = PATIENCE_MS};
    if (options)
        chosen = *options;
    chosen.mode = f->mode;
    return fixture_inbox_on(&f->base, store, name, &chosen);
}

semel_inbox *open_inbox(store_fixture *f, const char *name, const semel_inbox_options *options)
{
    return open_inbox_on(f, f->base.store, name, options);
}

semel_outbox *open_outbox(store_fixture *f, const char *name)
{
    return fixture_outbox(&f->base, name);
}

semel_transport *open_recorder(store_fixture *f)
{
    return fixture_recorder(&f->base);
}

semel_relay *open_relay(store_fixture *f, semel_outbox *outbox, semel_transport *transport,
                        const semel_relay_options *options)
{
    return fixture_relay(&f->base, outbox, transport, options);
}

semel_relay *open_local_relay(store_fixture *f, semel_outbox *outbox, semel_inbox *inbox,
                              scripted_handler *context, const semel_relay_options *options)
{
    return fixture_local_relay(&f->base, outbox, inbox, scripted_handler_run, context, options);
}

/* Also after a test that failed half way, with whatever it had opened by then. */
void close_all(store_fixture *f)
{
    fixture_close_things(&f->base);
}

/* The time of a process is larger than that of those before it, also where it is inexact. */
void reopen(store_fixture *f)
{
    close_all(f);
    if (f->quirks->clock_ms)
        f->quirks->pass_ms(f->base.place.url, f->quirks->clock_ms);
    open_store(f);
}

/* --- time ------------------------------------------------------------------------------------- */

/* Both clocks go on together: semel reads the seam's, too, for a message's age and for its own
 * waits. The server is told of short spans when they have become a long one: an owed second is less
 * than a grain, and semel waits for a claim in steps of milliseconds. One at a time, since rows
 * that are locked do not age. */
static void pass(store_fixture *f, int64_t ms, int64_t owed_max_ms)
{
    semel_test_advance_ms(f->base.seam, ms);
    if (!f->quirks->pass_ms)
        return;
    pthread_mutex_lock(&f->time_lock);
    f->passed_ms += f->quirks->flags & STORE_CLOCK_PASSES ? 0 : ms;
    f->owed_ms += ms;
    if (f->owed_ms > owed_max_ms) {
        f->quirks->pass_ms(f->base.place.url, f->owed_ms);
        f->owed_ms = 0;
    }
    pthread_mutex_unlock(&f->time_lock);
}

void pass_ms(store_fixture *f, int64_t ms)
{
    pass(f, ms + f->quirks->clock_ms, 0);
}

void pass_almost(store_fixture *f, int64_t ms)
{
    assert_true(ms >= f->grain_ms);
    pass_ms(f, ms - f->grain_ms);
}

void pass_grain(store_fixture *f)
{
    pass_ms(f, f->grain_ms);
}

uint32_t grains(const store_fixture *f, uint32_t count)
{
    int64_t ms = f->grain_ms * count;
    assert_true(ms <= UINT32_MAX);
    return (uint32_t)ms;
}

int64_t now_on(store_fixture *f, semel_store *store)
{
    int64_t now = 0;
    OK(semel_store_now(&now, store, &last_error));
    return now + f->passed_ms;
}

int64_t now_of(store_fixture *f)
{
    return now_on(f, f->base.store);
}

int64_t wall_of(store_fixture *f)
{
    return f->store_seam.wall_ms(f->store_seam.context);
}

void check_about(int64_t expected, int64_t ms, const store_fixture *f, const char *file, int line)
{
    if (ms >= expected - f->quirks->clock_ms && ms - expected < f->grain_ms)
        return;
    print_error("%lld is not %lld, nor in the %lld ms from then\n", (long long)ms,
                (long long)expected, (long long)f->grain_ms);
    _fail(file, line);
}

/* --- the seam of the stores ------------------------------------------------------------------- */

enum { SERVER_GRAIN_MS = 20000, OWED_MAX_MS = 1000 };

static const semel_seam *inner(void *context)
{
    store_fixture *f = context;
    return semel_test_seam_get(f->base.seam);
}

static int64_t inner_wall_ms(void *context)
{
    return inner(context)->wall_ms(inner(context)->context);
}

static int64_t inner_steady_ms(void *context)
{
    return inner(context)->steady_ms(inner(context)->context);
}

static void inner_boot_id(void *context, char id[37])
{
    inner(context)->boot_id(inner(context)->context, id);
}

static void inner_random(void *context, void *bytes, size_t len)
{
    inner(context)->random(inner(context)->context, bytes, len);
}

static semel_status inner_fault(void *context, const char *point)
{
    store_fixture *f = context;
    if (f->passing)
        f->passing(f, point);
    return inner(context)->fault(inner(context)->context, point);
}

/* From whichever thread semel sleeps in. */
static void sleep_for_both(void *context, uint32_t ms)
{
    pass(context, ms, OWED_MAX_MS);
}

void clock_open(store_fixture *f)
{
    OK(semel_test_seam_open(&f->base.seam, 1, &last_error));
    assert_int_equal(pthread_mutex_init(&f->time_lock, NULL), 0);
    f->grain_ms = f->quirks->flags & STORE_SERVER_CLOCK ? SERVER_GRAIN_MS : 1;
    f->store_seam = (semel_seam){.size = sizeof f->store_seam,
                                 .context = f,
                                 .wall_ms = inner_wall_ms,
                                 .steady_ms = inner_steady_ms,
                                 .boot_id = inner_boot_id,
                                 .sleep_ms = sleep_for_both,
                                 .random = inner_random,
                                 .fault = inner_fault};
}

void clock_close(store_fixture *f)
{
    pthread_mutex_destroy(&f->time_lock);
    semel_test_seam_close(f->base.seam);
}

/* --- counts ----------------------------------------------------------------------------------- */

semel_counters counters_of(store_fixture *f)
{
    return fixture_counters(&f->base);
}

/* --- receiving -------------------------------------------------------------------------------- */

semel_unit *claim_message(store_fixture *f, semel_inbox *inbox, const semel_message *message)
{
    semel_unit *unit = NULL;
    semel_outcome outcome = SEMEL_UNDECIDED;
    OK(semel_unit_begin(&unit, f->base.store, &last_error));
    OK(semel_unit_claim(&outcome, unit, inbox, message, &last_error));
    assert_int_equal(outcome, SEMEL_CLAIMED);
    return unit;
}

void abandon_claim(store_fixture *f, semel_inbox *inbox, const semel_message *message)
{
    semel_outcome outcome = SEMEL_UNDECIDED;
    scripted_handler unused = {0};
    semel_test_fault(f->base.seam, "claim.committed", 1, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_inbox_receive(&outcome, inbox, message, scripted_handler_run, &unused,
                                            &last_error));
    assert_int_equal(outcome, SEMEL_UNDECIDED);
    assert_int_equal(unused.runs, 0);
}

/* --- sending ---------------------------------------------------------------------------------- */

size_t relay_once(semel_relay *relay)
{
    size_t sent = 0;
    OK(semel_relay_step(&sent, relay, 0, &last_error));
    return sent;
}

size_t relay_all(semel_relay *relay)
{
    return fixture_drain(relay);
}

void recorded_ids(char *text, size_t size, const semel_transport *recorder)
{
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < semel_test_recorder_count(recorder); i++) {
        semel_bytes id = semel_test_recorder_message(recorder, i)->id;
        int len = snprintf(text + used, size - used, "%s%.*s", i ? " " : "", (int)id.len,
                           (const char *)id.data);
        assert_true(len >= 0 && used + (size_t)len < size);
        used += (size_t)len;
    }
}

/* --- dead letters ----------------------------------------------------------------------------- */

static semel_status keep(const semel_dead *dead, void *context, semel_error *err)
{
    letters *all = context;
    if (all->count == sizeof all->all / sizeof *all->all)
        return semel_fail(err, SEMEL_ELIMIT, "more dead letters than a test expects");
    struct dead_copy *one = &all->all[all->count];
    *one = (struct dead_copy){.id = dead->id,
                              .origin = dead->origin,
                              .key_len = dead->key.len,
                              .attempts = dead->attempts,
                              .at_ms = dead->at_ms,
                              .first_ms = dead->first_ms,
                              .cause = dead->cause,
                              .retry = dead->retry};
    (void)snprintf(one->name, sizeof one->name, "%s", dead->name);
    (void)snprintf(one->error, sizeof one->error, "%s", dead->error);
    if (dead->key.len > sizeof one->key)
        return semel_fail(err, SEMEL_ELIMIT, "the key of a dead letter has %zu bytes",
                          dead->key.len);
    memcpy(one->key, dead->key.data, dead->key.len);
    semel_status status =
        dead->message ? semel_message_copy(&one->message, dead->message, err) : SEMEL_OK;
    all->count += !status;
    return status;
}

void letters_read(letters *out, semel_store *store, const semel_dead_filter *filter)
{
    out->count = 0;
    OK(semel_dead_list(store, filter, keep, out, &last_error));
}

void letters_free(letters *all)
{
    while (all->count)
        semel_message_free(all->all[--all->count].message);
}

size_t count_letters(store_fixture *f)
{
    letters found;
    if (!store_has(f, LACKS_DEAD))
        return 0;
    letters_read(&found, f->base.store, NULL);
    size_t count = found.count;
    letters_free(&found);
    return count;
}

int64_t only_letter(store_fixture *f)
{
    letters found;
    letters_read(&found, f->base.store, NULL);
    size_t count = found.count;
    int64_t id = found.all[0].id;
    letters_free(&found);
    assert_int_equal(count, 1);
    return id;
}
