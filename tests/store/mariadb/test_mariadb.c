/* MariaDB: URLs, opening, prefixes, tables. No error shows a password, whether semel, the client
 * library or the server wrote its text. */
#include "support/base/check.h"
#include "support/fixture/scripted_handler.h"
#include "support/process/process.h"
#include "support/servers/server.h"

#include "base/hash.h"
#include "store/mariadb/address.h"

#include <arpa/inet.h>
#include <mysql.h>
#include <semel/semel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUSY_MS = 300, LATE_MS = 60000, PATIENT_MS = 60000 };

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

/* --- URLs ------------------------------------------------------------------------------------- */

static void a_url_that_is_wrong_is_refused_and_says_where(void **state)
{
    static const struct {
        const char *url, *says;
    } wrong[] = {{"mariadb:orders", "//"},
                 {"mysql:orders", "mysql://"},
                 {"mariadb://u:s3cret@127.0.0.1", "database"},
                 {"mariadb://u:s3cret@127.0.0.1/", "database"},
                 {"mariadb://u:s3cret@127.0.0.1/a/b", "database"},
                 {"mariadb://u:s3cret@127.0.0.1/a`b", "`"},
                 {"mariadb://u:s3cret@127.0.0.1/a%3Fb", "?"},
                 {"mariadb://u:s3cret@127.0.0.1:0/db", "port"},
                 {"mariadb://u:s3cret@127.0.0.1:65536/db", "port"},
                 {"mariadb://u:s3cret@127.0.0.1:33o6/db", "port"},
                 {"mariadb://u:s3cret@127.0.0.1:/db", "port"},
                 {"mariadb://u:s3cret@[::1/db", "IPv6"},
                 {"mariadb://u:s3cret@[::1]x/db", "IPv6"},
                 {"mariadb://u:s3cret%zz@127.0.0.1/db", "password"},
                 {"mariadb://u:s3cret%4@127.0.0.1/db", "password"},
                 {"mariadb://u:s3cret%00@127.0.0.1/db", "password"},
                 {"mariadb://u%:s3cret@127.0.0.1/db", "user"},
                 {"mariadb://u:s3cret@127.0.0.1/db?colour=red", "\"colour\""},
                 {"mariadb://u:s3cret@127.0.0.1/db?prefix=Orders", "prefix"},
                 {"mariadb://u:s3cret@127.0.0.1/db?prefix=a`b", "character 2"},
                 {"mariadb://u:s3cret@127.0.0.1/db?prefix=1a", "character 1"},
                 {"mariadb://u:s3cret@127.0.0.1/db?prefix=", "prefix"},
                 {"mariadb://u:s3cret@127.0.0.1/db?pool=0", "pool"},
                 {"mariadb://u:s3cret@127.0.0.1/db?pool=many", "pool"},
                 {"mariadb://u:s3cret@127.0.0.1/db?isolation=chaos", "isolation"},
                 {"mariadb://u:s3cret@127.0.0.1/db?tls=perhaps", "tls"},
                 {"mariadb://u:s3cret@127.0.0.1/db?connect_timeout=soon", "connect_timeout"},
                 {"mariadb://u:s3cret@127.0.0.1/db?pool=2&pool=3", "twice"},
                 {"mariadb://u:s3?cret=1@127.0.0.1/db", "%3F"},
                 {"mariadb://u:s3?a=1&a=cret@127.0.0.1/db", "%3F"},
                 {"mariadb://u:s3/?cret=1@127.0.0.1/db", "%3F"}};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        FAILS(SEMEL_EINVAL, open_with(wrong[i].url, PATIENT_MS));
        SAYS(wrong[i].says);
    }
}

static void all_parts_of_a_url_are_read(void **state)
{
    maria_address at = {0};
    mem_arena arena = {0};
    (void)state;
    OK(maria_address_read(
        &at, &arena,
        "mysql://a%64a:s3cret%2F%40%3F%26@[2001:db8::1]:3307/or%20ders?prefix=shop_"
        "&pool=3&isolation=serializable&options=shop&connect_timeout=4"
        "&read_timeout=5&write_timeout=6&tls_ca=%2Fca.pem&tls_cert=/c&tls_key=/k",
        &last_error));
    assert_string_equal(at.user, "ada");
    assert_string_equal(at.password, "s3cret/@?&");
    assert_string_equal(at.host, "2001:db8::1");
    assert_int_equal(at.port, 3307);
    assert_string_equal(at.database, "or ders");
    assert_string_equal(at.prefix, "shop_");
    assert_int_equal(at.pool, 3);
    assert_int_equal(at.level, ISOLATION_SERIALIZABLE);
    assert_string_equal(at.options, "shop");
    assert_int_equal(at.connect_s, 4);
    assert_int_equal(at.read_s, 5);
    assert_int_equal(at.write_s, 6);
    assert_int_equal(at.tls, TLS_VERIFY); /* since there is something to verify by */
    assert_string_equal(at.tls_ca, "/ca.pem");
    arena_free(&arena);
}

