/* Sending ahead, reading later.
 *
 * Every wait has an end, whatever the server does. The server is told how long to wait for locks
 * and gives up by itself, with an answer; nothing is ever cancelled, since a cancel might hit the
 * commit. The driver gives up on a server that does not answer at all when the time is over. libpq
 * sends without blocking, and what it has not sent is sent while the driver waits, so a long
 * pipeline cannot lock up.
 *
 * Answers are read in the order of the steps. A connection that is lost answers nothing: what was
 * sent and not answered may or may not have happened, and only the caller knows whether a COMMIT
 * was among it. */
#include "store/postgres/connection.h"

#include "base/wait.h"

#include <libpq-events.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- opening ---------------------------------------------------------------------------------- */

/* By the protocol's tag of what was done. ROLLBACK TO has the tag of ROLLBACK. */
static int ends_transaction(const char *tag)
{
    return strcmp(tag, "COMMIT") == 0 || strcmp(tag, "ROLLBACK") == 0 ||
           strcmp(tag, "BEGIN") == 0 || strcmp(tag, "START TRANSACTION") == 0 ||
           strcmp(tag, "PREPARE TRANSACTION") == 0;
}

/* Sees every result, also those of the handler's own statements: a conflict dooms the unit even if
 * the handler does not say so, and a statement that may have ended the transaction is noted, so
 * that it is checked. */
static int on_event(PGEventId id, void *info, void *context)
{
    pg_connection *on = context;
    if (id != PGEVT_RESULTCREATE)
        return 1;
    PGresult *result = ((PGEventResultCreate *)info)->result;
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    on->ended |= ends_transaction(PQcmdStatus(result));
    if (state && strlen(state) == 5)
        memcpy(on->last_error, state, 6);
    if (state && (strcmp(state, "40001") == 0 || strcmp(state, "40P01") == 0))
        memcpy(on->conflict, state, 6);
    return 1;
}

/* An operator has cut the wait for the synchronous standby short: the commit has happened here, and
 * perhaps nowhere else. This warning has the SQLSTATE of all warnings, so it is recognised by the
 * function of the server that raised it, whose name is never translated. */
static void on_notice(void *context, const PGresult *notice)
{
    pg_connection *on = context;
    const char *from = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);
    on->unreplicated |= from && strcmp(from, "SyncRepWaitForLSN") == 0;
}

/* The SQLSTATE in a verbose message: "FATAL:  28P01: ...", five capital letters and digits between
 * colons. It is the only place where libpq tells it for a connection that failed. "" if the server
 * did not answer. */
static void find_sqlstate(char state[6], const char *text)
{
    static const char code[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    state[0] = 0;
    for (const char *at = text; (at = strstr(at, ":  ")); at += 3)
        if (strspn(at + 3, code) == 5 && at[8] == ':') {
            memcpy(state, at + 3, 5);
            state[5] = 0;
        }
}

/* The server chooses the text of a refusal, and libpq passes it on. A password that is also one of
 * the names is no secret. */
static int contains_password(const PGconn *pg, const char *text)
{
    const char *password = PQpass(pg), *names[] = {PQuser(pg), PQdb(pg), PQhost(pg)};
    if (!password || !*password || !strstr(text, password))
        return 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i] && strcmp(names[i], password) == 0)
            return 0;
    return 1;
}

/* A server that cannot be reached may be there later; a login that is refused now will be refused
 * later, too. */
static semel_status fail_refused(const pg_connection *on, semel_error *err)
{
    char state[6];
    const char *text = PQerrorMessage(on->pg);
    find_sqlstate(state, text);
    int final = pg_in_class(state, "28") || pg_in_class(state, "3D") || pg_in_class(state, "42") ||
                PQconnectionNeedsPassword(on->pg);
    if (contains_password(on->pg, text))
        text = "the answer has the password in it, and is not shown";
    semel_status status =
        semel_fail(err, final ? SEMEL_EINVAL : SEMEL_EUNAVAILABLE, "postgres, connecting: %.*s%s",
                   pg_first_line(text), text, final ? pg_advice(state[0] ? state : "28") : "");
    if (err)
        memcpy(err->sqlstate, state, 6);
    return status;
}

