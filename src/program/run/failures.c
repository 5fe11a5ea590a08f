/* See failures.h. The caller has the lock. */
#include "program/run/failures.h"

#include "program/handler/environment.h"
#include "program/support/digest.h"
#include "program/support/show.h"
#include "program/trace/context.h"

#include <semel/operate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS_MAX = 64, MINUTE_MS = 60000, ERROR_SHOWN_MAX = 300, HASHED = 12 };
enum { ID_SIZE = 9 };

typedef struct failure_kind {
    uint32_t number;                 /* semel_cause(); 0: the place is free */
    char id[ID_SIZE];                /* the number, as it is shown */
    char *name;                      /* of the inbox or outbox */
    char *cause;                     /* semel_cause_text(), as it is shown */
    uint64_t failed, dead;           /* in all */
    uint64_t more_failed, more_dead; /* since the last line */
    int64_t last_ms;                 /* of the last failure */
    int64_t line_ms;                 /* of the last line */
} failure_kind;

struct failures {
    log *log;
    failure_kind kinds[KINDS_MAX];
};

failures *failures_open(log *l)
{
    failures *f = must_alloc(sizeof *f);
    f->log = l;
    return f;
}

static void forget_kind(failure_kind *kind)
{
    free(kind->name);
    free(kind->cause);
    *kind = (failure_kind){0};
}

void failures_close(failures *f)
{
    for (size_t i = 0; i < KINDS_MAX; i++)
        forget_kind(&f->kinds[i]);
    free(f);
}

/* The place of this kind, or a free one, or, if all are taken, the last: kinds share it then. */
static failure_kind *find_kind(failures *f, uint32_t number)
{
    failure_kind *free_one = NULL;
    for (size_t i = 0; i < KINDS_MAX; i++) {
        failure_kind *kind = &f->kinds[i];
        if (kind->number == number)
            return kind;
        if (!kind->number && !free_one)
            free_one = kind;
    }
    return free_one ? free_one : &f->kinds[KINDS_MAX - 1];
}

/* --- lines ------------------------------------------------------------------------------------ */

void failures_key(buffer *to, const log *l, semel_bytes key)
{
    region memory = {0};
    if (!key.len) {
        buffer_text(to, "-");
    } else if (log_shows_keys(l)) {
        buffer_text(to, environment_key(&memory, key));
    } else {
        char digits[DIGEST_HEX_SIZE];
        digest_hex(digits, key.data, key.len);
        buffer_add(to, digits, HASHED);
    }
    region_free(&memory);
}

uint32_t failures_attempts_max(uint32_t attempt, failure_terms terms)
{
    return attempt <= terms.attempts_max ? terms.attempts_max : 0;
}

void failures_error(buffer *to, const semel_event *event, failure_terms terms)
{
    const char *why = event->error ? event->error : semel_outcome_name(event->outcome);
    char cause[SEMEL_CAUSE_TEXT_SIZE];
    if (terms.hides_values) {
        (void)semel_cause_text(cause, sizeof cause, why);
        why = cause;
    }
    show_text(to, why, strlen(why), ERROR_SHOWN_MAX);
}

/* ", retry in 0.2 s" */
static void add_retry(buffer *to, uint32_t retry_ms)
{
    enum { MS_PER_S = 1000, TENTHS = 10, LONG_MS = 60000 };
    if (!retry_ms)
        return;
    buffer_text(to, ", retry in ");
    if (retry_ms < MS_PER_S / TENTHS)
        buffer_printf(to, "%u ms", retry_ms);
    else if (retry_ms < LONG_MS)
        buffer_printf(to, "%.1f s", (double)retry_ms / MS_PER_S);
    else
        show_duration(to, (int64_t)retry_ms * 1000000);
}

static void describe_first(buffer *to, const char *key, const semel_event *event, uint32_t max)
{
    if (event->outcome == SEMEL_FAILED) {
        buffer_printf(to, "%s failed, attempt %u", key, event->attempt);
        if (max)
            buffer_printf(to, " of %u", max);
        add_retry(to, event->retry_ms);
    } else if (event->attempt) {
        buffer_printf(to, "%s dead after %u attempt%s", key, event->attempt,
                      event->attempt == 1 ? "" : "s");
    } else {
        buffer_text(to, key);
        if (event->refused)
            buffer_printf(to, " refused (%s),", semel_outcome_name(event->refused));
        buffer_text(to, " kept as a dead letter");
    }
    if (event->letter)
        buffer_printf(to, ", letter %lld", (long long)event->letter);
}