static void what_a_url_does_not_say_has_a_default(void **state)
{
    maria_address at = {0};
    mem_arena arena = {0};
    (void)state;
    OK(maria_address_read(&at, &arena, "mariadb:///db", &last_error));
    assert_null(at.user);
    assert_null(at.password);
    assert_null(at.host);
    assert_int_equal(at.port, 0);
    assert_string_equal(at.prefix, "semel_");
    assert_int_equal(at.pool, 8);
    assert_int_equal(at.level, ISOLATION_USUAL);
    assert_int_equal(at.tls, TLS_OFF);
    OK(maria_address_read(&at, &arena, "mariadb://a:b:c%40d@host/db?tls=on", &last_error));
    assert_string_equal(at.password, "b:c@d"); /* the first colon begins it */
    assert_string_equal(at.host, "host");
    assert_int_equal(at.tls, TLS_ON);
    arena_free(&arena);
}

/* --- servers that are down or refuse the login ------------------------------------------------ */

static void a_server_that_is_down_is_waited_for_so_long_and_no_longer(void **state)
{
    static const char *const urls[] = {"mariadb://u:s3cret@127.0.0.1:1/db",
                                       "mariadb://u:s3cret@no.such.host.invalid/db",
                                       "mariadb://u:s3cret@/db?socket=/nowhere"};
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        int64_t began = process_now_ms();
        FAILS(SEMEL_EUNAVAILABLE, open_with(urls[i], BUSY_MS));
        assert_in_range(process_now_ms() - began, BUSY_MS - 1, BUSY_MS + LATE_MS);
        assert_true(last_error.retryable);
    }
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
    (void)snprintf(url, sizeof url, "mariadb://u:s3cret@127.0.0.1:%u/db", ntohs(at.sin_port));
    int64_t began = process_now_ms();
    FAILS(SEMEL_EUNAVAILABLE, open_with(url, BUSY_MS));
    assert_in_range(process_now_ms() - began, BUSY_MS - 1, BUSY_MS + LATE_MS);
    close(fd);
}

/* At once, whatever busy_ms is. */
static void is_final(const char *url, int number, const char *says)
{
    int64_t began = process_now_ms();
    FAILS(SEMEL_EINVAL, open_with(url, PATIENT_MS));
    assert_true(process_now_ms() - began < PATIENT_MS / 2);
    assert_int_equal(last_error.native, number);
    assert_int_equal(strlen(last_error.sqlstate), 5);
    assert_false(last_error.retryable);
    SAYS(says);
}

/* A user with a password that needs escapes, which may use the shared database only. */
static void make_user(const server_place *at)
{
    server_run(at->url, "CREATE OR REPLACE USER ada@'127.0.0.1' IDENTIFIED BY 's3cret/@?&=%';"
                        "GRANT SELECT ON semel.* TO ada@'127.0.0.1'");
}

#define PASSWORD "s3cret%%2F%%40%%3F%%26%%3D%%25"

static void a_refused_login_is_told_why(void **state)
{
    server_place at;
    char url[SERVER_URL_ROOM];
    (void)state;
    server_find(&at, SERVER_MARIADB);
    make_user(&at);
    (void)snprintf(url, sizeof url, "mariadb://ada:wrong-s3cret@127.0.0.1:%u/semel", at.port);
    is_final(url, 1045, "password");
    (void)snprintf(url, sizeof url, "mariadb://ada@127.0.0.1:%u/semel", at.port);
    is_final(url, 1045, "password");
    (void)snprintf(url, sizeof url, "mariadb://stranger:s3cret@127.0.0.1:%u/semel", at.port);
    is_final(url, 1045, "user");
    (void)snprintf(url, sizeof url, "mariadb://root:@127.0.0.1:%u/nowhere", at.port);
    is_final(url, 1049, "CREATE DATABASE");
    (void)snprintf(url, sizeof url, "mariadb://ada:" PASSWORD "@127.0.0.1:%u/mysql", at.port);
    is_final(url, 1044, "GRANT");
    (void)snprintf(url, sizeof url, "mysql://ada:" PASSWORD "@127.0.0.1:%u/semel", at.port);
    OK(open_with(url, PATIENT_MS));
    (void)snprintf(url, sizeof url, "mariadb://ada:" PASSWORD "@127.0.0.1:%u/semel?tls=on",
                   at.port);
    FAILS(SEMEL_EINVAL, open_with(url, PATIENT_MS)); /* that server has no certificate */
    SAYS("tls");
    server_run(at.url, "DROP USER ada@'127.0.0.1'");
}