/* libpq connects step by step, so that the deadline is ours. 1 if it is connected. */
static int connect_until(PGconn *pg, int64_t deadline_ms)
{
    PostgresPollingStatusType wants = PGRES_POLLING_WRITING;
    while (wants != PGRES_POLLING_OK && wants != PGRES_POLLING_FAILED) {
        struct pollfd socket = {.fd = PQsocket(pg),
                                .events = wants == PGRES_POLLING_READING ? POLLIN : POLLOUT};
        int64_t left = deadline_ms - wait_clock_ms();
        if (left <= 0 || poll(&socket, 1, (int)left) == 0)
            return 0;
        wants = PQconnectPoll(pg);
    }
    return wants == PGRES_POLLING_OK;
}

static semel_status connect_to(pg_connection *on, const char *const *keywords,
                               const char *const *values, uint32_t wait_ms, semel_error *err)
{
    int64_t deadline = wait_clock_ms() + wait_ms;
    on->pg = PQconnectStartParams(keywords, values, 0);
    if (!on->pg)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a connection");
    PQsetErrorVerbosity(on->pg, PQERRORS_VERBOSE);
    if (PQstatus(on->pg) != CONNECTION_BAD && connect_until(on->pg, deadline)) {
        PQsetErrorVerbosity(on->pg, PQERRORS_DEFAULT);
        PQsetNoticeReceiver(on->pg, on_notice, on);
        return PQregisterEventProc(on->pg, on_event, "semel", on)
                   ? SEMEL_OK
                   : semel_fail(err, SEMEL_ENOMEM, "out of memory for a connection");
    }
    if (PQstatus(on->pg) != CONNECTION_BAD)
        return semel_fail(err, SEMEL_EUNAVAILABLE,
                          "postgres, connecting: no answer from %s within %u ms", PQhost(on->pg),
                          wait_ms);
    return fail_refused(on, err);
}

semel_status pg_connection_open(pg_connection **out, const char *const *keywords,
                                const char *const *values, const char *const *texts,
                                pg_limits bounds, uint32_t wait_ms, semel_error *err)
{
    pg_connection *on = mem_alloc(sizeof *on);
    if (!on)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a connection");
    on->texts = texts;
    on->limits = bounds;
    semel_status status = connect_to(on, keywords, values, wait_ms, err);
    if (status)
        pg_connection_close(on);
    else
        *out = on;
    return status;
}

static void free_parts(pg_connection *on)
{
    for (int i = 0; i < KEPT_STATEMENTS; i++)
        mem_free(on->kept[i].text);
    mem_free(on->steps);
    arena_free(&on->scratch);
}

void pg_connection_close(void *closed)
{
    pg_connection *on = closed;
    PQfinish(on->pg);
    free_parts(on);
    mem_free(on);
}

/* A server sends nothing on an idle connection, except answers that have not been read yet, and the
 * end of the connection. */
int pg_connection_is_alive(void *asked)
{
    pg_connection *on = asked;
    struct pollfd socket = {.fd = PQsocket(on->pg), .events = POLLIN};
    for (int looks = 0; looks < 4 && poll(&socket, 1, 0) > 0; looks++)
        if (!PQconsumeInput(on->pg))
            return 0;
    return !on->lost && PQstatus(on->pg) == CONNECTION_OK;
}

void pg_connection_check(pg_connection *on)
{
    if (!on->step_count && !on->lost)
        on->lost = !pg_connection_is_alive(on);
}

void pg_connection_borrow(pg_connection *on, PGconn *pg, const char *const *texts, pg_limits bounds)
{
    *on = (pg_connection){.pg = pg,
                          .borrowed = 1,
                          .texts = texts,
                          .limits = bounds,
                          .was_nonblocking = PQisnonblocking(pg)};
}

void pg_connection_return(pg_connection *on)
{
    (void)pg_connection_leave_pipeline(on, NULL);
    free_parts(on);
    on->steps = NULL;
}

/* --- sending ---------------------------------------------------------------------------------- */

