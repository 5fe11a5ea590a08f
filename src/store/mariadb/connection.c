/* Sending statements and reading answers. See connection.h; connecting is in connect.c, and what
 * errors mean in errors.c.
 *
 * Every wait has an end, whatever the server does: it gives up waiting for locks by itself, with an
 * answer, and if it says nothing for longer, the connection is given up.
 *
 * A connection that turns out to be dead before anything of the unit was answered is replaced by a
 * new one and the text sent again, unless there was a COMMIT in it that may have arrived. */
#include "store/mariadb/connection.h"

#include <errmsg.h>
#include <limits.h>
#include <ma_pvio.h>
#include <mysqld_error.h>
#include <poll.h>

/* --- calls of the library --------------------------------------------------------------------- */

/* The library takes the limits from the options only when it connects, and a handler's own
 * statements may take as long as they like: so they are set where it keeps them. After a connection
 * was lost there is no such place. */
void maria_enter(maria_library_call *call, const maria_connection *on)
{
    MARIADB_PVIO *io = on->my ? on->my->net.pvio : NULL;
    uint32_t locks_ms = on->wait_ms > on->limits.busy_ms ? on->wait_ms : on->limits.busy_ms;
    uint64_t most = (uint64_t)locks_ms + on->limits.answer_ms;
    *call = (maria_library_call){.on = on};
    sigpipe_guard_up(&call->guard, on->encrypted); /* the library itself writes with MSG_NOSIGNAL */
    if (!io)
        return;
    call->read_ms = io->timeout[PVIO_READ_TIMEOUT];
    call->write_ms = io->timeout[PVIO_WRITE_TIMEOUT];
    io->timeout[PVIO_READ_TIMEOUT] = io->timeout[PVIO_WRITE_TIMEOUT] =
        most < INT_MAX ? (int)most : INT_MAX;
}

void maria_leave(const maria_library_call *call)
{
    MARIADB_PVIO *io = call->on->my ? call->on->my->net.pvio : NULL;
    if (io) {
        io->timeout[PVIO_READ_TIMEOUT] = call->read_ms;
        io->timeout[PVIO_WRITE_TIMEOUT] = call->write_ms;
    }
    sigpipe_guard_down(&call->guard);
}

/* --- enqueueing ------------------------------------------------------------------------------- */

maria_query maria_enqueue_bounded(maria_connection *on, maria_statement which, maria_bound limit)
{
    return maria_start(&on->out, on->texts[which], limit);
}

maria_query maria_enqueue(maria_connection *on, maria_statement which)
{
    return maria_enqueue_bounded(on, which, (maria_bound){PATIENT, 0});
}

void maria_enqueue_plain(maria_connection *on, maria_statement which)
{
    maria_query q = maria_enqueue(on, which);
    (void)maria_end(&q);
}

/* Passes rows on as they come. Rows of a step without a receiver are read, too: a statement may
 * fail in the middle of them. If the receiver wants no more, the rest is discarded. */