static void a_socket_and_an_option_file_are_ways_in(void **state)
{
    server_place at;
    scratch directory;
    char url[SERVER_URL_ROOM], path[SCRATCH_PATH];
    (void)state;
    server_find(&at, SERVER_MARIADB);
    (void)snprintf(url, sizeof url, "mariadb://root@/semel?socket=%.200s", at.socket);
    OK(open_with(url, PATIENT_MS));
    scratch_open(&directory);
    scratch_file(path, &directory, ".my.cnf");
    FILE *file = fopen(path, "we");
    (void)fprintf(file, "[shop]\nuser=root\nhost=127.0.0.1\nport=%u\n", at.port);
    (void)fclose(file);
    const char *home = getenv("HOME");
    char before[SCRATCH_PATH];
    (void)snprintf(before, sizeof before, "%s", home ? home : "");
    *strrchr(path, '/') = 0;
    (void)setenv("HOME", path, 1);
    OK(open_with("mariadb:///semel?options=shop", PATIENT_MS));
    (void)setenv("HOME", before, 1);
    scratch_close(&directory);
}

/* --- tables ----------------------------------------------------------------------------------- */

static int setup(void **state)
{
    char *url = calloc(1, SERVER_URL_ROOM);
    server_fresh_mariadb(url);
    *state = url;
    return 0;
}

static int teardown(void **state)
{
    server_drop(*state);
    free(*state);
    return 0;
}

static semel_status open_inbox(const char *url)
{
    semel_store *store = NULL;
    semel_inbox *inbox = NULL;
    semel_store_options options = {.size = sizeof options, .busy_ms = PATIENT_MS};
    OK(semel_store_open(&store, url, &options, &last_error));
    check_forget();
    semel_status status = semel_inbox_open(&inbox, store, "orders", NULL, &last_error);
    semel_inbox_close(inbox);
    semel_store_close(store);
    return status;
}

static semel_status migrate(const char *url, const semel_seam *seam, semel_error *err)
{
    semel_store *store = NULL;
    semel_store_options options = {.size = sizeof options, .busy_ms = PATIENT_MS, .seam = seam};
    semel_status status = semel_store_open(&store, url, &options, err);
    if (!status)
        status = semel_store_migrate(store, err);
    semel_store_close(store);
    return status;
}

static void tables_that_are_missing_newer_or_not_ours_are_refused(void **state)
{
    const char *url = *state;
    FAILS(SEMEL_ESCHEMA, open_inbox(url));
    SAYS("semel_store_migrate");
    server_run(url, "CREATE TABLE semel_schema (colour int)");
    FAILS(SEMEL_ESCHEMA, open_inbox(url));
    SAYS("not semel's");
    FAILS(SEMEL_ESCHEMA, migrate(url, NULL, &last_error));
    SAYS("not semel's");
    server_run(url, "DROP TABLE semel_schema; CREATE TABLE semel_marker (colour int)");
    FAILS(SEMEL_ESCHEMA, migrate(url, NULL, &last_error));
    SAYS("did not make");
    server_run(url, "DROP TABLE semel_marker");
    OK(migrate(url, NULL, &last_error));
    OK(open_inbox(url));
    server_run(url, "INSERT INTO semel_schema (version, name, applied_ms) VALUES (9999, 'x', 0)");
    FAILS(SEMEL_ESCHEMA, open_inbox(url));
    SAYS("9999");
    FAILS(SEMEL_ESCHEMA, migrate(url, NULL, &last_error));
    SAYS("upgrade");
}

