/* Connecting and asking. See connection.h; what errors mean is in meaning.c.
 *
 * All connections work without autocommit. So no statement is ever committed by itself: neither one of ours, nor one
 * of a handler's that goes on after the server has rolled its transaction back.
 *
 * A connection that turns out to be dead before anything of the unit was answered is replaced by a new one
 * and the text sent again, unless there was a COMMIT in it that may have arrived. */
#include "store/mariadb/connection.h"

#include <errmsg.h>
#include <mysqld_error.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_MARGIN = 4096, ANSWER_MAX = 1 << 30, VERSION_MIN = 100600 };

/* --- connecting ----------------------------------------------------------------------------------------- */

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

static void set_options(MYSQL *my, const address *at, uint32_t wait_ms)
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

/* The library does not mind if the server cannot encrypt, unless the certificate is to be verified, too. */
static semel_status check_tls(MYSQL *my, const address *at, semel_error *err)
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

static isolation level_named(const char *name)
{
    for (int i = ISOLATION_READ_COMMITTED; i <= ISOLATION_READ_UNCOMMITTED; i++)
        if (name && strcmp(level_names[i], name) == 0)
            return (isolation)i;
    return ISOLATION_USUAL;
}

static void set_packet_max(connection *on, size_t max)
{
    on->packet_max = max;
    on->text_max = max > 2 * (size_t)TEXT_MARGIN ? max - TEXT_MARGIN : max;
}

