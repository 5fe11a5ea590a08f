#include "support/scenario/migration.h"

#include "support/base/check.h"
#include "support/inspect/inspect.h"
#include "support/process/process.h"

#include <semel/operate.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- steps ------------------------------------------------------------------------------------ */

typedef struct shown_steps {
    int32_t count;
    int32_t applied;
    int32_t newer; /* the last one that this library does not have */
    int32_t needs; /* of that one */
} shown_steps;

static void note_newer(shown_steps *to, const semel_schema_step *step)
{
    assert_true(step->version > to->count && step->version > to->newer);
    assert_string_equal(step->name, "future");
    assert_string_equal(step->locks, "");
    assert_string_equal(step->sql, "");
    assert_int_equal(step->applied_ms, 1);
    to->newer = step->version;
    to->needs = step->needs;
}

static semel_status count_step(const semel_schema_step *step, void *context, semel_error *err)
{
    shown_steps *to = context;
    (void)err;
    if (step->newer) {
        note_newer(to, step);
        return SEMEL_OK;
    }
    assert_int_equal(step->version, ++to->count);
    assert_true(step->needs >= 1 && step->needs <= step->version);
    assert_true(strlen(step->name) > 5);
    assert_true(strlen(step->locks) > 5);
    assert_non_null(strstr(step->sql, "schema"));
    assert_null(strstr(step->sql, "{}"));
    assert_null(strstr(step->sql, "{version}"));
    assert_true(!step->applied_ms || to->applied == step->version - 1);
    to->applied += step->applied_ms != 0;
    return SEMEL_OK;
}

static shown_steps show(semel_store *store)
{
    shown_steps shown = {0};
    OK(semel_store_schema(store, count_step, &shown, &last_error));
    return shown;
}

static semel_store *open_store(const store_place *place, const semel_seam *seam)
{
    semel_store *store = NULL;
    semel_store_options options = {.size = sizeof options, .seam = seam};
    OK(semel_store_open(&store, place->url, &options, &last_error));
    return store;
}

static semel_status mark(semel_unit *unit, const semel_message *message, void *context,
                         semel_error *err)
{
    (void)unit, (void)message, (void)err;
    ++*(int *)context;
    return SEMEL_OK;
}

/* A message is received, and its copy known. */
static void expect_working(semel_store *store)
{
    semel_inbox *inbox = NULL;
    int runs = 0;
    semel_message message = {.size = sizeof message, .id = {"m-1", 3}, .type = "order.placed"};
    OK(semel_inbox_open(&inbox, store, "orders", NULL, &last_error));
    for (int i = 0; i < 2; i++) {
        semel_outcome outcome = SEMEL_UNDECIDED;
        OK(semel_inbox_receive(&outcome, inbox, &message, mark, &runs, &last_error));
        assert_int_equal(outcome, i ? SEMEL_DUPLICATE : SEMEL_PROCESSED);
    }
    assert_int_equal(runs, 1);
    semel_inbox_close(inbox);
}

void migration_step_by_step(store_place *place)
{
    semel_store *store = open_store(place, NULL);
    semel_inbox *inbox = NULL;
    shown_steps all = show(store);
    assert_int_equal(all.applied, 0);
    assert_true(all.count >= 4);
    for (int32_t version = 1; version <= all.count; version++) {
        FAILS(SEMEL_ESCHEMA, semel_inbox_open(&inbox, store, "orders", NULL, &last_error));
        SAYS("semel migrate up");
        for (int twice = 0; twice < 2; twice++) {
            OK(semel_store_migrate_to(store, version, &last_error));
            assert_int_equal(show(store).applied, version);
        }
    }
    FAILS(SEMEL_EINVAL, semel_store_migrate_to(store, all.count + 1, &last_error));
    FAILS(SEMEL_EINVAL, semel_store_migrate_to(store, -1, &last_error));
    OK(semel_store_migrate_to(store, 1, &last_error)); /* nothing is undone */
    OK(semel_store_migrate_to(store, 0, &last_error));
    assert_int_equal(show(store).applied, all.count);
    expect_working(store);
    semel_store_close(store);
}

/* --- kills ------------------------------------------------------------------------------------ */

typedef struct killing {
    const store_place *place;
    const char *point;
    int passes; /* the one that kills */
} killing;

static semel_status kill_there(void *context, const char *point)
{
    killing *k = context;
    if (strcmp(point, k->point) == 0 && --k->passes == 0)
        (void)kill(getpid(), SIGKILL);
    return SEMEL_OK;
}

