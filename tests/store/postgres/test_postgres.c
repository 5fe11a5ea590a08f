/* PostgreSQL: URLs, opening, schemas. No error shows a password, whether semel, libpq or the server
 * wrote its text. */
#include "support/base/check.h"
#include "support/fixture/scripted_handler.h"
#include "support/process/process.h"
#include "support/servers/proxy.h"
#include "support/servers/server.h"

#include <arpa/inet.h>
#include <semel/semel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUSY_MS = 300, LATE_MS = 30000, PATIENT_MS = 60000 };

static semel_status open_with(const char *url, uint32_t busy_ms)
{
    semel_store *store = NULL;
    semel_store_options options = {.size = sizeof options, .busy_ms = busy_ms};
    semel_status status = semel_store_open(&store, url, &options, &last_error);
    if (status && strstr(last_error.text, "cret"))
        fail_msg("a password in: %s", last_error.text);
    if (!status)
        semel_store_close(store);
    return status;
}

/* --- URLs that are wrong ---------------------------------------------------------------------- */

static void a_url_that_is_wrong_is_refused_and_says_where(void **state)
{
    static const struct {
        const char *url, *says;
    } wrong[] = {{"postgres:orders", "//"},
                 {"postgres://u:s3cret@127.0.0.1/db?colour=red", "\"colour\""},
                 {"postgres://u:s3cret@127.0.0.1/db?schema=Orders", "schema"},
                 {"postgres://u:s3cret@127.0.0.1/db?schema=or ders", "character 3"},
                 {"postgres://u:s3cret@127.0.0.1/db?schema=a\"b", "character 2"},
                 {"postgres://u:s3cret@127.0.0.1/db?schema=1a", "character 1"},
                 {"postgres://u:s3cret@127.0.0.1/db?schema=", "schema"},
                 {"postgres://u:s3cret@127.0.0.1/db?pool=0", "pool"},
                 {"postgres://u:s3cret@127.0.0.1/db?pool=many", "pool"},
                 {"postgres://u:s3cret@127.0.0.1/db?pool=1000000", "pool"},
                 {"postgres://u:s3cret@127.0.0.1/db?isolation=chaos", "isolation"},
                 {"postgres://u:s3cret@127.0.0.1/db?notify=perhaps", "notify"},
                 {"postgres://u:s3cret@127.0.0.1/db?pool=2&pool=3", "twice"},
                 {"postgres://u:s3cret%zz@127.0.0.1/db", "escape"},
                 {"postgres://u:s3cret@[::1/db", "URL"},
                 {"postgres://u:s3?cret=1@127.0.0.1:1/db", "%3F"},
                 {"postgres://u:s3?cret@127.0.0.1:1/db", "%3F"},
                 {"postgres://u:s3?cret=1&cret=2@127.0.0.1:1/db", "%3F"}};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        FAILS(SEMEL_EINVAL, open_with(wrong[i].url, PATIENT_MS));
        SAYS(wrong[i].says);
    }
}

static void a_long_schema_name_is_refused(void **state)
{
    char url[256];
    (void)state;
    (void)snprintf(url, sizeof url, "postgres://u@127.0.0.1/db?schema=%064d", 0);
    memset(strstr(url, "schema=") + 7, 'a', 64);
    FAILS(SEMEL_EINVAL, open_with(url, PATIENT_MS));
    SAYS("schema");
}

/* What libpq itself complains about. */
static void a_password_is_in_no_error_of_libpqs(void **state)
{
    static const char *const urls[] = {
        "postgres://u:s3cret@127.0.0.1:99999/db",
        "postgres://u:s3cret@127.0.0.1:port/db",
        "postgres://u:s3cret@no.such.host.invalid/db",
        "postgres://u@no.such.host.invalid/db?password=s3cret",
        "postgres://u:s3cret@127.0.0.1:1/db?sslmode=sometimes",
        "postgres://u:s3cret@127.0.0.1:1/db?sslmode=verify-full&sslrootcert=/nowhere",
        "postgres://u:s3cret@127.0.0.1:1/db?connect_timeout=soon",
        "postgres://u:s3cret@127.0.0.1:1/db?target_session_attrs=any",
        "postgres:///db?host=/nowhere&user=u&password=s3cret",
        "postgres://u:s3cret@127.0.0.1:1,127.0.0.1:2/db"};
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        check_forget();
        semel_status status = open_with(urls[i], BUSY_MS);
        assert_true(status == SEMEL_EUNAVAILABLE || status == SEMEL_EINVAL);
        assert_true(strlen(last_error.text) > 20);
    }
}