static semel_status read_settings(const row *r, void *context, semel_error *err)
{
    connection *on = context;
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

int maria_say_mode(connection *on, session_mode mode)
{
    if (on->mode == mode)
        return 0;
    static const statement which[] = {[MODE_UNKNOWN] = ST_DURABLE,
                                      [MODE_DURABLE] = ST_DURABLE,
                                      [MODE_RELAXED] = ST_RELAXED,
                                      [MODE_LOOKING] = ST_LOOKING};
    isolation asked = on->at->level != ISOLATION_USUAL ? on->at->level : on->usual;
    query q = maria_query(on, which[mode]);
    if (mode != MODE_LOOKING)
        maria_text(&q, level_names[mode == MODE_RELAXED ? ISOLATION_READ_COMMITTED : asked]);
    if (mode == MODE_DURABLE)
        maria_uint(&q, on->idle_s);
    (void)maria_end(&q);
    on->mode = mode;
    return 1;
}

/* One round trip, to see how the server is. */
static semel_status introduce(connection *on, semel_error *err)
{
    static const bound patient = {PATIENT, 0};
    query q = maria_start(&on->out,
                          "SELECT @@max_allowed_packet, @@tx_isolation, "
                          "@@innodb_flush_log_at_trx_commit = 1 AND "
                          "(@@log_bin = 0 OR @@sync_binlog = 1), @@idle_transaction_timeout, "
                          "FIND_IN_SET(x'4f5241434c45', @@sql_mode), " /* ORACLE */
                          "@@innodb_rollback_on_timeout",
                          patient);
    step *s = maria_end(&q);
    s->call = read_settings;
    s->context = on;
    q = maria_start(&on->out, "SET SESSION autocommit = 0", patient);
    (void)maria_end(&q);
    return maria_run(on, NULL, "preparing a session", err);
}

static MYSQL *connect_to(connection *on)
{
    const address *at = on->at;
    sigpipe_guard guard;
    sigpipe_guard_up(&guard, 1);
    MYSQL *my = mysql_real_connect(on->my, at->socket ? NULL : at->host, at->user, at->password,
                                   at->database, at->port, at->socket, CLIENT_MULTI_STATEMENTS);
    sigpipe_guard_down(&guard);
    on->encrypted = my && mysql_get_ssl_cipher(my);
    return my;
}

/* A new session for an `on` that has none. */
static semel_status dial(connection *on, uint32_t wait_ms, semel_error *err)
{
    static pthread_once_t started = PTHREAD_ONCE_INIT;
    const address *at = on->at;
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
static void hang_up(connection *on)
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
    connection *on = state;
    if (!on)
        return;
    hang_up(on);
    maria_script_free(&on->out);
    mem_free(on->spare.bytes);
    on->spare = (text_buffer){0};
    arena_free(&on->scratch);
    mem_free(on);
}

semel_status maria_open(connection **out, const address *at, const char *const *texts,
                        uint32_t wait_ms, semel_error *err)
{
    connection *on = mem_alloc(sizeof *on);
    if (!on)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a connection");
    on->at = at;
    on->texts = texts;
    on->multi = 1;
    on->pid = getpid();
    semel_status status = dial(on, wait_ms, err);
    if (status)
        maria_close(on);
    else
        *out = on;
    return status;
}

void maria_borrow(connection *on, MYSQL *my, const char *const *texts, size_t packet_max)
{
    *on = (connection){.my = my,
                       .texts = texts,
                       .multi = (my->client_flag & CLIENT_MULTI_STATEMENTS) != 0,
                       .encrypted = mysql_get_ssl_cipher(my) != NULL,
                       .pid = getpid()};
    set_packet_max(on, packet_max);
}

void maria_return(connection *on)
{
    maria_script_free(&on->out);
    mem_free(on->spare.bytes);
    on->spare = (text_buffer){0};
    arena_free(&on->scratch);
    on->my = NULL;
}

/* libmariadb itself writes with MSG_NOSIGNAL; OpenSSL does not. */
void maria_guard(const connection *on, sigpipe_guard *guard)
{
    sigpipe_guard_up(guard, on->encrypted);
}

/* --- asking ----------------------------------------------------------------------------------------------- */

query maria_query_bounded(connection *on, statement which, bound limit)
{
    return maria_start(&on->out, on->texts[which], limit);
}

query maria_query(connection *on, statement which)
{
    return maria_query_bounded(on, which, (bound){PATIENT, 0});
}

void maria_say(connection *on, statement which)
{
    query q = maria_query(on, which);
    (void)maria_end(&q);
}

static int is_tagged(MYSQL_RES *result, const char *tag)
{
    return strcmp(mysql_fetch_field_direct(result, 0)->name, tag) == 0;
}

/* Rows are handed on as they come. Those that nobody wants are read, too: a statement may fail in the middle of them. If
 * the receiver has had enough, the rest is thrown away. */
static semel_status read_rows(connection *on, const step *s, const char *doing, semel_error *err)
{
    semel_status status = SEMEL_OK;
    MYSQL_RES *result = mysql_use_result(on->my);
    if (!result)
        return maria_fail(on, doing, err);
    row r = {NULL, NULL};
    int wanted = s->call && (!s->tag || is_tagged(result, s->tag));
    while (!status && (r.columns = mysql_fetch_row(result))) {
        if (!wanted)
            continue;
        r.lengths = mysql_fetch_lengths(result);
        status = s->call(&r, s->context, err);
    }
    int broken = !status && mysql_errno(on->my);
    if (broken)
        status = maria_fail(on, doing, err);
    mysql_free_result(result);
    return status;
}

static semel_status read_answer(connection *on, const step *s, const char *doing, semel_error *err)
{
    if (mysql_field_count(on->my))
        return read_rows(on, s, doing, err);
    if (s->answer)
        *s->answer = (reply){mysql_affected_rows(on->my), mysql_insert_id(on->my)};
    return SEMEL_OK;
}

/* All results of a statement that may have many. */
static semel_status read_all(connection *on, const step *s, const char *doing, semel_error *err)
{
    semel_status status = read_answer(on, s, doing, err);
    while (!status && mysql_more_results(on->my))
        status = mysql_next_result(on->my) > 0 ? maria_fail(on, doing, err)
                                               : read_answer(on, s, doing, err);
    return status;
}

/* A conversation under way. */
typedef struct talk {
    connection *on;
    const char *doing;
    semel_status
        refused; /* what a receiver of rows said; the answers are read to the end all the same */
    semel_error why;
    failure failed;
    int answered; /* at least one statement */
} talk;

static semel_status take_answer(talk *t, const step *s, semel_error *err)
{
    static const step deaf = {0};
    connection *on = t->on;
    const step *to = t->refused ? &deaf : s;
    t->answered = 1;
    semel_status status =
        s->open_ended ? read_all(on, to, t->doing, err) : read_answer(on, to, t->doing, err);
    if (!status || mysql_errno(on->my))
        return status;
    t->refused = status;
    if (err)
        t->why = *err;
    return SEMEL_OK;
}

/* From the first step on, as many as go in one text: one with many results may be the last of it. */
static size_t steps_together(const connection *on, size_t first)
{
    const script *s = &on->out;
    size_t last = first + 1;
    while (on->multi && last < s->count && !s->steps[last - 1].open_ended)
        last++;
    return last - first;
}

static int has_commit(const script *s, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        if (s->steps[i].kind == STEP_COMMIT || s->steps[i].kind == STEP_BLOCK)
            return 1;
    return 0;
}

static semel_status note_failure(talk *t, const step *s, int commit_sent, semel_error *err)
{
    connection *on = t->on;
    unsigned number = mysql_errno(on->my);
    semel_status status = maria_fail(on, t->doing, err);
    t->failed = (failure){number, s->kind, 0};
    t->failed.unknown =
        commit_sent && (on->lost || (s->kind == STEP_COMMIT && !maria_is_conflict(number)));
    return status;
}

/* One text, from the first step on. */
static semel_status say(talk *t, size_t first, size_t count, semel_error *err)
{
    connection *on = t->on;
    const script *s = &on->out;
    size_t start = s->steps[first].start, end = maria_script_end(s, first + count - 1);
    if (mysql_send_query(on->my, s->text.bytes + start, end - start))
        return note_failure(t, &s->steps[first], 0, err);
    int commit_sent = has_commit(s, first, count);
    for (size_t i = first; i < first + count; i++) {
        const step *at = &s->steps[i];
        int code = i == first ? mysql_read_query_result(on->my) != 0 : mysql_next_result(on->my);
        if (code != 0) /* less: fewer answers than statements, which is no success */
            return note_failure(t, at, commit_sent, err);
        semel_status status = take_answer(t, at, err);
        if (status)
            return note_failure(t, at, commit_sent, err);
    }
    return SEMEL_OK;
}

static semel_status say_all(talk *t, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t at = 0, count; !status && at < t->on->out.count; at += count) {
        count = steps_together(t->on, at);
        status = say(t, at, count, err);
    }
    return status;
}

