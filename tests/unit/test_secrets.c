/* No error shows a password, wherever in a URL it stands: not if an escape was forgotten in it, so
 * that a part of it looks like a host, a port, a database or a parameter, and not if a client
 * library or a server repeats it. A URL that is wrong is refused for good, before any host is
 * contacted. */
#include "support/base/check.h"
#include "support/base/sanitizer.h"
#include "support/process/process.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { URL_ROOM = 512, BUSY_MS = 300, LATE_MS = 60000 };

#define SECRET "hunter2"

/* Those that are built in. */
static const char *const store_schemes[] = {
#ifdef SEMEL_WITH_POSTGRES
    "postgres", "postgresql",
#endif
#ifdef SEMEL_WITH_MARIADB
    "mariadb",  "mysql",
#endif
#ifdef SEMEL_WITH_REDIS
    "redis",    "valkey",
#endif
    NULL};
static const char *const transport_schemes[] = {
#ifdef SEMEL_WITH_RABBITMQ
    "amqp",  "amqps",
#endif
#if defined(SEMEL_WITH_KAFKA) && SANITIZER_SLOWDOWN < 4 /* tests/transport/kafka says why */
    "kafka",
#endif
#ifdef SEMEL_WITH_REDIS
    "redis", "valkey",
#endif
#ifdef SEMEL_WITH_NATS
    "nats",  "natss",
#endif
    NULL};

/* --- opening whatever it is ------------------------------------------------------------------- */

static semel_status open_store(const char *url)
{
    semel_store *store = NULL;
    semel_store_options options = {.size = sizeof options, .busy_ms = BUSY_MS};
    semel_status status = semel_store_open(&store, url, &options, &last_error);
    semel_store_close(store);
    return status;
}

static semel_status open_transport(const char *url)
{
    semel_transport *transport = NULL;
    semel_status status = semel_transport_open(&transport, url, NULL, &last_error);
    semel_transport_close(transport);
    return status;
}

static semel_status check_store(const char *url)
{
    return semel_store_check_url(url, &last_error);
}

static semel_status check_transport(const char *url)
{
    return semel_transport_check_url(url, 0, &last_error);
}

typedef semel_status opening(const char *url);

static void expect(semel_status status, opening *open, const char *url)
{
    check_forget();
    semel_status got = open(url);
    if (got != status || last_error.retryable != (status == SEMEL_EUNAVAILABLE))
        fail_msg("%s: %s, %s", url, semel_status_name(got), last_error.text);
    if (strstr(last_error.text, SECRET))
        fail_msg("a password in: %s", last_error.text);
}

/* --- a server that listens -------------------------------------------------------------------- */

typedef struct listener {
    int fd;
    char place[64]; /* host:port */
} listener;

