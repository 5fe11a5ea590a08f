/* The sources of bad luck, the surroundings that it strikes, and the loop over all allocations. */
#include "support/scenario/oom.h"

#include "support/fake/stub_transport.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
/* cmocka needs the first two. */
#include <cmocka.h>
#include <semel/sqlite.h>
#include <semel/sys/transport.h>
#include <string.h>

enum { ALLOCATIONS_MAX = 20000 };

/* --- the library's own allocations ------------------------------------------------------------ */

static long library_before, library_nth;

static void arm_library(long nth)
{
    library_before = mem_allocations();
    library_nth = nth;
    mem_fail_at(nth);
}

static int disarm_library(void)
{
    mem_fail_at(0);
    return mem_allocations() - library_before >= library_nth;
}

const oom_source oom_library = {"semel", SEMEL_ENOMEM, arm_library, disarm_library};

/* --- named points ----------------------------------------------------------------------------- */

static long points_left;

static semel_status pass_point(void *context, const char *point)
{
    (void)context;
    (void)point;
    return points_left > 0 && --points_left == 0 ? SEMEL_ESTORE : SEMEL_OK;
}

static void arm_points(long nth)
{
    points_left = nth;
}

static int disarm_points(void)
{
    int struck = points_left == 0;
    points_left = 0;
    return struck;
}

const oom_source oom_points = {"the named points", SEMEL_ESTORE, arm_points, disarm_points};

/* --- SQLite's --------------------------------------------------------------------------------- */

static sqlite3_mem_methods real;
static long sqlite_left; /* until it strikes; 0: not armed */
static int sqlite_struck, sqlite_for_good;

static int denied(void)
{
    if (sqlite_struck)
        return sqlite_for_good && sqlite_left;
    if (!sqlite_left || --sqlite_left)
        return 0;
    sqlite_struck = 1;
    sqlite_left = sqlite_for_good;
    return 1;
}

static void *watched_malloc(int size)
{
    return denied() ? NULL : real.xMalloc(size);
}

static void *watched_realloc(void *memory, int size)
{
    return denied() ? NULL : real.xRealloc(memory, size);
}

void oom_watch_sqlite(void)
{
    sqlite3_mem_methods watched;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real), SQLITE_OK);
    watched = real;
    watched.xMalloc = watched_malloc;
    watched.xRealloc = watched_realloc;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &watched), SQLITE_OK);
}

static void arm_once(long nth)
{
    sqlite_struck = sqlite_for_good = 0;
    sqlite_left = nth;
}

static void arm_for_good(long nth)
{
    arm_once(nth);
    sqlite_for_good = 1;
}

static int disarm_sqlite(void)
{
    int struck = sqlite_struck;
    sqlite_left = sqlite_struck = 0;
    return struck;
}

const oom_source oom_sqlite_once = {"SQLite", SEMEL_ENOMEM, arm_once, disarm_sqlite};
const oom_source oom_sqlite_for_good = {"SQLite, and all after it", SEMEL_ENOMEM, arm_for_good,
                                        disarm_sqlite};

/* --- the sink --------------------------------------------------------------------------------- */

static void keep(char out[OOM_TEXT], const char *text)
{
    (void)snprintf(out, OOM_TEXT, "%s", text ? text : "(none)");
}

static semel_status sink_publish(void *context, semel_publish_result results[],
                                 const semel_message *const messages[], size_t count,
                                 semel_error *err)
{
    oom_sink *sink = context;
    (void)err;
    for (size_t i = 0; i < count && sink->count < OOM_SINK_MAX; i++) {
        semel_bytes header = semel_message_header(messages[i], "trace");
        (void)snprintf(sink->messages[sink->count].body, OOM_TEXT, "%.*s",
                       (int)messages[i]->body.len, (const char *)messages[i]->body.data);
        (void)snprintf(sink->messages[sink->count].header, OOM_TEXT, "%.*s", (int)header.len,
                       header.len ? (const char *)header.data : "");
        keep(sink->messages[sink->count].topic, messages[i]->topic);
        keep(sink->messages[sink->count].group, messages[i]->group);
        sink->count++;
        results[i] = SEMEL_PUBLISH_CONFIRMED;
    }
    return SEMEL_OK;
}

/* --- the surroundings ------------------------------------------------------------------------- */