static semel_status read_rows(maria_connection *on, const maria_step *s, const char *doing,
                              semel_error *err)
{
    semel_status status = SEMEL_OK;
    MYSQL_RES *result = mysql_use_result(on->my);
    if (!result)
        return maria_fail(on, doing, err);
    maria_row r = {NULL, NULL};
    while (!status && (r.columns = mysql_fetch_row(result))) {
        if (!s->call)
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

static semel_status read_answer(maria_connection *on, const maria_step *s, const char *doing,
                                semel_error *err)
{
    if (mysql_field_count(on->my))
        return read_rows(on, s, doing, err);
    if (s->answer)
        *s->answer = (maria_reply){mysql_affected_rows(on->my), mysql_insert_id(on->my)};
    return SEMEL_OK;
}

/* All results of a statement that may have many. */
static semel_status read_all(maria_connection *on, const maria_step *s, const char *doing,
                             semel_error *err)
{
    semel_status status = read_answer(on, s, doing, err);
    while (!status && mysql_more_results(on->my))
        status = mysql_next_result(on->my) > 0 ? maria_fail(on, doing, err)
                                               : read_answer(on, s, doing, err);
    return status;
}

/* A flush under way. */
typedef struct exchange {
    maria_connection *on;
    const char *doing;
    semel_status
        refused; /* the error of a receiver of rows; the answers are read to the end all the same */
    semel_error why;
    maria_failure failed;
    int answered; /* at least one statement */
} exchange;

static semel_status accept_answer(exchange *t, const maria_step *s, semel_error *err)
{
    static const maria_step deaf = {0};
    maria_connection *on = t->on;
    const maria_step *to = t->refused ? &deaf : s;
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

/* From the first step on, as many as go in one text: one with many results may be the last of
 * it. */
static size_t steps_together(const maria_connection *on, size_t first)
{
    const maria_script *s = &on->out;
    size_t last = first + 1;
    while (on->multi && last < s->count && !s->steps[last - 1].open_ended)
        last++;
    return last - first;
}

static int has_commit(const maria_script *s, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        if (s->steps[i].kind == STEP_COMMIT || s->steps[i].kind == STEP_BLOCK)
            return 1;
    return 0;
}

static semel_status note_failure(exchange *t, const maria_step *s, int commit_sent,
                                 semel_error *err)
{
    maria_connection *on = t->on;
    unsigned number = mysql_errno(on->my);
    semel_status status = maria_fail(on, t->doing, err);
    t->failed = (maria_failure){.number = number, .kind = s->kind};
    t->failed.at = on->out.steps ? (size_t)(s - on->out.steps) : 0;
    t->failed.unknown =
        commit_sent && (on->lost || (s->kind == STEP_COMMIT && !maria_is_conflict(number)));
    return status;
}

/* One text, from the first step on. */
static semel_status send_steps(exchange *t, size_t first, size_t count, semel_error *err)
{
    maria_connection *on = t->on;
    const maria_script *s = &on->out;
    size_t start = s->steps[first].start, end = maria_script_end(s, first + count - 1);
    if (mysql_send_query(on->my, s->text.bytes + start, end - start))
        return note_failure(t, &s->steps[first], 0, err);
    int commit_sent = has_commit(s, first, count);
    for (size_t i = first; i < first + count; i++) {
        const maria_step *at = &s->steps[i];
        int code = i == first ? mysql_read_query_result(on->my) != 0 : mysql_next_result(on->my);
        if (code != 0) /* less: fewer answers than statements, which is no success */
            return note_failure(t, at, commit_sent, err);
        semel_status status = accept_answer(t, at, err);
        if (status)
            return note_failure(t, at, commit_sent, err);
    }
    return SEMEL_OK;
}

static semel_status send_all(exchange *t, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t at = 0, count; !status && at < t->on->out.count; at += count) {
        count = steps_together(t->on, at);
        status = send_steps(t, at, count, err);
    }
    return status;
}

static semel_status send_bounded(exchange *t, semel_error *err)
{
    maria_library_call call;
    maria_enter(&call, t->on);
    semel_status status = send_all(t, err);
    maria_leave(&call);
    return status;
}

/* The answer to an earlier ROLLBACK, which cannot fail but with the connection. */
static void settle_debt(maria_connection *on)
{
    if (!on->owes)
        return;
    maria_library_call call;
    maria_enter(&call, on);
    on->lost |= mysql_read_query_result(on->my) != 0;
    maria_leave(&call);
    on->owes = 0;
}

/* Nothing of the unit has happened: its text is still here, and a new session may take it. */
static int may_redial(const exchange *t)
{
    return t->on->lost && t->on->fresh && t->on->at && !t->answered && !t->failed.unknown &&
           t->failed.number != ER_NET_PACKET_TOO_LARGE &&
           t->failed.number != CR_COMMANDS_OUT_OF_SYNC;
}

static semel_status redial(maria_connection *on, semel_error *err)
{
    maria_script kept = on->out;
    maria_session_mode mode = on->mode;
    on->out = (maria_script){0};
    maria_hang_up(on);
    semel_status status = maria_dial(on, on->limits.busy_ms, err);
    if (!status && maria_enqueue_mode(on, mode)) /* the statements before rely on it */
        status = maria_flush(on, NULL, "preparing a session", err);
    maria_script_free(&on->out);
    on->out = kept;
    on->lost = status != SEMEL_OK;
    return status;
}

static semel_status flush_steps(exchange *t, semel_error *err)
{
    maria_connection *on = t->on;
    if (on->out.failed)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for statements");
    if (!on->my)
        return semel_fail(err, SEMEL_EUNAVAILABLE, "mariadb, %s: the connection is lost", t->doing);
    settle_debt(on);
    semel_status status = on->lost ? note_failure(t, on->out.steps, 0, err) : send_bounded(t, err);
    if (status && may_redial(t)) {
        t->failed = (maria_failure){0};
        status = redial(on, err);
        if (!status)
            status = send_bounded(t, err);
    }
    on->fresh = 0;
    return status;
}

semel_status maria_flush(maria_connection *on, maria_failure *failed, const char *doing,
                         semel_error *err)
{
    semel_error local;
    exchange t = {.on = on, .doing = doing};
    semel_status status =
        on->out.count || on->out.failed ? flush_steps(&t, err ? err : &local) : SEMEL_OK;
    maria_script_clear(&on->out);
    if (failed)
        *failed = t.failed;
    if (status || !t.refused)
        return status;
    if (err)
        *err = t.why;
    return t.refused;
}

/* --- between conversations -------------------------------------------------------------------- */

void maria_push_rollback(maria_connection *on)
{
    static const char text[] = "ROLLBACK";
    maria_script_clear(&on->out);
    settle_debt(on);
    maria_library_call call;
    maria_enter(&call, on);
    on->lost |= mysql_send_query(on->my, text, sizeof text - 1) != 0;
    maria_leave(&call);
    on->owes = !on->lost;
}

int maria_execute(maria_connection *on, const char *text)
{
    maria_library_call call;
    maria_enter(&call, on);
    int failed = mysql_query(on->my, text);
    maria_leave(&call);
    return failed;
}

int maria_is_ready(const maria_connection *on)
{
    return on->my->status == MYSQL_STATUS_READY && !mysql_more_results(on->my);
}

/* A server says nothing by itself but goodbye. */
int maria_is_alive(void *state)
{
    maria_connection *on = state;
    if (on->lost || !on->my)
        return 0;
    settle_debt(on);
    struct pollfd peer = {.fd = mysql_get_socket(on->my), .events = POLLIN};
    return !on->lost && poll(&peer, 1, 0) == 0;
}
