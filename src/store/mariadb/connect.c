/* Connecting: the library, a session and its settings, and hanging up. Asking is in connection.c.
 *
 * All connections work without autocommit. So no statement is ever committed by itself: neither one
 * of ours, nor one of a handler's that goes on after the server has rolled its transaction back. */
#include "store/mariadb/connection.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_MARGIN = 4096, ANSWER_MAX = 1 << 30, VERSION_MIN = 100600 };

static void init_library(void)
{
    (void)mysql_library_init(0, NULL, NULL); /* not safe in two threads at once */
}

/* It makes the whole process ignore SIGPIPE, which is not for a library to decide. */
static void start_library(void)
{
    sigpipe_undisturbed(init_library);
}

static void set_number(MYSQL *my, enum mysql_option option, unsigned value)
{
    if (value)
        mysql_optionsv(my, option, &value);
}

static void set_text(MYSQL *my, enum mysql_option option, const char *value)
{
    if (value)
        mysql_optionsv(my, option, value);
}

static void set_options(MYSQL *my, const maria_address *at, uint32_t wait_ms)
{
    static const my_bool yes = 1;
    static const unsigned long answer_max = ANSWER_MAX;
    unsigned wait_s = wait_ms / 1000 + (wait_ms % 1000 != 0);
    set_number(my, MYSQL_OPT_CONNECT_TIMEOUT, wait_s < at->connect_s ? wait_s : at->connect_s);
    set_number(my, MYSQL_OPT_READ_TIMEOUT, at->read_s);
    set_number(my, MYSQL_OPT_WRITE_TIMEOUT, at->write_s);
    set_text(my, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    set_text(my, MYSQL_READ_DEFAULT_GROUP, at->options);
    set_text(my, MYSQL_OPT_SSL_CA, at->tls_ca);
    set_text(my, MYSQL_OPT_SSL_CERT, at->tls_cert);
    set_text(my, MYSQL_OPT_SSL_KEY, at->tls_key);
    mysql_optionsv(my, MYSQL_OPT_MAX_ALLOWED_PACKET, &answer_max);
    if (at->tls != TLS_OFF)
        mysql_optionsv(my, MYSQL_OPT_SSL_ENFORCE, &yes);
    if (at->tls == TLS_VERIFY)
        mysql_optionsv(my, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &yes);
}

/* The library does not mind if the server cannot encrypt, unless the certificate is to be verified,
 * too. */
static semel_status check_tls(MYSQL *my, const maria_address *at, semel_error *err)
{
    if (at->tls == TLS_OFF || mysql_get_ssl_cipher(my))
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EINVAL,
                      "mariadb, connecting: the server does not encrypt, and the URL asks for tls");
}

static semel_status check_server(MYSQL *my, semel_error *err)
{
    if (mariadb_connection(my) && mysql_get_server_version(my) >= VERSION_MIN)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EUNSUPPORTED,
                      "the server is %s %s; semel needs MariaDB 10.6 or newer",
                      mariadb_connection(my) ? "MariaDB" : "MySQL", mysql_get_server_info(my));
}

static const char *const level_names[] = {[ISOLATION_USUAL] = "REPEATABLE-READ",
                                          [ISOLATION_READ_COMMITTED] = "READ-COMMITTED",
                                          [ISOLATION_REPEATABLE_READ] = "REPEATABLE-READ",
                                          [ISOLATION_SERIALIZABLE] = "SERIALIZABLE",
                                          [ISOLATION_READ_UNCOMMITTED] = "READ-UNCOMMITTED"};

static maria_isolation level_named(const char *name)
{
    for (int i = ISOLATION_READ_COMMITTED; i <= ISOLATION_READ_UNCOMMITTED; i++)
        if (name && strcmp(level_names[i], name) == 0)
            return (maria_isolation)i;
    return ISOLATION_USUAL;
}

static void set_packet_max(maria_connection *on, size_t max)
{
    on->packet_max = max;
    on->text_max = max > 2 * (size_t)TEXT_MARGIN ? max - TEXT_MARGIN : max;
}

static semel_status read_settings(const maria_row *r, void *context, semel_error *err)
{
    maria_connection *on = context;
    set_packet_max(on, (size_t)maria_column_uint(r, 0));
    on->usual = level_named(maria_column_text(r, 1));
    on->safe_commits = (int)maria_column_int(r, 2);
    on->idle_s = maria_column_uint(r, 3);
    on->blocks = !maria_column_int(r, 4); /* in that mode they are written otherwise */
    if (maria_column_int(r, 5))           /* markers would vanish with a wait that was too long */
        return semel_fail(err, SEMEL_EUNSUPPORTED,
                          "the server has innodb_rollback_on_timeout=ON; semel needs it OFF, as it "
                          "is by default");
    return SEMEL_OK;
}