static listener listener_open(void)
{
    listener on = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    assert_int_equal(bind(on.fd, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(on.fd, 64), 0);
    assert_int_equal(getsockname(on.fd, (struct sockaddr *)&at, &len), 0);
    (void)snprintf(on.place, sizeof on.place, "127.0.0.1:%u", ntohs(at.sin_port));
    return on;
}

static int was_contacted(const listener *on, int wait_ms)
{
    struct pollfd caller = {.fd = on->fd, .events = POLLIN};
    return poll(&caller, 1, wait_ms) > 0;
}

/* The scheme and a pattern, with the listener's address in place of HOST. */
static void make_url(char out[URL_ROOM], const char *scheme, const char *pattern,
                     const listener *on)
{
    const char *host = strstr(pattern, "HOST");
    size_t before = host ? (size_t)(host - pattern) : strlen(pattern);
    (void)snprintf(out, URL_ROOM, "%s%.*s%s%s", scheme, (int)before, pattern, host ? on->place : "",
                   host ? host + 4 : "");
}

/* --- URLs that are wrong ---------------------------------------------------------------------- */

static const char *const patterns[] = {
    "://u:a@" SECRET "@HOST/db", /* an @ */
    "://u:" SECRET "@b@HOST/db",
    "://u@" SECRET ":p@HOST/db",
    "://u:a@" SECRET "@b@HOST",
    "://u:a@" SECRET "@HOST,HOST/db",
    "://u:a/" SECRET "@HOST/db", /* a / */
    "://u:12/" SECRET "@HOST/db",
    "://u:" SECRET "/@HOST/db",
    ":///u:" SECRET "@HOST/db",
    "://u:a?" SECRET "@HOST/db", /* a ? */
    "://u:a?" SECRET "=1@HOST/db",
    "://u:a?pool=" SECRET "@HOST/db",
    "://u:1?" SECRET "=1&" SECRET "=2@HOST/db",
    "://u:a/?" SECRET "=1@HOST/db",
    "://u:a#" SECRET "@HOST/db", /* a # */
    "://u:" SECRET "#@HOST",
    "://u#" SECRET ":p@HOST/db",
    "://u:a#/" SECRET "@HOST/db",
    "://u:" SECRET "%zz@HOST/db", /* a % */
    "://u:" SECRET "%@HOST/db",
    "://u:" SECRET "%00@HOST/db",
    "://u:" SECRET "%40HOST/db", /* escapes where there should be none */
    "://u%3A" SECRET "%40HOST/db",
    "://u%3A" SECRET "%40127.0.0.1/db",
    "://u%3A" SECRET "%40127.0.0.1%2Fdb/db",
    "://u:" SECRET "/db", /* no host */
    ":u:" SECRET "@HOST/db",
    ":/u:" SECRET "@HOST/db",
    "://u:" SECRET "@[::1/db",
    "://u:" SECRET "@127.0.0.1:54a2/db", /* a port */
    "://u:" SECRET "@127.0.0.1:0/db",
    "://u:" SECRET "@127.0.0.1:70000/db",
    "://u:" SECRET "@127.0.0.1:4294967297/db",
    "://u:" SECRET "@127.0.0.1:-1/db",
    "://u:" SECRET "@127.0.0.1:/db",
    "://u:" SECRET "@127.0.0.1:",
    "://u:" SECRET "@[::1]:/db",
    "://u:" SECRET "@[::1]:1x/db",
    "://u:" SECRET "@:x/db",
    "://u:" SECRET "@HOST/db?colour=red", /* parameters */
    "://u:" SECRET "@HOST/db?name=a&name=b",
    "://u:" SECRET "@HOST/db?name",
};

static void each_is_refused(const char *const schemes[], opening *open)
{
    listener on = listener_open();
    for (size_t s = 0; schemes[s]; s++)
        for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
            char url[URL_ROOM];
            make_url(url, schemes[s], patterns[i], &on);
            expect(SEMEL_EINVAL, open, url);
        }
    assert_false(was_contacted(&on, 0));
    close(on.fd);
}

static void a_url_that_is_wrong_is_refused_without_its_password(void **state)
{
    (void)state;
    each_is_refused(store_schemes, open_store);
    each_is_refused(transport_schemes, open_transport);
}

static void checking_it_finds_that_without_opening(void **state)
{
    (void)state;
    each_is_refused(store_schemes, check_store);
    each_is_refused(transport_schemes, check_transport);
}

static void a_url_that_is_right_is_checked_without_a_server(void **state)
{
    static const char *const publish_only[] = {
#ifdef SEMEL_WITH_RABBITMQ
        "amqp://none.invalid/?exchange=shop",
#endif
#ifdef SEMEL_WITH_KAFKA
        "kafka://none.invalid/orders",
#endif
#ifdef SEMEL_WITH_REDIS
        "redis://none.invalid/0?stream=orders",
#endif
#ifdef SEMEL_WITH_NATS
        "nats://none.invalid/ORDERS",
#endif
        NULL};
    (void)state;
    for (size_t i = 0; publish_only[i]; i++) {
        OK(semel_transport_check_url(publish_only[i], 0, &last_error));
        FAILS(SEMEL_EMISUSE, semel_transport_check_url(publish_only[i], 1, &last_error));
    }
    OK(semel_transport_check_url("memory:?ack_ms=5", 1, &last_error));
    OK(semel_transport_check_url("store:sqlite:none/there.db#orders", 1, &last_error));
    FAILS(SEMEL_EINVAL,
          semel_transport_check_url("store:sqlite:a.db?share=yes#orders", 1, &last_error));
    OK(semel_store_check_url("sqlite:none/there.db", &last_error));
    FAILS(SEMEL_EINVAL, semel_store_check_url("sqlite:a.db?shares=on", &last_error));
}

static void so_is_one_of_an_unknown_scheme(void **state)
{
    static const char *const urls[] = {
        "u:" SECRET "@127.0.0.1:1/db", "//u:" SECRET "@127.0.0.1:1/db",
        "127.0.0.1 user=u password=" SECRET ":", "postgers://u:" SECRET "@127.0.0.1:1/db"};
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        expect(SEMEL_EINVAL, open_store, urls[i]);
        expect(SEMEL_EINVAL, open_transport, urls[i]);
    }
}