/* The first of them may be away, and a port that is not given is the usual one. */
static void hosts_and_ports_may_be_lists(void **state)
{
    static const char *const forms[] = {
        "postgres://postgres@127.0.0.1:1,127.0.0.1:%u/postgres",
        "postgres://postgres@[::1]:1,127.0.0.1:%u/postgres",
        "postgres://postgres@/postgres?host=127.0.0.1,127.0.0.1&port=1,%u",
        "postgres://postgres@127.0.0.1/postgres?port=%u",
        "postgres://postgres@%%31%%32%%37.0.0.1:%u/postgres"};
    server_place at;
    char url[SERVER_URL_ROOM];
    (void)state;
    server_find(&at, SERVER_POSTGRES);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        (void)snprintf(url, sizeof url, forms[i], at.port);
        OK(open_with(url, PATIENT_MS));
    }
    FAILS(SEMEL_EUNAVAILABLE,
          open_with("postgres:///db?host=/nowhere,/no%40where,%40abstract&port=,1,", BUSY_MS));
}

/* --- servers that are down or refuse the login ------------------------------------------------ */

static void a_server_that_is_down_is_waited_for_so_long_and_no_longer(void **state)
{
    int64_t began = process_now_ms();
    (void)state;
    FAILS(SEMEL_EUNAVAILABLE, open_with("postgres://u:s3cret@127.0.0.1:1/db", BUSY_MS));
    assert_in_range(process_now_ms() - began, BUSY_MS - 1, BUSY_MS + LATE_MS);
    assert_true(last_error.retryable);
}

static void a_server_that_says_nothing_is_waited_for_so_long_and_no_longer(void **state)
{
    char url[128];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)state;
    assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    (void)snprintf(url, sizeof url, "postgres://u:s3cret@127.0.0.1:%u/db", ntohs(at.sin_port));
    int64_t began = process_now_ms();
    FAILS(SEMEL_EUNAVAILABLE, open_with(url, BUSY_MS));
    assert_in_range(process_now_ms() - began, BUSY_MS - 1, BUSY_MS + LATE_MS);
    close(fd);
}

/* With a password that only this user needs. */
static void make_secret_user(const server_own *own)
{
    char path[SCRATCH_PATH + 64];
    (void)snprintf(path, sizeof path, "%s/data/pg_hba.conf", own->at.directory);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    (void)fputs("host all ada 127.0.0.1/32 scram-sha-256\n"
                "host all all 127.0.0.1/32 trust\nlocal all all trust\n",
                file);
    assert_int_equal(fclose(file), 0);
    server_run(own->at.url, "CREATE ROLE ada LOGIN PASSWORD 's3cret/@?&=%';"
                            "GRANT CREATE ON DATABASE postgres TO ada");
    server_run(own->at.url, "SELECT pg_reload_conf()");
}

/* At once, whatever busy_ms is. */
static void is_final(const char *url, const char *sqlstate)
{
    int64_t began = process_now_ms();
    FAILS(SEMEL_EINVAL, open_with(url, PATIENT_MS));
    assert_true(process_now_ms() - began < PATIENT_MS / 2);
    assert_string_equal(last_error.sqlstate, sqlstate);
    assert_false(last_error.retryable);
}

static void await_password(const char *url)
{
    int64_t deadline = process_now_ms() + PATIENT_MS; /* a reload takes effect soon */
    while (open_with(url, PATIENT_MS) == SEMEL_OK && process_now_ms() < deadline)
        process_nap();
}

static void a_password_comes_from_the_url_or_from_its_file(void **state)
{
    server_own own;
    char url[256], path[SCRATCH_PATH];
    unsigned port;
    (void)state;
    server_own_start(&own, SERVER_POSTGRES);
    port = own.at.port;
    make_secret_user(&own);
    (void)snprintf(url, sizeof url, "postgres://ada:wrong-s3cret@127.0.0.1:%u/postgres", port);
    await_password(url);
    is_final(url, "28P01");
    SAYS("PGPASSFILE");
    (void)snprintf(url, sizeof url, "postgres://ada@127.0.0.1:%u/postgres", port);
    is_final(url, "");
    SAYS("PGPASSFILE");
    (void)snprintf(url, sizeof url,
                   "postgres://ada:s3cret%%2F%%40%%3F%%26%%3D%%25@127.0.0.1:%u/postgres", port);
    OK(open_with(url, PATIENT_MS));
    (void)snprintf(url, sizeof url,
                   "postgres://ada@127.0.0.1:%u/postgres?password=s3cret%%2F%%40%%3F%%26%%3D%%25",
                   port);
    OK(open_with(url, PATIENT_MS));
    scratch_file(path, &own.directory, "passwords");
    FILE *file = fopen(path, "we");
    (void)fprintf(file, "127.0.0.1:%u:postgres:ada:s3cret/@?&=%%\n", port);
    (void)fclose(file);
    assert_int_equal(chmod(path, 0600), 0);
    (void)setenv("PGPASSFILE", path, 1);
    (void)snprintf(url, sizeof url, "postgres://ada@127.0.0.1:%u/postgres", port);
    OK(open_with(url, PATIENT_MS));
    (void)unsetenv("PGPASSFILE");
    server_own_stop(&own);
}