/* The answer to an earlier ROLLBACK, which cannot fail but with the connection. */
static void settle_debt(connection *on)
{
    if (on->owes && mysql_read_query_result(on->my))
        on->lost = 1;
    on->owes = 0;
}

/* Nothing of the unit has happened: its text is still here, and a new session may take it. */
static int may_redial(const talk *t)
{
    return t->on->lost && t->on->fresh && t->on->at && !t->answered && !t->failed.unknown &&
           t->failed.number != ER_NET_PACKET_TOO_LARGE &&
           t->failed.number != CR_COMMANDS_OUT_OF_SYNC;
}

static semel_status redial(connection *on, semel_error *err)
{
    script kept = on->out;
    session_mode mode = on->mode;
    on->out = (script){0};
    hang_up(on);
    semel_status status = dial(on, on->at->connect_s * 1000, err);
    if (!status && maria_say_mode(on, mode)) /* what was said before takes it for granted */
        status = maria_run(on, NULL, "preparing a session", err);
    maria_script_free(&on->out);
    on->out = kept;
    on->lost = status != SEMEL_OK;
    return status;
}

static semel_status run(talk *t, semel_error *err)
{
    connection *on = t->on;
    if (on->out.failed)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for statements");
    if (!on->my)
        return semel_fail(err, SEMEL_EUNAVAILABLE, "mariadb, %s: the connection is lost", t->doing);
    settle_debt(on);
    semel_status status = on->lost ? note_failure(t, on->out.steps, 0, err) : say_all(t, err);
    if (status && may_redial(t)) {
        t->failed = (failure){0};
        status = redial(on, err);
        if (!status)
            status = say_all(t, err);
    }
    on->fresh = 0;
    return status;
}

semel_status maria_run(connection *on, failure *failed, const char *doing, semel_error *err)
{
    semel_error local;
    sigpipe_guard guard;
    talk t = {.on = on, .doing = doing};
    maria_guard(on, &guard);
    semel_status status = on->out.count || on->out.failed ? run(&t, err ? err : &local) : SEMEL_OK;
    sigpipe_guard_down(&guard);
    maria_script_clear(&on->out);
    if (failed)
        *failed = t.failed;
    if (status || !t.refused)
        return status;
    if (err)
        *err = t.why;
    return t.refused;
}

/* --- between conversations ---------------------------------------------------------------------------------- */

void maria_push_rollback(connection *on)
{
    static const char text[] = "ROLLBACK";
    sigpipe_guard guard;
    maria_guard(on, &guard);
    maria_script_clear(&on->out);
    settle_debt(on);
    if (on->lost || mysql_send_query(on->my, text, sizeof text - 1))
        on->lost = 1;
    else
        on->owes = 1;
    sigpipe_guard_down(&guard);
}

int maria_ask(connection *on, const char *text)
{
    sigpipe_guard guard;
    maria_guard(on, &guard);
    int failed = mysql_query(on->my, text);
    sigpipe_guard_down(&guard);
    return failed;
}

int maria_is_ready(const connection *on)
{
    return on->my->status == MYSQL_STATUS_READY && !mysql_more_results(on->my);
}

/* A server says nothing by itself but goodbye. */
int maria_is_alive(void *state)
{
    connection *on = state;
    sigpipe_guard guard;
    if (on->lost || !on->my)
        return 0;
    maria_guard(on, &guard);
    settle_debt(on);
    sigpipe_guard_down(&guard);
    struct pollfd peer = {.fd = mysql_get_socket(on->my), .events = POLLIN};
    return !on->lost && poll(&peer, 1, 0) == 0;
}