static void where_no_server_listens_the_password_is_not_shown_either(void **state)
{
    (void)state;
    for (size_t i = 0; store_schemes[i]; i++) {
        char url[URL_ROOM];
        make_url(url, store_schemes[i], "://u:" SECRET "@127.0.0.1:1/1", NULL);
        expect(SEMEL_EUNAVAILABLE, open_store, url);
    }
    for (size_t i = 0; transport_schemes[i]; i++) {
        char url[URL_ROOM];
        int redis = strcmp(transport_schemes[i], "redis") == 0 ||
                    strcmp(transport_schemes[i], "valkey") == 0;
        make_url(url, transport_schemes[i],
                 redis ? "://u:" SECRET "@127.0.0.1:1/1?connect_ms=300&stream=s"
                       : "://u:" SECRET "@127.0.0.1:1/?connect_ms=300",
                 NULL);
        expect(SEMEL_EUNAVAILABLE, open_transport, url);
    }
}

/* --- PostgreSQL's own ------------------------------------------------------------------------- */

#ifdef SEMEL_WITH_POSTGRES

/* libpq takes the password as a parameter, too, and ports as lists. */
static void parameters_of_libpqs_are_looked_at_as_well(void **state)
{
    static const char *const wrong[] = {
        "://u@HOST/db?password=a&" SECRET "=1",
        "://u@HOST/db?password=a&" SECRET "=1&" SECRET "=2",
        "://u@HOST/db?password=" SECRET "&colour=red",
        "://u:" SECRET "@127.0.0.1/db?port=54a2",
        "://u:" SECRET "@127.0.0.1/db?port=",
        "://u:" SECRET "@127.0.0.1/db?port=1,0",
        "://u:" SECRET "@127.0.0.1:1,127.0.0.1:x/db",
        "://u:" SECRET "@127.0.0.1:,127.0.0.1:1/db",
        "://u:" SECRET "@127.0.0.1:1,127.0.0.1:/db",
        "://u@/db?host=u:" SECRET "%40127.0.0.1",
        "://u@/db?host=127.0.0.1,u:" SECRET "%40127.0.0.1",
    };
    listener on = listener_open();
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char url[URL_ROOM];
        make_url(url, "postgres", wrong[i], &on);
        expect(SEMEL_EINVAL, open_store, url);
    }
    assert_false(was_contacted(&on, 0));
    close(on.fd);
}

/* In a child: a server that speaks PostgreSQL's protocol, refuses every client, and repeats a
 * password that the client did not send. */
static int refuse_and_repeat(void *context)
{
    const listener *on = context;
    static const char answer[] = "SFATAL\0C28P01\0Mthe password " SECRET " is wrong\0";
    char heard[1024];
    unsigned char head[5] = {'E', 0, 0, 0, sizeof answer + 4};
    int fd = was_contacted(on, LATE_MS) ? accept(on->fd, NULL, NULL) : -1;
    PROCESS_REQUIRE(fd >= 0);
    PROCESS_REQUIRE(read(fd, heard, sizeof heard) > 0);
    PROCESS_REQUIRE(write(fd, head, sizeof head) == (ssize_t)sizeof head);
    PROCESS_REQUIRE(write(fd, answer, sizeof answer) == (ssize_t)sizeof answer);
    PROCESS_REQUIRE(shutdown(fd, SHUT_WR) == 0);
    while (read(fd, heard, sizeof heard) > 0)
        continue;
    return PROCESS_OK;
}

static void a_server_that_repeats_the_password_is_not_quoted(void **state)
{
    listener on = listener_open();
    char url[URL_ROOM];
    (void)state;
    pid_t server = process_start(refuse_and_repeat, &on);
    make_url(url, "postgres", "://u:" SECRET "@HOST/db?sslmode=disable", &on);
    expect(SEMEL_EINVAL, open_store, url);
    SAYS("not shown");
    assert_string_equal(last_error.sqlstate, "28P01");
    assert_int_equal(process_wait(server, LATE_MS), PROCESS_OK);
    close(on.fd);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checking_it_finds_that_without_opening),
        cmocka_unit_test(a_url_that_is_right_is_checked_without_a_server),
        cmocka_unit_test(a_url_that_is_wrong_is_refused_without_its_password),
        cmocka_unit_test(so_is_one_of_an_unknown_scheme),
        cmocka_unit_test(where_no_server_listens_the_password_is_not_shown_either),
#ifdef SEMEL_WITH_POSTGRES
        cmocka_unit_test(parameters_of_libpqs_are_looked_at_as_well),
        cmocka_unit_test(a_server_that_repeats_the_password_is_not_quoted),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