#define REQUIRE_OK(call)                         \
    do {                                         \
        semel_error why = {0};                   \
        if (call)                                \
            fail_msg("%s: %s", #call, why.text); \
    } while (0)

static semel_status open_store(oom_world *w, semel_error *err)
{
    w->host = *semel_test_seam_get(w->seam);
    w->host.fault = pass_point;
    semel_store_options options = {.size = sizeof options, .seam = &w->host};
    return semel_store_open(&w->store, w->url, &options, err);
}

semel_status oom_open_store(oom_world *w, semel_error *err)
{
    semel_status status = open_store(w, err);
    if (status)
        return status;
    status = semel_store_migrate(w->store, err);
    if (!status)
        return SEMEL_OK;
    semel_store_close(w->store);
    w->store = NULL;
    return status;
}

static void open_rest(oom_world *w, const oom_operation *operation)
{
    semel_inbox_options options = operation->inbox;
    options.size = sizeof options;
    REQUIRE_OK(semel_outbox_open(&w->outbox, w->store, "out", &why));
    REQUIRE_OK(semel_outbox_open(&w->box, w->store, "box", &why));
    REQUIRE_OK(semel_inbox_open(&w->inbox, w->store, "in", &options, &why));
    REQUIRE_OK(stub_transport_open(&w->transport, sink_publish, &w->sink, &why));
}

static void run_sql(oom_world *w, const char *sql)
{
    if (sqlite3_exec(w->eye, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(w->eye));
}

static int64_t read_number(oom_world *w, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    int64_t number = -1;
    if (sqlite3_prepare_v2(w->eye, sql, -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW)
        number = sqlite3_column_int64(stmt, 0);
    else
        fail_msg("%s: %s", sql, sqlite3_errmsg(w->eye));
    sqlite3_finalize(stmt);
    return number;
}

/* The database of all worlds, and a connection that looks on: it stays open, which saves much
 * time. */
static void make_database(oom_world *w)
{
    assert_int_equal(sqlite3_open(w->file, &w->eye), SQLITE_OK);
    if (w->backend == OOM_SQLITE_UTF16)
        run_sql(w, "PRAGMA encoding = 'UTF-16'");
    run_sql(w, "CREATE TABLE effect (key TEXT)");
    REQUIRE_OK(semel_test_seam_open(&w->seam, 1, &why));
    REQUIRE_OK(oom_open_store(w, &why));
    semel_store_close(w->store);
    semel_test_seam_close(w->seam);
    w->store = NULL;
}

static void empty_database(oom_world *w)
{
    run_sql(w, "BEGIN; DELETE FROM semel_marker; DELETE FROM semel_outbox; DELETE FROM semel_dead;"
               "DELETE FROM semel_clock; DELETE FROM semel_scope; DELETE FROM semel_note; DELETE "
               "FROM effect; COMMIT");
}

/* Nothing is done here that would warm up what the operation needs. */
static void fixture_open(oom_world *w, const oom_operation *operation)
{
    REQUIRE_OK(semel_test_seam_open(&w->seam, 1, &why));
    if (operation->bare) {
        scratch_remove(&w->dir, "shop.db");
        return;
    }
    if (w->backend)
        empty_database(w);
    REQUIRE_OK(open_store(w, &why));
    open_rest(w, operation);
    if (operation->prepare)
        operation->prepare(w);
}

static void fixture_close(oom_world *w)
{
    semel_transport_close(w->queue);
    semel_transport_close(w->transport);
    semel_inbox_close(w->inbox);
    semel_outbox_close(w->box);
    semel_outbox_close(w->outbox);
    semel_store_close(w->store);
    semel_test_seam_close(w->seam);
    w->queue = w->transport = NULL;
    w->inbox = NULL;
    w->box = w->outbox = NULL;
    w->store = NULL;
    w->sink.count = 0;
    w->failing = 0;
}

/* --- work ------------------------------------------------------------------------------------- */

semel_message oom_message(const char *id)
{
    static const semel_header headers[] = {{"trace", {"42", 2}}};
    return (semel_message){.size = sizeof(semel_message),
                           .id = semel_str(id),
                           .type = "order.placed",
                           .topic = "orders",
                           .correlation_id = semel_str(id),
                           .headers = headers,
                           .header_count = 1,
                           .body = semel_str(id)};
}

static semel_status write_effect(sqlite3 *db, const char *key, semel_error *err)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "INSERT INTO effect (key) VALUES ('%s')", key);
    int code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        return SEMEL_OK;
    return semel_fail(err, code == SQLITE_NOMEM ? SEMEL_ENOMEM : SEMEL_ESTORE, "no effect: %d",
                      code);
}

semel_status oom_handler(semel_unit *unit, const semel_message *message, void *context,
                         semel_error *err)
{
    oom_world *w = context;
    char key[OOM_TEXT];
    sqlite3 *db = semel_unit_sqlite(unit);
    (void)snprintf(key, sizeof key, "%.*s", (int)message->id.len, (const char *)message->id.data);
    semel_message out = oom_message(key);
    out.id = (semel_bytes){NULL, 0};
    semel_status status = db ? write_effect(db, key, err) : SEMEL_OK;
    if (!status && !w->resultless)
        status = semel_unit_set_result(unit, "result", 6, err);
    if (!status)
        status = semel_unit_send(unit, w->outbox, &out, err);
    if (!status && w->failing)
        status = semel_fail(err, SEMEL_EHANDLER, "it fails, as it should");
    return status;
}

semel_status oom_receive(oom_world *w, const char *id, uint32_t delivery, semel_error *err)
{
    semel_message message = oom_message(id);
    semel_outcome outcome;
    message.delivery = delivery;
    semel_status status = semel_inbox_receive(&outcome, w->inbox, &message, oom_handler, w, err);
    if (!status && !semel_outcome_settled(outcome))
        return semel_fail(err, SEMEL_ESTORE, "OK, and yet not settled");
    return status;
}

/* --- everywhere ------------------------------------------------------------------------------- */

typedef struct strike {
    const oom_operation *operation;
    const oom_source *source;
    long nth;
} strike;

static void complain(const strike *s, const char *what, const char *why)
{
    fail_msg("\"%s\", number %ld of %s failing: %s: %s", s->operation->name, s->nth,
             s->source->name, what, why);
}

static int64_t messages_out(oom_world *w)
{
    semel_counters counters;
    REQUIRE_OK(semel_store_counters(&counters, sizeof counters, w->store, &why));
    return (int64_t)counters.unsent;
}

#define DONE    "(SELECT count(*) FROM semel_marker WHERE state = 0)"
#define EFFECTS "(SELECT count(*) FROM effect)"
#define SENT                                                                          \
    "(SELECT count(*) FROM semel_outbox JOIN semel_scope ON outbox = semel_scope.id " \
    "WHERE semel_scope.name = 'out')"

/* Nothing is half done. On the memory store only the end can be seen. */
static void check_whole(oom_world *w, const strike *s)
{
    if (!w->backend || s->operation->bare || s->operation->apart)
        return;
    int transaction = s->operation->inbox.mode == SEMEL_TRANSACTION;
    if (!read_number(w, transaction ? "SELECT " DONE " = " SENT " AND " DONE " = " EFFECTS
                                    : "SELECT " DONE " = " SENT))
        complain(s, "half done", "markers, effects and messages are not the same number");
}

static void check_end(oom_world *w, const strike *s)
{
    const oom_operation *operation = s->operation;
    if (operation->bare)
        return;
    if (messages_out(w) != operation->effects)
        complain(s, "at the end", "not as many messages as there should be");
    if (w->backend && operation->inbox.mode == SEMEL_TRANSACTION &&
        read_number(w, "SELECT " EFFECTS) != operation->effects)
        complain(s, "at the end", "not as many effects as there should be");
    if (operation->check)
        operation->check(w);
}

static void check_failure(const strike *s, semel_status status, const semel_error *err, int struck)
{
    if (!status)
        return;
    if (!struck)
        complain(s, "it failed without a reason", err->text);
    if (status != s->source->status)
        complain(s, semel_status_name(status), err->text);
    if (err->status != status || !err->text[0])
        complain(s, "the error is not filled", err->text);
}

static int try_once(oom_world *w, const strike *s)
{
    semel_error err = {0};
    fixture_open(w, s->operation);
    s->source->arm(s->nth);
    semel_status status = s->operation->act(w, &err);
    int struck = s->source->disarm();
    check_failure(s, status, &err, struck);
    check_whole(w, s);
    status = s->operation->act(w, &err);
    if (status)
        complain(s, "afterwards, without a fault", err.text);
    check_end(w, s);
    fixture_close(w);
    return struck;
}

void oom_everywhere(const oom_operation *operation, const oom_source *source, oom_backend backend,
                    long stride)
{
    oom_world w = {.backend = backend};
    strike s = {operation, source, 1};
    scratch_open(&w.dir);
    scratch_file(w.file, &w.dir, "shop.db");
    if (backend)
        scratch_sqlite(w.url, &w.dir, "shop.db");
    else
        strcpy(w.url, "memory:");
    if (backend && !operation->bare)
        make_database(&w);
    while (try_once(&w, &s))
        if ((s.nth += stride) > ALLOCATIONS_MAX)
            complain(&s, "there is no end", "");
    sqlite3_close(w.eye);
    scratch_close(&w.dir);
}