int maria_enqueue_mode(maria_connection *on, maria_session_mode mode)
{
    if (on->mode == mode)
        return 0;
    static const maria_statement which[] = {[MODE_UNKNOWN] = ST_DURABLE,
                                            [MODE_DURABLE] = ST_DURABLE,
                                            [MODE_RELAXED] = ST_RELAXED,
                                            [MODE_LOOKING] = ST_LOOKING};
    maria_isolation asked = on->at->level != ISOLATION_USUAL ? on->at->level : on->usual;
    maria_query q = maria_enqueue(on, which[mode]);
    if (mode != MODE_LOOKING)
        maria_text(&q, level_names[mode == MODE_RELAXED ? ISOLATION_READ_COMMITTED : asked]);
    if (mode == MODE_DURABLE)
        maria_uint(&q, on->idle_s);
    (void)maria_end(&q);
    on->mode = mode;
    return 1;
}

/* One round trip, to see how the server is. From here on the server itself gives up waiting for
 * locks, those of tables (which it would wait for for a day) and those of rows. */
static semel_status introduce(maria_connection *on, semel_error *err)
{
    static const maria_bound patient = {PATIENT, 0};
    uint32_t busy_s = on->limits.busy_ms / 1000 + (on->limits.busy_ms % 1000 != 0);
    maria_query q = maria_start(&on->out,
                                "SELECT @@max_allowed_packet, @@tx_isolation, "
                                "@@innodb_flush_log_at_trx_commit = 1 AND "
                                "(@@log_bin = 0 OR @@sync_binlog = 1), @@idle_transaction_timeout, "
                                "FIND_IN_SET(x'4f5241434c45', @@sql_mode), " /* ORACLE */
                                "@@innodb_rollback_on_timeout",
                                patient);
    maria_step *s = maria_end(&q);
    s->call = read_settings;
    s->context = on;
    q = maria_start(&on->out,
                    "SET SESSION autocommit = 0, lock_wait_timeout = ?, "
                    "innodb_lock_wait_timeout = ?",
                    patient);
    maria_uint(&q, busy_s);
    maria_uint(&q, busy_s);
    (void)maria_end(&q);
    return maria_flush(on, NULL, "preparing a session", err);
}

static MYSQL *connect_to(maria_connection *on)
{
    const maria_address *at = on->at;
    sigpipe_guard guard;
    sigpipe_guard_up(&guard, 1);
    MYSQL *my = mysql_real_connect(on->my, at->socket ? NULL : at->host, at->user, at->password,
                                   at->database, at->port, at->socket, CLIENT_MULTI_STATEMENTS);
    sigpipe_guard_down(&guard);
    on->encrypted = my && mysql_get_ssl_cipher(my);
    return my;
}

/* A new session for an `on` that has none. */
semel_status maria_dial(maria_connection *on, uint32_t wait_ms, semel_error *err)
{
    static pthread_once_t started = PTHREAD_ONCE_INIT;
    const maria_address *at = on->at;
    (void)pthread_once(&started, start_library);
    on->my = mysql_init(NULL);
    if (!on->my)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a connection");
    set_options(on->my, at, wait_ms);
    if (!connect_to(on))
        return maria_fail(on, "connecting", err);
    on->lost = on->owes = on->fresh = 0;
    on->mode = MODE_UNKNOWN;
    semel_status status = check_tls(on->my, at, err);
    if (!status)
        status = check_server(on->my, err);
    if (!status)
        status = introduce(on, err);
    if (!status && at->level == ISOLATION_USUAL)
        on->mode = MODE_DURABLE;
    return status;
}

/* In a child, to say goodbye would end the parent's session. */
void maria_hang_up(maria_connection *on)
{
    sigpipe_guard guard;
    sigpipe_guard_up(&guard, 1);
    if (on->my && on->pid == getpid())
        mysql_close(on->my);
    sigpipe_guard_down(&guard);
    on->my = NULL;
}

void maria_close(void *state)
{
    maria_connection *on = state;
    if (!on)
        return;
    maria_hang_up(on);
    maria_script_free(&on->out);
    mem_free(on->spare.bytes);
    on->spare = (text_buffer){0};
    arena_free(&on->scratch);
    mem_free(on);
}

semel_status maria_open(maria_connection **out, const maria_address *at, const char *const *texts,
                        maria_limits bounds, uint32_t wait_ms, semel_error *err)
{
    maria_connection *on = mem_alloc(sizeof *on);
    if (!on)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a connection");
    on->at = at;
    on->texts = texts;
    on->limits = bounds;
    on->multi = 1;
    on->pid = getpid();
    semel_status status = maria_dial(on, wait_ms, err);
    if (status)
        maria_close(on);
    else
        *out = on;
    return status;
}

void maria_borrow(maria_connection *on, MYSQL *my, const char *const *texts, maria_limits bounds,
                  size_t packet_max)
{
    *on = (maria_connection){.my = my,
                             .texts = texts,
                             .limits = bounds,
                             .multi = (my->client_flag & CLIENT_MULTI_STATEMENTS) != 0,
                             .encrypted = mysql_get_ssl_cipher(my) != NULL,
                             .pid = getpid()};
    set_packet_max(on, packet_max);
}

void maria_return(maria_connection *on)
{
    maria_script_free(&on->out);
    mem_free(on->spare.bytes);
    on->spare = (text_buffer){0};
    arena_free(&on->scratch);
    on->my = NULL;
}