int pg_connection_enter_pipeline(pg_connection *on)
{
    if (on->refusal)
        return 0;
    if (!on->lost && PQpipelineStatus(on->pg) == PQ_PIPELINE_OFF)
        on->lost = !PQenterPipelineMode(on->pg) || PQsetnonblocking(on->pg, 1) != 0;
    return !on->lost;
}

/* As a caller that uses libpq directly expects it. */
static int exit_pipeline(pg_connection *on)
{
    return PQexitPipelineMode(on->pg) && PQsetnonblocking(on->pg, on->was_nonblocking) == 0;
}

static int make_room(pg_connection *on)
{
    if (on->step_count < on->step_room)
        return 1;
    size_t room = on->step_room ? on->step_room * 2 : 16;
    pg_step *steps = mem_resize(on->steps, room * sizeof *steps);
    if (!steps)
        return 0;
    on->steps = steps;
    on->step_room = room;
    return 1;
}

/* Without a note of it the answers could not be told apart: the connection is given up. */
void pg_connection_add_step(pg_connection *on, const pg_step *added, int sent)
{
    if (!sent || !make_room(on)) {
        on->lost = 1;
        return;
    }
    on->steps[on->step_count++] = *added;
    on->unsynced = added->kind != STEP_SYNC;
}

void pg_connection_push(pg_connection *on)
{
    if (on->bounded)
        pg_patience(on, on->patience);
    on->bounded = 0;
    if (!on->lost && on->unsynced)
        pg_connection_add_step(on, &(pg_step){.kind = STEP_SYNC}, PQpipelineSync(on->pg));
}

/* --- reading ---------------------------------------------------------------------------------- */

/* The next answer; NULL, and the connection is lost, if it does not come in time. What libpq has
 * not sent yet is sent meanwhile: a server that does not read must not keep us either. */
static PGresult *next_result(pg_connection *on)
{
    while (PQisBusy(on->pg)) {
        int unsent = PQflush(on->pg);
        struct pollfd socket = {.fd = PQsocket(on->pg),
                                .events = (short)(unsent > 0 ? POLLIN | POLLOUT : POLLIN)};
        int64_t left = on->deadline_ms - wait_clock_ms();
        if (unsent < 0)
            break;
        if (left <= 0) {
            on->silent = on->lost = 1;
            return NULL;
        }
        if (poll(&socket, 1, left < INT_MAX ? (int)left : INT_MAX) > 0 &&
            (socket.revents & ~POLLOUT) && !PQconsumeInput(on->pg))
            break;
    }
    return PQgetResult(on->pg);
}

static void set_deadline(pg_connection *on, uint32_t wait_ms)
{
    const pg_limits *l = &on->limits;
    int64_t locks_ms = wait_ms > l->busy_ms ? wait_ms : l->busy_ms;
    on->deadline_ms = wait_clock_ms() + locks_ms + l->answer_ms;
}

static int is_good(ExecStatusType status)
{
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_PIPELINE_SYNC;
}

/* What was thought to be prepared is not. */
static void unprepare(pg_connection *on, const pg_step *at)
{
    if (at->kind == STEP_QUEUED)
        pg_queued_distrust(on, at->number);
    if (at->kind == STEP_PREPARE && at->which < ST_COUNT)
        on->prepared[at->which] = 0;
    else if (at->kind == STEP_PREPARE)
        pg_queued_forget(on, at->number);
}

/* "cached plan must not change result type": a table was changed after the statement had been
 * prepared. On a new connection it is prepared anew; if it fails there, too, the reason was another
 * one. */
static semel_status prepare_anew(pg_connection *on, semel_error *err)
{
    on->lost = 1;
    if (err) {
        err->status = SEMEL_ECONFLICT;
        err->retryable = 1;
    }
    return SEMEL_ECONFLICT;
}