/* MariaDB commits after each table: half of a step may be there. */
static void half_a_migration_is_gone_on_with(void **state)
{
    const char *url = *state;
    OK(migrate(url, NULL, &last_error));
    server_run(url, "DELETE FROM semel_schema; DROP TABLE semel_dead, semel_outbox");
    int64_t identity = server_number(url, "SELECT crc32(identity) FROM semel_meta");
    FAILS(SEMEL_ESCHEMA, open_inbox(url));
    OK(migrate(url, NULL, &last_error));
    OK(open_inbox(url));
    assert_int_equal(server_number(url, "SELECT crc32(identity) FROM semel_meta"), identity);
    assert_int_equal(server_number(url, "SELECT count(*) FROM semel_outbox"), 0);
}

/* The second step changes a table that is there: as it is after each of its statements. */
static void half_of_the_second_migration_is_gone_on_with(void **state)
{
    static const char *const halves[] = {
        "DO 0", "DROP TABLE semel_group",
        "DROP TABLE semel_group; ALTER TABLE semel_outbox ADD KEY turn (outbox)",
        "DROP TABLE semel_group; ALTER TABLE semel_outbox ADD KEY turn (outbox), DROP KEY lane"};
    const char *url = *state;
    OK(migrate(url, NULL, &last_error));
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        server_run(url, "DELETE FROM semel_schema WHERE version > 1");
        server_run(url, halves[i]);
        FAILS(SEMEL_ESCHEMA, open_inbox(url));
        OK(migrate(url, NULL, &last_error));
        OK(open_inbox(url));
        assert_int_equal(server_number(url, "SELECT count(*) FROM semel_group"), 0);
        assert_int_equal(server_number(url, "SELECT count(DISTINCT index_name) FROM "
                                            "information_schema.statistics WHERE table_name = "
                                            "'semel_outbox' AND table_schema = DATABASE()"),
                         2);
    }
}