static int migrate_and_die(void *context)
{
    killing *k = context;
    semel_seam seam = {.size = sizeof seam, .context = k, .fault = kill_there};
    semel_error err;
    semel_store *store = open_store(k->place, &seam);
    PROCESS_REQUIRE_OK(semel_store_migrate(store, &err), &err);
    return PROCESS_OK;
}

static void kill_at(store_place *place, const char *point, int32_t step)
{
    killing k = {place, point, step};
    store_place_renew(place);
    assert_int_equal(process_run(migrate_and_die, &k), PROCESS_KILLED + SIGKILL);
    store_place_wait_quiet(place);
    semel_store *store = open_store(place, NULL);
    int committed = strcmp(point, "migrate.committed") == 0;
    assert_int_equal(show(store).applied, committed ? step : step - 1);
    OK(semel_store_migrate(store, &last_error));
    expect_working(store);
    semel_store_close(store);
}

void migration_killed_everywhere(store_place *place)
{
    semel_store *store = open_store(place, NULL);
    int32_t count = show(store).count;
    semel_store_close(store);
    for (int32_t step = 1; step <= count; step++) {
        kill_at(place, "migrate.applied", step);
        kill_at(place, "migrate.committed", step);
    }
}

/* --- rows of older versions ------------------------------------------------------------------- */

static semel_status count_letter(const semel_dead *letter, void *context, semel_error *err)
{
    (void)err;
    assert_string_equal(letter->error, "exit 1");
    ++*(int *)context;
    return SEMEL_OK;
}

/* Version 3 knows neither cause nor retry. */
void migration_old_rows(store_place *place)
{
    semel_store *store = open_store(place, NULL);
    semel_dead_filter filter = {.size = sizeof filter};
    int letters = 0,
        key_is_word = inspect_is_server(place->url) && !inspect_is_postgres(place->url);
    char sql[512];
    OK(semel_store_migrate(store, &last_error));
    expect_working(store);
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO semel_dead (origin, name, %s, attempts, at_ms, error, id) "
                   "VALUES (1, 'orders', 'k', 5, 1000, 'exit 1', 'm-2')",
                   key_is_word ? "`key`" : "key");
    inspect_run(place->url, sql);
    OK(semel_dead_list(store, &filter, count_letter, &letters, &last_error));
    assert_int_equal(letters, 1);
    semel_store_close(store);
}

/* --- inspection ------------------------------------------------------------------------------- */

typedef struct subject_seen {
    const char *name;
    semel_severity worst;
    char text[1024]; /* of the worst finding */
} subject_seen;

enum { SUBJECTS = 6 };

typedef struct seen {
    subject_seen of[SUBJECTS];
} seen;

static semel_status see(const semel_finding *finding, void *context, semel_error *err)
{
    seen *to = context;
    (void)err;
    assert_true(strlen(finding->text) > 5);
    assert_non_null(finding->fix);
    for (int i = 0; i < SUBJECTS; i++)
        if (strcmp(to->of[i].name, finding->subject) == 0 && finding->severity > to->of[i].worst) {
            to->of[i].worst = finding->severity;
            (void)snprintf(to->of[i].text, sizeof to->of[i].text, "%s", finding->text);
        }
    return SEMEL_OK;
}

static seen inspect(semel_store *store)
{
    seen all = {.of = {{.name = "store"},
                       {.name = "schema"},
                       {.name = "rights"},
                       {.name = "durability"},
                       {.name = "isolation"},
                       {.name = "clock"}}};
    OK(semel_store_inspect(store, see, &all, &last_error));
    for (int i = 0; i < SUBJECTS; i++)
        assert_true(all.of[i].worst >= SEMEL_SEVERITY_OK); /* at least one finding of each */
    return all;
}

static const subject_seen *subject(const seen *all, const char *name)
{
    for (int i = 0; i < SUBJECTS; i++)
        if (strcmp(all->of[i].name, name) == 0)
            return &all->of[i];
    fail_msg("no subject %s", name);
    return NULL;
}

#define EXPECT(store, name, severity, part)                           \
    do {                                                              \
        seen all_ = inspect(store);                                   \
        const subject_seen *of_ = subject(&all_, name);               \
        assert_int_equal(of_->worst, severity);                       \
        if (!strstr(of_->text, part))                                 \
            fail_msg("\"%s\" does not have \"%s\"", of_->text, part); \
    } while (0)

static int64_t ahead_ms; /* of the host's clock */

static int64_t wrong_wall_ms(void *context)
{
    (void)context;
    return process_wall_ms() + ahead_ms;
}