static void note_failure(pg_connection *on, const pg_step *at, const PGresult *result,
                         pg_failure *first, const char *doing, semel_error *err,
                         semel_status *status)
{
    if (*status || (!on->lost && at < on->steps + on->stale))
        return;
    *status = pg_fail(on, result, at->kind == STEP_CHECK ? NULL : doing, err);
    const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *place = result ? PQresultErrorField(result, PG_DIAG_STATEMENT_POSITION) : NULL;
    *first = (pg_failure){.kind = at->kind, .which = at->which};
    first->position = place ? (int)strtol(place, NULL, 10) : 0;
    first->is_final = result && pg_is_final(result);
    if (state && strlen(state) == 5)
        memcpy(first->sqlstate, state, 6);
    if (at->reused && state && pg_in_class(state, "0A000"))
        *status = prepare_anew(on, err);
}

/* What is committed by the sync itself may fail there: then an error and a NULL come before its
 * answer. */
static PGresult *skip_to_sync(pg_connection *on, PGresult *failed)
{
    for (int looks = 0; looks < 4 && !on->lost; looks++) {
        PGresult *result = next_result(on);
        int found = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        PQclear(result);
        if (found)
            return failed;
    }
    on->lost = 1;
    return failed;
}

/* One step's answer. A statement's is followed by a NULL, that of a sync is not. */
static int read_step(pg_connection *on, const pg_step *at, pg_failure *first, const char *doing,
                     semel_error *err, semel_status *status)
{
    PGresult *result = next_result(on);
    ExecStatusType got = PQresultStatus(result);
    if (!result || PQstatus(on->pg) == CONNECTION_BAD)
        on->lost = 1;
    if (!on->lost && at->kind == STEP_SYNC && got != PGRES_PIPELINE_SYNC)
        result = skip_to_sync(on, result);
    if (!on->lost && got == PGRES_PIPELINE_ABORTED && !*status && at >= on->steps + on->stale)
        on->lost = 1; /* skipped for the sake of a failure that was not ours */
    if (on->lost || !is_good(got)) {
        if (on->lost || got != PGRES_PIPELINE_ABORTED)
            note_failure(on, at, result, first, doing, err, status);
        unprepare(on, at);
    } else if (at->answer && at >= on->steps + on->stale) { /* else its place is gone */
        *at->answer = result;
        result = NULL;
    }
    PQclear(result);
    if (!on->lost && at->kind != STEP_SYNC) {
        PGresult *end = next_result(on);
        on->lost = end != NULL;
        PQclear(end);
    }
    return !on->lost;
}

semel_status pg_flush(pg_connection *on, uint32_t wait_ms, pg_failure *failed, const char *doing,
                      semel_error *err)
{
    semel_status status = SEMEL_OK;
    pg_failure first = {.kind = STEP_PLAIN};
    if (failed)
        *failed = first;
    if (on->refusal && err)
        *err = on->refusal_is;
    if (on->refusal)
        return on->refusal;
    pg_connection_push(on);
    set_deadline(on, wait_ms);
    size_t read = 0;
    while (!on->lost && read < on->step_count)
        if (!read_step(on, &on->steps[read++], &first, doing, err, &status))
            break;
    on->step_count = on->stale = 0;
    on->unsynced = 0;
    if (on->borrowed && !on->lost) /* its owner need not know that it was */
        (void)exit_pipeline(on);
    if (on->lost && !status)
        status = pg_fail_unreachable(on, doing, err);
    if (failed)
        *failed = first;
    return status;
}

semel_status pg_connection_leave_pipeline(pg_connection *on, semel_error *err)
{
    semel_status status = on->step_count ? pg_flush(on, 0, NULL, "catching up", err) : SEMEL_OK;
    if (status)
        return status;
    if (!exit_pipeline(on))
        return pg_fail_unreachable(on, "leaving pipeline mode", err);
    return SEMEL_OK;
}

semel_status pg_execute_text(pg_connection *on, const char *text, uint32_t wait_ms,
                             const char *doing, semel_error *err)
{
    semel_status status = pg_connection_leave_pipeline(on, err);
    if (status)
        return status;
    set_deadline(on, wait_ms);
    on->lost = !PQsendQuery(on->pg, text);
    for (PGresult *result; !on->lost && (result = next_result(on)) != NULL; PQclear(result))
        if (!status && !is_good(PQresultStatus(result)))
            status = pg_fail(on, result, doing, err);
    return on->lost && !status ? pg_fail_unreachable(on, doing, err) : status;
}