/* Where the letter is: "; see: semel dead show 2101", or, if its number is not known, "semel dead
 * ls --inbox invoices --key 20688". The letter of a message that no handler saw is not kept under
 * its key, since others may have the same. */
static void add_hint(buffer *to, const log *l, const char *key, const semel_event *event)
{
    int is_sent = event->kind == SEMEL_EVENT_SENT;
    if (event->letter)
        buffer_printf(to, "; see: semel dead show %lld", (long long)event->letter);
    if (event->outcome != SEMEL_DEAD || event->letter)
        return;
    buffer_printf(to, "; see: semel dead ls %s ", is_sent ? "--outbox" : "--inbox");
    show_argument(to, event->name);
    if (is_sent || !event->attempt || !event->key.len || !log_shows_keys(l))
        return;
    buffer_text(to, " --key ");
    show_argument(to, key);
}

static void add_text(log_entry *to, const char *name, const char *text)
{
    size_t i = 0;
    while (to->fields[i].name)
        i++;
    if (text)
        to->fields[i] = (log_field){name, text, 0};
}

static void add_number(log_entry *to, const char *name, int64_t number)
{
    size_t i = 0;
    while (to->fields[i].name)
        i++;
    to->fields[i] = (log_field){name, NULL, number};
}

/* What the JSON form says of a message that was received; `memory` keeps the texts. */
static void add_message(log_entry *to, region *memory, const log *l, const semel_event *event)
{
    buffer id = {0};
    const char *trace =
        environment_traceparent(memory, semel_message_header(event->message, "traceparent"));
    failures_key(&id, l, event->message->id);
    add_text(to, "message_id", region_copy(memory, id.data, id.len));
    add_text(to, "type", event->message->type);
    if (trace)
        add_text(to, "trace_id", region_copy(memory, trace + TRACE_ID_AT, TRACE_ID_HEX));
    buffer_free(&id);
}

static void add_attempt(log_entry *to, const semel_event *event, failure_terms terms)
{
    add_number(to, "attempt", event->attempt);
    uint32_t max = failures_attempts_max(event->attempt, terms);
    if (max && event->outcome == SEMEL_FAILED)
        add_number(to, "attempts_max", max);
    if (event->retry_ms)
        add_number(to, "retry_in_ms", event->retry_ms);
    if (event->letter)
        add_number(to, "letter", event->letter);
}

static void write_first(failures *f, const failure_kind *kind, const semel_event *event,
                        failure_terms terms)
{
    region memory = {0};
    buffer key = {0}, text = {0}, error = {0};
    int is_sent = event->kind == SEMEL_EVENT_SENT;
    failures_key(&key, f->log, is_sent ? event->message->id : event->key);
    failures_error(&error, event, terms);
    describe_first(&text, key.data, event, failures_attempts_max(event->attempt, terms));
    buffer_printf(&text, ": %s", error.data);
    add_hint(&text, f->log, key.data, event);
    log_entry entry = {.level = LOG_WARNING,
                       .event = event->outcome == SEMEL_DEAD ? "dead" : "failed",
                       .subject = event->name,
                       .msg = error.data,
                       .text = text.data,
                       .fields = {{is_sent ? "outbox" : "inbox", event->name, 0}}};
    add_text(&entry, "key", is_sent ? NULL : key.data);
    add_message(&entry, &memory, f->log, event);
    add_text(&entry, "outcome", semel_outcome_name(event->outcome));
    add_attempt(&entry, event, terms);
    add_text(&entry, "cause", kind->id);
    log_write(f->log, &entry);
    buffer_free(&key);
    buffer_free(&text);
    buffer_free(&error);
    region_free(&memory);
}