static void inspect_clock(store_place *place)
{
    static const semel_seam seam = {.size = sizeof seam, .wall_ms = wrong_wall_ms};
    semel_store *store = open_store(place, &seam);
    ahead_ms = 0;
    EXPECT(store, "clock", SEMEL_SEVERITY_OK, "differ by less");
    ahead_ms = 94000;
    EXPECT(store, "clock", SEMEL_SEVERITY_WARNING, "ahead of the store");
    ahead_ms = -94000;
    EXPECT(store, "clock", SEMEL_SEVERITY_WARNING, "behind the store");
    ahead_ms = 0;
    semel_store_close(store);
}

void migration_inspected(store_place *place)
{
    semel_store *store = open_store(place, NULL);
    EXPECT(store, "schema", SEMEL_SEVERITY_ERROR, "not there yet");
    OK(semel_store_migrate_to(store, 3, &last_error));
    EXPECT(store, "schema", SEMEL_SEVERITY_ERROR, "of version 3");
    OK(semel_store_migrate(store, &last_error));
    expect_working(store);
    EXPECT(store, "schema", SEMEL_SEVERITY_OK, "of version");
    EXPECT(store, "rights", SEMEL_SEVERITY_OK, "");
    EXPECT(store, "store", SEMEL_SEVERITY_OK, "");
    inspect_clock(place);
    semel_store_close(store);
}

/* --- tables of a newer version ---------------------------------------------------------------- */

/* As a semel to come would record it. */
static void take_newer(store_place *place, int32_t version, const char *needs)
{
    char sql[256];
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO semel_schema (version, name, applied_ms, needs) "
                   "VALUES (%d, 'future', 1, %s)",
                   (int)version, needs);
    inspect_run(place->url, sql);
}

static void receive_one(semel_inbox *inbox, const char *id)
{
    int runs = 0;
    semel_outcome outcome = SEMEL_UNDECIDED;
    semel_message message = {.size = sizeof message, .id = {id, strlen(id)}};
    OK(semel_inbox_receive(&outcome, inbox, &message, mark, &runs, &last_error));
    assert_int_equal(runs, 1);
}

/* All that opens something looks at the versions. */
static void expect_usable(semel_store *store, int32_t count)
{
    semel_outbox *outbox = NULL;
    semel_counters counters;
    OK(semel_store_migrate(store, &last_error));
    OK(semel_store_migrate_to(store, count, &last_error));
    OK(semel_outbox_open(&outbox, store, "mail", &last_error));
    OK(semel_store_counters(&counters, sizeof counters, store, &last_error));
    semel_outbox_close(outbox);
    EXPECT(store, "schema", SEMEL_SEVERITY_WARNING, "and may use them");
}

static void expect_refused(semel_store *store, int32_t version, int32_t needs)
{
    semel_inbox *inbox = NULL;
    shown_steps shown = {0};
    char says[128];
    (void)snprintf(says, sizeof says,
                   "tables in version %d, for programs that know version %d or later", (int)version,
                   (int)needs);
    FAILS(SEMEL_ESCHEMA, semel_store_schema(store, count_step, &shown, &last_error));
    assert_int_equal(shown.newer, version);
    FAILS(SEMEL_ESCHEMA, semel_inbox_open(&inbox, store, "other", NULL, &last_error));
    SAYS(says);
    FAILS(SEMEL_ESCHEMA, semel_store_migrate(store, &last_error));
    SAYS(says);
    EXPECT(store, "schema", SEMEL_SEVERITY_ERROR, "upgrade semel");
}

/* What is open goes on; what is opened depends on what the tables say. */
void migration_newer_tables(store_place *place)
{
    char needs[16];
    semel_store *store = open_store(place, NULL);
    semel_inbox *inbox = NULL;
    int32_t count = show(store).count;
    OK(semel_store_migrate(store, &last_error));
    (void)snprintf(needs, sizeof needs, "%d", (int)count);
    take_newer(place, count + 1, needs);
    shown_steps shown = show(store);
    assert_int_equal(shown.newer, count + 1);
    assert_int_equal(shown.needs, count);
    assert_int_equal(shown.applied, count);
    expect_working(store);
    expect_usable(store, count);
    OK(semel_inbox_open(&inbox, store, "orders", NULL, &last_error));
    (void)snprintf(needs, sizeof needs, "%d", (int)count + 1);
    take_newer(place, count + 2, needs);
    expect_refused(store, count + 2, count + 1);
    take_newer(place, 60, "NULL"); /* a step that does not say needs itself */
    expect_refused(store, 60, 60);
    receive_one(inbox, "m-9");
    semel_inbox_close(inbox);
    semel_store_close(store);
}