static void a_wrong_database_or_user_is_final(void **state)
{
    server_place shared;
    char url[SERVER_URL_ROOM];
    (void)state;
    server_find(&shared, SERVER_POSTGRES);
    (void)snprintf(url, sizeof url, "postgres://postgres:s3cret@127.0.0.1:%u/nowhere", shared.port);
    is_final(url, "3D000");
    (void)snprintf(url, sizeof url, "postgres://stranger:s3cret@127.0.0.1:%u/postgres",
                   shared.port);
    is_final(url, "28000");
}

static void a_socket_is_a_host(void **state)
{
    server_place shared;
    char url[SERVER_URL_ROOM], directory[SCRATCH_PATH];
    (void)state;
    server_find(&shared, SERVER_POSTGRES);
    (void)snprintf(url, sizeof url, "postgres:///postgres?user=postgres&port=%u&host=%s",
                   shared.port, shared.socket);
    OK(open_with(url, PATIENT_MS));
    size_t used = 0;
    for (const char *at = shared.socket; *at && used + 4 < sizeof directory; at++)
        used += (size_t)snprintf(directory + used, sizeof directory - used,
                                 *at == '/' ? "%%2F" : "%c", *at);
    (void)snprintf(url, sizeof url, "postgres://postgres@%s:%u/postgres", directory, shared.port);
    OK(open_with(url, PATIENT_MS));
    (void)snprintf(url, sizeof url, "postgres://postgres@127.0.0.1:1,127.0.0.1:%u/postgres",
                   shared.port);
    OK(open_with(url, PATIENT_MS)); /* the second of two hosts */
}

/* --- the schema ------------------------------------------------------------------------------- */

static int setup(void **state)
{
    char *url = calloc(1, SERVER_URL_ROOM);
    server_fresh_postgres(url);
    *state = url;
    return 0;
}

static int teardown(void **state)
{
    server_drop(*state);
    free(*state);
    return 0;
}

/* A process that migrates has all the time that it needs. */
static const semel_store_options patient = {.size = sizeof patient, .busy_ms = PATIENT_MS};

static semel_status open_inbox(const char *url)
{
    semel_store *store = NULL;
    semel_inbox *inbox = NULL;
    OK(semel_store_open(&store, url, &patient, &last_error));
    check_forget();
    semel_status status = semel_inbox_open(&inbox, store, "orders", NULL, &last_error);
    semel_inbox_close(inbox);
    semel_store_close(store);
    return status;
}

static semel_status migrate(const char *url, semel_error *err)
{
    semel_store *store = NULL;
    semel_status status = semel_store_open(&store, url, &patient, err);
    if (!status)
        status = semel_store_migrate(store, err);
    semel_store_close(store);
    return status;
}

static void make_schema(const char *url)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "CREATE SCHEMA %s", strstr(url, "schema=") + 7);
    server_run(url, sql);
}

static void tables_that_are_missing_newer_or_not_ours_are_refused(void **state)
{
    const char *url = *state;
    FAILS(SEMEL_ESCHEMA, open_inbox(url));
    SAYS("semel_store_migrate");
    make_schema(url);
    server_run(url, "CREATE TABLE semel_schema (colour text)");
    FAILS(SEMEL_ESCHEMA, open_inbox(url));
    SAYS("not semel's");
    FAILS(SEMEL_ESCHEMA, migrate(url, &last_error));
    SAYS("not semel's");
    server_run(url, "DROP TABLE semel_schema");
    OK(migrate(url, &last_error));
    OK(open_inbox(url));
    server_run(url, "INSERT INTO semel_schema (version, name, applied_ms) VALUES (9999, 'x', 0)");
    FAILS(SEMEL_ESCHEMA, open_inbox(url));
    SAYS("9999");
    FAILS(SEMEL_ESCHEMA, migrate(url, &last_error));
    SAYS("upgrade");
}