static void write_more(failures *f, failure_kind *kind, int64_t now_ms)
{
    buffer text = {0};
    show_number(&text, kind->more_failed);
    buffer_text(&text, " more failed, ");
    show_number(&text, kind->more_dead);
    buffer_printf(&text, " more dead in the last minute: %s", kind->cause);
    log_write(f->log, &(log_entry){.level = LOG_WARNING,
                                   .event = "repeated",
                                   .subject = kind->name,
                                   .msg = kind->cause,
                                   .text = text.data,
                                   .fields = {{"inbox", kind->name, 0},
                                              {"cause", kind->id, 0},
                                              {"failed", NULL, (int64_t)kind->more_failed},
                                              {"dead", NULL, (int64_t)kind->more_dead},
                                              {"over_ms", NULL, now_ms - kind->line_ms}}});
    kind->more_failed = kind->more_dead = 0;
    kind->line_ms = now_ms;
    buffer_free(&text);
}

static void write_quiet(failures *f, const failure_kind *kind)
{
    buffer text = {0}, since = {0};
    show_clock(&since, kind->last_ms);
    buffer_printf(&text, "no failures since %.8s (", since.data);
    show_number(&text, kind->failed);
    buffer_text(&text, " failed, ");
    show_number(&text, kind->dead);
    buffer_printf(&text, " dead): %s", kind->cause);
    log_write(f->log, &(log_entry){.level = LOG_INFO,
                                   .event = "quiet",
                                   .subject = kind->name,
                                   .msg = kind->cause,
                                   .text = text.data,
                                   .fields = {{"inbox", kind->name, 0},
                                              {"cause", kind->id, 0},
                                              {"failed", NULL, (int64_t)kind->failed},
                                              {"dead", NULL, (int64_t)kind->dead}}});
    buffer_free(&text);
    buffer_free(&since);
}

/* --- events ----------------------------------------------------------------------------------- */

static void count_failure(failure_kind *kind, const semel_event *event, int folded)
{
    int dead = event->outcome != SEMEL_FAILED;
    kind->dead += (uint64_t)dead;
    kind->failed += (uint64_t)!dead;
    if (folded) {
        kind->more_dead += (uint64_t)dead;
        kind->more_failed += (uint64_t)!dead;
    }
}

static void begin_kind(failure_kind *kind, uint32_t number, const char *name, const char *why)
{
    char text[SEMEL_CAUSE_TEXT_SIZE];
    buffer shown = {0};
    size_t len = semel_cause_text(text, sizeof text, why);
    buffer_text(&shown, "");
    show_text(&shown, text, len, 0);
    *kind = (failure_kind){.number = number, .line_ms = wall_clock_ms()};
    (void)snprintf(kind->id, sizeof kind->id, "%08x", (unsigned)number);
    kind->name = must_copy(name);
    kind->cause = shown.data;
}

/* The first of its kind: an inbox or outbox, a cause, and whether it is tried again. */
static int is_first(const failure_kind *kind, const semel_event *event)
{
    return !(event->outcome == SEMEL_FAILED ? kind->failed : kind->dead);
}

void failures_add(failures *f, const semel_event *event, failure_terms terms)
{
    const char *why = event->error ? event->error : semel_outcome_name(event->outcome);
    uint32_t number = semel_cause(event->name, why);
    failure_kind *kind = find_kind(f, number);
    int first = is_first(kind, event);
    if (!kind->number)
        begin_kind(kind, number, event->name, why);
    kind->last_ms = wall_clock_ms();
    count_failure(kind, event, !first);
    if (first)
        write_first(f, kind, event, terms);
}

void failures_tick(failures *f, int64_t now_ms)
{
    for (size_t i = 0; i < KINDS_MAX; i++) {
        failure_kind *kind = &f->kinds[i];
        if (!kind->number)
            continue;
        if (kind->more_failed + kind->more_dead && now_ms - kind->line_ms >= MINUTE_MS)
            write_more(f, kind, now_ms);
        if (now_ms - kind->last_ms < MINUTE_MS)
            continue;
        if (kind->failed + kind->dead > 1)
            write_quiet(f, kind);
        forget_kind(kind);
    }
}

void failures_flush(failures *f)
{
    for (size_t i = 0; i < KINDS_MAX; i++)
        if (f->kinds[i].number && f->kinds[i].more_failed + f->kinds[i].more_dead)
            write_more(f, &f->kinds[i], wall_clock_ms());
}
