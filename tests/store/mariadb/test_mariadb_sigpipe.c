/* SIGPIPE is the application's: opening a store leaves it as it is, and connections that are cut do
 * not raise it, neither plain ones nor with TLS, where libmariadb leaves the writing to a library
 * that knows of no MSG_NOSIGNAL. */
#include "mariadb_kit.h"
#include "support/process/process.h"

#include <signal.h>

static volatile sig_atomic_t raised;

static void on_sigpipe(int number)
{
    (void)number;
    raised = 1;
}

/* --- opening ---------------------------------------------------------------------------------- */

typedef struct disposition {
    server_place at;
    void (*handler)(int);
} disposition;

/* In a child, where libmariadb has not been started yet, as it was not in the parent. */
static int open_and_look(void *context)
{
    const disposition *d = context;
    struct sigaction wanted = {.sa_handler = d->handler}, found;
    semel_store *store = NULL;
    semel_error err;
    PROCESS_REQUIRE(sigaction(SIGPIPE, &wanted, NULL) == 0);
    PROCESS_REQUIRE_OK(semel_store_open(&store, d->at.url, NULL, &err), &err);
    PROCESS_REQUIRE(sigaction(SIGPIPE, NULL, &found) == 0);
    PROCESS_REQUIRE(found.sa_handler == d->handler);
    semel_store_close(store);
    PROCESS_REQUIRE(sigaction(SIGPIPE, NULL, &found) == 0);
    PROCESS_REQUIRE(found.sa_handler == d->handler);
    return PROCESS_OK;
}

static void opening_leaves_it_as_it_is(void **state)
{
    static void (*const handlers[])(int) = {SIG_DFL, SIG_IGN, on_sigpipe};
    disposition d;
    (void)state;
    server_find(&d.at, SERVER_MARIADB);
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++) {
        d.handler = handlers[i];
        assert_int_equal(process_run(open_and_look, &d), PROCESS_OK);
    }
}

/* --- a server with TLS ------------------------------------------------------------------------ */

static void run(const char *command)
{
    FILE *pipe = popen(command, "re"); /* NOLINT: a test, and no word of it is from outside */
    assert_non_null(pipe);
    assert_int_equal(pclose(pipe), 0);
}

/* Where the server's own user can read it. */
static void add_tls(server_own *own)
{
    char command[6 * SCRATCH_PATH];
    const char *home = own->at.directory;
    (void)snprintf(
        command, sizeof command,
        "cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
        "-days 2 -subj /CN=127.0.0.1 -keyout tls.key -out tls.pem 2>/dev/null && "
        "chmod 644 tls.key && echo 'ssl_key = %s/tls.key' >>my.cnf && "
        "echo 'ssl_cert = %s/tls.pem' >>my.cnf",
        home, home, home);
    run(command);
    server_own_halt(own);
    server_own_restart(own);
}

/* --- connections that are cut ----------------------------------------------------------------- */

static void cut_inside(case_work *self, semel_unit *unit, const semel_message *message)
{
    server_case *c = self->context;
    (void)unit, (void)message;
    proxy_cut(c->between);
}

/* Idle connections, and one that is in use: the store writes to each after the server has closed
 * it. */
static void cut_and_go_on(server_case *c)
{
    case_work cuts = {.after = cut_inside, .context = c};
    semel_outcome outcome;
    for (int i = 0; i < 5; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "idle-%d", i);
        assert_int_equal(case_settle(c, id, NULL), SEMEL_PROCESSED);
        proxy_cut(c->between);
        (void)snprintf(id, sizeof id, "used-%d", i);
        (void)case_receive(c, &outcome, id, &cuts, &last_error);
        (void)case_settle(c, id, NULL);
        assert_int_equal(case_times(c, id), 1);
    }
}

/* With a handler that notes it: by default it would end the test without a word. */
static void none_is_raised(const server_place *where, const char *parameters)
{
    struct sigaction wanted = {.sa_handler = on_sigpipe}, before;
    assert_int_equal(sigaction(SIGPIPE, &wanted, &before), 0);
    for (int mode = 0; mode < CASE_MODES; mode++) {
        server_case c = {0};
        server_shape shape = {.kind = SERVER_MARIADB, .mode = (case_mode)mode};
        raised = 0;
        case_make(&c, where, &shape, parameters);
        case_open(&c, CASE_BUSY_MS, NULL);
        cut_and_go_on(&c);
        proxy_cut(c.between); /* and close them so */
        case_remove(&c);
        assert_false(raised);
    }
    assert_int_equal(sigaction(SIGPIPE, &before, NULL), 0);
}

static void a_plain_connection_that_is_cut_raises_none(void **state)
{
    server_place shared;
    (void)state;
    server_find(&shared, SERVER_MARIADB);
    none_is_raised(&shared, "");
}

static void one_with_tls_that_is_cut_raises_none(void **state)
{
    server_own own;
    (void)state;
    server_own_start(&own, SERVER_MARIADB);
    add_tls(&own);
    none_is_raised(&own.at, "&tls=on");
    server_own_stop(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_leaves_it_as_it_is), /* first: the others start libmariadb */
        cmocka_unit_test(a_plain_connection_that_is_cut_raises_none),
        cmocka_unit_test(one_with_tls_that_is_cut_raises_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