static int migrate_in_child(void *url)
{
    semel_error err = {0};
    PROCESS_REQUIRE_OK(migrate(url, &err), &err);
    return PROCESS_OK;
}

static void several_processes_migrate_at_once(void **state)
{
    enum { CHILDREN = 8 };
    pid_t children[CHILDREN];
    for (int i = 0; i < CHILDREN; i++)
        children[i] = process_start(migrate_in_child, *state);
    for (int i = 0; i < CHILDREN; i++)
        assert_int_equal(process_wait(children[i], PATIENT_MS), PROCESS_OK);
    OK(open_inbox(*state));
    assert_int_equal(server_number(*state, "SELECT count(*) FROM semel_meta"), 1);
    assert_int_equal(server_number(*state, "SELECT count(*) - max(version) FROM semel_schema"), 0);
}

/* A user who may not create is told what is missing, and may use what another user has created. */
static void privileges_are_asked_for_by_name(void **state)
{
    const char *url = *state, *schema = strstr(url, "schema=") + 7;
    char sql[512], other[SERVER_URL_ROOM];
    (void)snprintf(sql, sizeof sql, "CREATE ROLE %s LOGIN", schema);
    server_run(url, sql);
    (void)snprintf(other, sizeof other, "postgres://%s@%s", schema, strchr(url, '@') + 1);
    FAILS(SEMEL_ESTORE, migrate(other, &last_error));
    assert_string_equal(last_error.sqlstate, "42501");
    SAYS("grant");
    OK(migrate(url, &last_error));
    (void)snprintf(sql, sizeof sql,
                   "GRANT USAGE ON SCHEMA %s TO %s; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL "
                   "TABLES IN SCHEMA %s TO %s",
                   schema, schema, schema, schema);
    server_run(url, sql);
    OK(open_inbox(other));
    (void)snprintf(sql, sizeof sql, "DROP OWNED BY %s; DROP ROLE %s", schema, schema);
    server_run(url, sql);
}

/* Names are qualified: neither the search path nor another schema's tables are in the way. */
static void schemas_stand_side_by_side(void **state)
{
    char other[SERVER_URL_ROOM], lost[SERVER_URL_ROOM];
    server_fresh_postgres(other);
    OK(migrate(*state, &last_error));
    FAILS(SEMEL_ESCHEMA, open_inbox(other));
    OK(migrate(other, &last_error));
    OK(open_inbox(other));
    (void)snprintf(lost, sizeof lost, "%.400s&options=-csearch_path%%3Dpg_catalog",
                   (const char *)*state);
    OK(open_inbox(lost));
    assert_int_equal(server_number(other, "SELECT count(*) FROM semel_scope"), 1);
    server_drop(other);
    OK(open_inbox(*state));
}

static void what_a_commit_is_worth_is_the_servers_setting(void **state)
{
    char url[SERVER_URL_ROOM];
    semel_store *store = NULL;
    OK(semel_store_open(&store, *state, NULL, &last_error));
    assert_int_equal(semel_store_durability(store), SEMEL_DURABLE_POWER);
    semel_store_close(store);
    (void)snprintf(url, sizeof url, "%.400s&options=-csynchronous_commit%%3Doff",
                   (const char *)*state);
    OK(semel_store_open(&store, url, NULL, &last_error));
    assert_int_equal(semel_store_durability(store), SEMEL_DURABLE_PROCESS);
    semel_store_close(store);
}

#define WITH_URL(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_that_is_wrong_is_refused_and_says_where),
        cmocka_unit_test(a_long_schema_name_is_refused),
        cmocka_unit_test(a_password_is_in_no_error_of_libpqs),
        cmocka_unit_test(hosts_and_ports_may_be_lists),
        cmocka_unit_test(a_server_that_is_down_is_waited_for_so_long_and_no_longer),
        cmocka_unit_test(a_server_that_says_nothing_is_waited_for_so_long_and_no_longer),
        cmocka_unit_test(a_password_comes_from_the_url_or_from_its_file),
        cmocka_unit_test(a_wrong_database_or_user_is_final),
        cmocka_unit_test(a_socket_is_a_host),
        WITH_URL(tables_that_are_missing_newer_or_not_ours_are_refused),
        WITH_URL(several_processes_migrate_at_once),
        WITH_URL(privileges_are_asked_for_by_name),
        WITH_URL(schemas_stand_side_by_side),
        WITH_URL(what_a_commit_is_worth_is_the_servers_setting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
