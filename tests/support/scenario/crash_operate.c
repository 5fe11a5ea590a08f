/* The workflows of crash.h about what operators do: a message is woken or skipped, a retry is asked
 * for and taken, with an entry in the audit. */
#include "support/scenario/crash.h"

#include "support/process/process.h"

#include <semel/operate.h>
#include <string.h>

#define REQUIRE(condition)  PROCESS_REQUIRE(condition)
#define REQUIRE_OK(w, call) PROCESS_REQUIRE_OK(call, &(w)->err)

typedef struct searched {
    const char *key;
    int64_t seq; /* 0: it is not there */
    int64_t count;
} searched;

static semel_status see(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    searched *s = context;
    semel_bytes key = outgoing->message->correlation_id;
    (void)err;
    if (key.len == strlen(s->key) && memcmp(key.data, s->key, key.len) == 0) {
        s->seq = outgoing->seq;
        s->count++;
    }
    return SEMEL_OK;
}

/* The number of the message in the outbox. */
static searched find(crash_world *w, const char *key)
{
    searched s = {.key = key};
    REQUIRE_OK(w, semel_outbox_list(w->outbox, NULL, see, &s, &w->err));
    return s;
}

/* --- skipping --------------------------------------------------------------------------------- */

void crash_prepare_skip(crash_world *w)
{
    crash_send(w, "first", "refused", "g");
    crash_send(w, "second", "out", "g");
}

/* The message is in the outbox or a letter, never both and never neither. */
void crash_run_skip(crash_world *w)
{
    searched first = find(w, "first");
    REQUIRE(first.count + (crash_letter(w) != 0) == 1);
    if (first.seq)
        REQUIRE_OK(
            w, semel_outbox_skip(NULL, w->outbox, first.seq, semel_str(""), "refused", &w->err));
    REQUIRE(!find(w, "first").count && crash_letter(w));
}

/* --- waking ----------------------------------------------------------------------------------- */

enum { DELAY_MS = 20 * CRASH_LEASE_MS };

void crash_prepare_wake(crash_world *w)
{
    semel_message message = crash_message("late");
    message.topic = "out";
    message.group = "g";
    message.delay_ms = DELAY_MS;
    REQUIRE_OK(w, semel_outbox_send(w->outbox, &message, &w->err));
}

void crash_run_wake(crash_world *w)
{
    searched late = find(w, "late");
    size_t sent = 0;
    if (!late.seq)
        return;
    REQUIRE_OK(w, semel_outbox_wake(w->outbox, late.seq, semel_str(""), &w->err));
    REQUIRE_OK(w, semel_relay_step(&sent, w->relay, 0, &w->err));
    REQUIRE(sent == 1);
}

/* --- a retry ---------------------------------------------------------------------------------- */

static void take_and_replay(crash_world *w, int64_t id)
{
    semel_outcome outcome;
    REQUIRE_OK(w, semel_dead_set_retry(w->base.store, id, SEMEL_RETRY_NONE, SEMEL_RETRY_ASKED, NULL,
                                       &w->err));
    REQUIRE_OK(w, semel_dead_set_retry(w->base.store, id, SEMEL_RETRY_ASKED, SEMEL_RETRY_BEGUN,
                                       NULL, &w->err));
    REQUIRE_OK(w, semel_inbox_replay(&outcome, w->inbox, id, crash_handler, w, &w->err));
    REQUIRE(outcome == SEMEL_PROCESSED);
}

void crash_run_retry(crash_world *w)
{
    semel_audit entry = {.size = sizeof entry, .who = "ops", .what = "dead retry"};
    int64_t id = crash_letter(w);
    w->forgive = 1;
    REQUIRE_OK(w, semel_audit_write(&entry, w->base.store, &w->err));
    if (id)
        take_and_replay(w, id);
    entry.result = "done";
    entry.count = 1;
    REQUIRE_OK(w, semel_audit_write(&entry, w->base.store, &w->err));
}