static int migrate_in_child(void *url)
{
    semel_error err = {0};
    PROCESS_REQUIRE_OK(migrate(url, NULL, &err), &err);
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

/* By a lock of the server's, which is dropped if its owner dies. */
static void a_migration_is_waited_for_so_long_and_no_longer(void **state)
{
    const char *url = *state;
    char name[128], sql[256];
    semel_store *store = NULL;
    semel_store_options options = {.size = sizeof options, .busy_ms = 2500};
    MYSQL *other = mysql_init(NULL);
    server_place at;
    server_find(&at, SERVER_MARIADB);
    assert_non_null(mysql_real_connect(other, at.host, "root", NULL, "semel", at.port, NULL, 0));
    (void)snprintf(name, sizeof name, "%s`.`semel_", strrchr(url, '/') + 1);
    (void)snprintf(sql, sizeof sql, "DO GET_LOCK('semel:%016llx:migrate', 0)",
                   (unsigned long long)hash_bytes((hash_key){3, 5}, name, strlen(name)));
    assert_int_equal(mysql_query(other, sql), 0);
    for (int64_t end = process_now_ms() + PATIENT_MS; !store && process_now_ms() < end;)
        (void)semel_store_open(&store, url, &options, &last_error); /* connecting may take longer */
    FAILS(SEMEL_EBUSY, semel_store_migrate(store, &last_error));
    SAYS("migrating");
    assert_int_equal(mysql_query(other, "DO RELEASE_ALL_LOCKS()"), 0);
    mysql_close(other);
    OK(semel_store_migrate(store, &last_error));
    semel_store_close(store);
}

/* Two applications in one database. */
static void prefixes_keep_stores_apart(void **state)
{
    const char *url = *state;
    char other[SERVER_URL_ROOM];
    semel_store *stores[2];
    semel_inbox *inboxes[2];
    semel_outcome out;
    semel_message message = text_message("m", "10 EUR");
    scripted_handler done = {0};
    (void)snprintf(other, sizeof other, "%.400s?prefix=semel_b_", url);
    for (int i = 0; i < 2; i++) {
        OK(semel_store_open(&stores[i], i ? url : other, NULL, &last_error)); /* the longer first */
        OK(semel_store_migrate(stores[i], &last_error));
        OK(semel_inbox_open(&inboxes[i], stores[i], "orders", NULL, &last_error));
        OK(semel_inbox_receive(&out, inboxes[i], &message, scripted_handler_run, &done,
                               &last_error));
        assert_int_equal(out, SEMEL_PROCESSED);
    }
    assert_int_equal(server_number(url, "SELECT count(*) FROM semel_b_marker"), 1);
    for (int i = 0; i < 2; i++) {
        semel_inbox_close(inboxes[i]);
        semel_store_close(stores[i]);
    }
}

/* Any name that MariaDB takes, quoted: no part of it is read as SQL. */
static void a_database_may_have_an_unusual_name(void **state)
{
    server_place at;
    char url[SERVER_URL_ROOM];
    (void)state;
    server_find(&at, SERVER_MARIADB);
    server_run(at.url,
               "DROP DATABASE IF EXISTS `se mel-'\"; drop`; CREATE DATABASE `se mel-'\"; drop`");
    (void)snprintf(url, sizeof url, "mariadb://root@127.0.0.1:%u/se%%20mel-'%%22;%%20drop",
                   at.port);
    OK(migrate(url, NULL, &last_error));
    OK(open_inbox(url));
    server_run(at.url, "DROP DATABASE `se mel-'\"; drop`");
}

static void privileges_are_asked_for_by_name(void **state)
{
    const char *url = *state, *name = strrchr(url, '/') + 1;
    char sql[512], other[SERVER_URL_ROOM];
    (void)snprintf(sql, sizeof sql, "CREATE USER %s; GRANT SELECT ON %s.* TO %s", name, name, name);
    server_run(url, sql);
    (void)snprintf(other, sizeof other, "mariadb://%s@%.300s", name, strchr(url, '@') + 1);
    FAILS(SEMEL_ESTORE, migrate(other, NULL, &last_error));
    assert_int_equal(last_error.native, 1142);
    SAYS("GRANT");
    OK(migrate(url, NULL, &last_error));
    (void)snprintf(sql, sizeof sql, "GRANT SELECT, INSERT, UPDATE, DELETE ON %s.* TO %s", name,
                   name);
    server_run(url, sql);
    OK(open_inbox(other));
    (void)snprintf(sql, sizeof sql, "DROP USER %s", name);
    server_run(url, sql);
}

/* What a commit is worth is the server's to decide. Its clock is read as UTC: the hour that
 * daylight saving repeats must not come twice for leases. */
static void the_servers_settings_are_respected(void **state)
{
    server_own own;
    semel_store *store = NULL;
    int64_t now = 0;
    (void)state;
    server_own_start(&own, SERVER_MARIADB);
    OK(semel_store_open(&store, own.at.url, NULL, &last_error));
    assert_int_equal(semel_store_durability(store), SEMEL_DURABLE_POWER);
    semel_store_close(store);
    server_run(own.at.url,
               "SET GLOBAL innodb_flush_log_at_trx_commit = 2, GLOBAL time_zone = '+05:30'");
    OK(semel_store_open(&store, own.at.url, NULL, &last_error));
    assert_int_equal(semel_store_durability(store), SEMEL_DURABLE_PROCESS);
    OK(semel_store_now(&now, store, &last_error));
    int64_t wall = server_number(own.at.url, "SELECT floor(unix_timestamp(sysdate(3)) * 1000)");
    assert_in_range(wall - now, 0, LATE_MS);
    semel_store_close(store);
    server_own_stop(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_that_is_wrong_is_refused_and_says_where),
        cmocka_unit_test(all_parts_of_a_url_are_read),
        cmocka_unit_test(what_a_url_does_not_say_has_a_default),
        cmocka_unit_test(a_server_that_is_down_is_waited_for_so_long_and_no_longer),
        cmocka_unit_test(a_server_that_says_nothing_is_waited_for_so_long_and_no_longer),
        cmocka_unit_test(a_refused_login_is_told_why),
        cmocka_unit_test(a_socket_and_an_option_file_are_ways_in),
        cmocka_unit_test_setup_teardown(tables_that_are_missing_newer_or_not_ours_are_refused,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(half_a_migration_is_gone_on_with, setup, teardown),
        cmocka_unit_test_setup_teardown(half_of_the_second_migration_is_gone_on_with, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(several_processes_migrate_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_migration_is_waited_for_so_long_and_no_longer, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(prefixes_keep_stores_apart, setup, teardown),
        cmocka_unit_test(a_database_may_have_an_unusual_name),
        cmocka_unit_test_setup_teardown(privileges_are_asked_for_by_name, setup, teardown),
        cmocka_unit_test(the_servers_settings_are_respected),
    };
    return cmocka_run_group_tests_name("mariadb", tests, NULL, NULL);
}
