/* Spans of time are many grains long, and no two of them can be confused: a lease, a backoff and
 * the retention are over after some passings and not after others, whatever the clock is. Messages
 * of no group may leave in any order, so what a relay sent is sorted, group by group. */
#include "support/conformance/agree.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 40, KEYS = 5, SENT_MAX = 64, ID_ROOM = 16 };

typedef struct history {
    store_fixture *f;
    char *out;
    size_t len;
    uint64_t random;
    semel_inbox *inbox;
    semel_outbox *outbox;
    semel_transport *recorder;
    semel_relay *relay;
    size_t recorded;
    int64_t made_ms[KEYS];
    unsigned sends;
} history;

static unsigned below(history *h, unsigned bound)
{
    uint64_t z = h->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (unsigned)((z ^ (z >> 31)) % bound);
}

static void say(history *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(history *h, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int wrote = vsnprintf(h->out + h->len, AGREE_ROOM - h->len, format, arguments);
    va_end(arguments);
    assert_true(wrote >= 0 && h->len + (size_t)wrote < AGREE_ROOM);
    h->len += (size_t)wrote;
}

/* --- messages --------------------------------------------------------------------------------- */

static semel_message incoming(history *h, char id[ID_ROOM])
{
    unsigned key = below(h, KEYS);
    (void)snprintf(id, ID_ROOM, "m-%u", key);
    semel_message message = text_message(id, "10 EUR");
    if (!h->made_ms[key])
        h->made_ms[key] = wall_of(h->f);
    message.time_ms = h->made_ms[key];
    message.delivery = 1 + below(h, 2);
    return message;
}

static semel_message outgoing(history *h, char id[ID_ROOM])
{
    static const char *const groups[] = {NULL, "one", "two"};
    static const char *const topics[] = {"none", "one", "two"};
    unsigned group = below(h, 3);
    (void)snprintf(id, ID_ROOM, "o-%02u", h->sends++);
    semel_message message = text_message(id, "label");
    message.group = groups[group];
    message.topic = topics[group];
    if (below(h, 5) == 0)
        message.delay_ms = grains(h->f, 500);
    return message;
}

static scripted_handler script(history *h, semel_message *sends, char id[ID_ROOM])
{
    scripted_handler work = {.failures = below(h, 4) == 0};
    if (below(h, 12) == 0)
        work.failures = 1, work.failure = SEMEL_EGIVEUP;
    if (below(h, 2)) {
        *sends = outgoing(h, id);
        work.outbox = h->outbox;
        work.sends = sends;
    }
    return work;
}

/* --- steps ------------------------------------------------------------------------------------ */

static void receive(history *h)
{
    char id[ID_ROOM], sent_id[ID_ROOM];
    semel_message message = incoming(h, id), sends;
    scripted_handler work = script(h, &sends, sent_id);
    semel_outcome outcome;
    semel_status status =
        semel_inbox_receive(&outcome, h->inbox, &message, scripted_handler_run, &work, &last_error);
    say(h, "receive %s, delivery %u: %s, %s, runs %u, attempt %u\n", id, message.delivery,
        semel_status_name(status), semel_outcome_name(outcome), work.runs, work.attempt);
}

static void receive_batch(history *h)
{
    char ids[3][ID_ROOM];
    semel_message messages[3];
    const semel_message *pointers[3];
    semel_outcome outcomes[3];
    for (size_t i = 0; i < 3; i++) {
        messages[i] = incoming(h, ids[i]);
        pointers[i] = &messages[i];
    }
    scripted_handler work = {.failures = below(h, 3) == 0, .only = ids[1]};
    semel_status status = semel_inbox_receive_batch(outcomes, h->inbox, pointers, 3,
                                                    scripted_handler_run, &work, &last_error);
    say(h, "batch: %s", semel_status_name(status));
    for (size_t i = 0; i < 3; i++)
        say(h, ", %s %s", ids[i], semel_outcome_name(outcomes[i]));
    say(h, "\n");
}

static void step_by_step(history *h)
{
    char id[ID_ROOM];
    semel_message message = incoming(h, id);
    semel_unit *unit;
    semel_outcome outcome = SEMEL_UNDECIDED;
    OK(semel_unit_begin(&unit, h->f->base.store, &last_error));
    semel_status status = semel_unit_claim(&outcome, unit, h->inbox, &message, &last_error);
    say(h, "claim %s: %s, %s", id, semel_status_name(status), semel_outcome_name(outcome));
    unsigned end = below(h, 3);
    if (outcome != SEMEL_CLAIMED || end == 0) {
        semel_unit_rollback(unit);
        say(h, ", rolled back\n");
    } else if (end == 1) {
        OK(semel_unit_commit(unit, &last_error));
        say(h, ", committed\n");
    } else {
        semel_error why = {.status = SEMEL_EHANDLER, .text = "no paper"};
        OK(semel_unit_fail(&outcome, unit, &why, &last_error));
        say(h, ", failed: %s\n", semel_outcome_name(outcome));
    }
}

static void abandon(history *h)
{
    char id[ID_ROOM];
    semel_message message = incoming(h, id);
    if (h->f->mode != SEMEL_CLAIM)
        return;
    semel_outcome outcome = SEMEL_UNDECIDED;
    semel_unit *unit;
    OK(semel_unit_begin(&unit, h->f->base.store, &last_error));
    semel_status status = semel_unit_claim(&outcome, unit, h->inbox, &message, &last_error);
    say(h, "claim %s and be late: %s, %s", id, semel_status_name(status),
        semel_outcome_name(outcome));
    if (outcome != SEMEL_CLAIMED) {
        semel_unit_rollback(unit);
        say(h, "\n");
        return;
    }
    unsigned late = below(h, 2);
    pass_ms(h->f, grains(h->f, late ? 1300 : 300));
    status = semel_unit_commit(unit, &last_error);
    say(h, ", commit: %s\n", semel_status_name(status));
}

static void send(history *h)
{
    char id[ID_ROOM];
    semel_message message = outgoing(h, id);
    OK(semel_outbox_send(h->outbox, &message, &last_error));
    say(h, "send %s\n", id);
}

static int compare_sent(const void *one, const void *other)
{
    return strcmp(one, other);
}

/* "one" and "two" with their numbers in the order of sending, the others by name. */
static void relay(history *h)
{
    char lines[SENT_MAX][48];
    size_t count = 0;
    static const char *const topics[] = {"one", "two"};
    if (below(h, 3) == 0)
        semel_test_recorder_answer(h->recorder, topics[below(h, 2)], SEMEL_PUBLISH_NACKED, 1);
    size_t sent = relay_all(h->relay);
    for (; h->recorded < semel_test_recorder_count(h->recorder); h->recorded++) {
        const semel_message *m = semel_test_recorder_message(h->recorder, h->recorded);
        assert_true(count < SENT_MAX);
        if (m->group)
            (void)snprintf(lines[count], sizeof lines[count], "%s %03zu %.*s", m->group, count,
                           (int)m->id.len, (const char *)m->id.data);
        else
            (void)snprintf(lines[count], sizeof lines[count], "- %.*s", (int)m->id.len,
                           (const char *)m->id.data);
        count++;
    }
    qsort(lines, count, sizeof *lines, compare_sent);
    say(h, "relay: %zu", sent);
    for (size_t i = 0; i < count; i++) /* without the place among those of other groups */
        say(h, ", %.4s%s", lines[i], strrchr(lines[i], ' '));
    say(h, "\n");
}

static void sweep(history *h)
{
    size_t all = 0, swept;
    for (int more = 1; more; all += swept)
        OK(semel_inbox_sweep(&swept, &more, h->inbox, 2, &last_error));
    say(h, "sweep: %zu\n", all);
}

static void pass(history *h)
{
    static const unsigned spans[] = {300, 1300, 4300};
    unsigned span = spans[below(h, 3)];
    pass_ms(h->f, grains(h->f, span));
    say(h, "%u grains pass\n", span);
}

static void forget(history *h)
{
    char id[ID_ROOM];
    semel_message message = incoming(h, id);
    say(h, "forget %s: %s\n", id,
        semel_status_name(semel_inbox_forget(h->inbox, &message, &last_error)));
}

static void letters_of(history *h)
{
    letters all;
    letters_read(&all, h->f->base.store, NULL);
    say(h, "letters:");
    for (size_t i = 0; i < all.count; i++)
        say(h, " %.*s after %u", (int)all.all[i].key_len, all.all[i].key, all.all[i].attempts);
    say(h, "\n");
    if (all.count && below(h, 2)) {
        scripted_handler work = {.failures = below(h, 2)};
        semel_outcome outcome;
        semel_status status = semel_inbox_replay(&outcome, h->inbox, all.all[0].id,
                                                 scripted_handler_run, &work, &last_error);
        say(h, "replay: %s, %s\n", semel_status_name(status), semel_outcome_name(outcome));
    }
    letters_free(&all);
}

static void count(history *h)
{
    semel_counters counters = counters_of(h->f);
    say(h, "unsent %llu\n", (unsigned long long)counters.unsent);
}

/* --- a history -------------------------------------------------------------------------------- */

static void open_all(history *h)
{
    semel_inbox_options inbox = {.size = sizeof inbox,
                                 .attempts_max = 3,
                                 .lease_ms = grains(h->f, 1000),
                                 .retention_ms = grains(h->f, 4000),
                                 .clock_margin_ms = grains(h->f, 20),
                                 .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    semel_relay_options relay_options = {.size = sizeof relay_options,
                                         .lease_ms = grains(h->f, 1000),
                                         .backoff_ms = grains(h->f, 50),
                                         .backoff_max_ms = grains(h->f, 100),
                                         .attempts_max = 100};
    h->inbox = open_inbox(h->f, "orders", &inbox);
    h->outbox = open_outbox(h->f, "labels");
    h->recorder = open_recorder(h->f);
    h->relay = open_relay(h->f, h->outbox, h->recorder, &relay_options);
}

static void take_steps(history *h)
{
    static void (*const steps[])(history * h) = {
        receive,      receive, receive, receive, receive, send,   receive_batch, relay, relay,
        step_by_step, abandon, sweep,   pass,    pass,    forget, letters_of,    count};
    for (int i = 0; i < STEPS; i++)
        steps[below(h, sizeof steps / sizeof *steps)](h);
    pass_ms(h->f, grains(h->f, 1300));
    relay(h);
    letters_of(h);
    count(h);
}

void agree_history(char out[AGREE_ROOM], const store_quirks *quirks, uint64_t seed)
{
    static store_fixture f;
    history h = {.f = &f, .out = out, .random = seed};
    memset(&f, 0, sizeof f);
    out[0] = '\0';
    f.quirks = quirks;
    f.mode = seed % 2 ? SEMEL_CLAIM : SEMEL_TRANSACTION;
    clock_open(&f);
    (quirks->make_ready ? quirks->make_ready : quirks->make)(f.base.place.url);
    open_store(&f);
    OK(semel_store_migrate(f.base.store, &last_error));
    open_all(&h);
    take_steps(&h);
    close_all(&f);
    clock_close(&f);
    if (quirks->remove)
        quirks->remove(f.base.place.url);
}

/* The line in which two histories part. */
static size_t line_of(const char *one, const char *other)
{
    size_t begin = 0;
    for (size_t i = 0; one[i] && one[i] == other[i]; i++)
        if (one[i] == '\n')
            begin = i + 1;
    return begin;
}

void agree_on(const store_quirks *const stores[], size_t store_count, uint64_t count)
{
    static char first[AGREE_ROOM], other[AGREE_ROOM];
    for (uint64_t seed = 1; seed <= count; seed++) {
        agree_history(first, stores[0], seed);
        for (size_t i = 1; i < store_count; i++) {
            agree_history(other, stores[i], seed);
            if (!strcmp(first, other))
                continue;
            size_t at = line_of(first, other);
            print_error("%.*s", (int)at, first);
            fail_msg("seed %llu: %s says\n%.*s\n%s says\n%.*s", (unsigned long long)seed,
                     stores[0]->name, (int)strcspn(first + at, "\n"), first + at, stores[i]->name,
                     (int)strcspn(other + at, "\n"), other + at);
        }
    }
}
