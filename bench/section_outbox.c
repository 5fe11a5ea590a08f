/* The outbox: putting messages in, and the relay that takes them out to the memory transport.
 *
 * The raw relay is the floor, not a peer: it reads a batch and deletes it in one transaction that
 * does not wait for the disk, and sends nothing. It has no lease, so two of them would send
 * everything twice. */
#include "outbox.h"

enum { RAW, SEMEL };

/* --- the sections ----------------------------------------------------------------------------- */

static void compare_send(size_t batch, int grouped)
{
    raw_outbox raw = {.batch = batch, .grouped = grouped};
    semel_side semel = {.file = "semel.db", .batch = batch, .grouped = grouped};
    const contender both[] = {[RAW] = {.context = &raw, .run = raw_send},
                              [SEMEL] = {.context = &semel, .run = semel_send}};
    char name[100];
    comparison d;
    key_source keys;
    raw_outbox_open(&raw);
    semel_side_open(&semel);
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    comparison_run(&d, both, 2, &keys, batch,
                   batch == 1 ? transactions(600, 300) : transactions(50, 30), choose_rounds(11, 5),
                   "sending");
    snprintf(name, sizeof name, "%s, %s",
             batch == 1 ? "one in a transaction" : "100 in a transaction",
             grouped ? "100 groups" : "no groups");
    report_comparison(name, &d, SEMEL, RAW, NO_AIM);
    raw_outbox_close(&raw);
    semel_side_close(&semel);
}

void section_outbox(void)
{
    report_section("outbox", "outbox: messages put in", "raw/s", "semel/s");
    compare_send(1, 0);
    compare_send(100, 0);
    compare_send(100, 1);
}

/* Filling is not timed, and both are filled before either is drained. */
typedef struct relay_case {
    raw_outbox raw;
    semel_side semel;
    relay_side relay;
    semel_relay_preset preset;
} relay_case;

static double timed(void (*run)(void *, const message_set *), void *context, const message_set *set)
{
    double start = now_s();
    run(context, set);
    return (double)set->count / (now_s() - start);
}

static void relay_round(comparison *d, size_t round, relay_case *f, const message_set *set)
{
    const semel_relay_options relay = {.size = sizeof relay, .preset = f->preset};
    double semel_first = 0;
    size_t batch = f->raw.batch;
    f->raw.batch = f->semel.batch = 1000;
    raw_send(&f->raw, set);
    semel_send(&f->semel, set);
    f->raw.batch = batch;
    relay_begin(&f->relay, f->semel.outbox, "memory:", &relay);
    if (round % 2)
        semel_first = timed(relay_drain, &f->relay, set);
    d->rate[RAW][round] = timed(raw_drain, &f->raw, set);
    d->rate[SEMEL][round] = round % 2 ? semel_first : timed(relay_drain, &f->relay, set);
    relay_end(&f->relay);
}

static void compare_relay(semel_relay_preset preset, size_t batch, int grouped, const char *name)
{
    relay_case f = {.raw = {.batch = batch, .grouped = grouped},
                    .semel = {.file = "semel.db", .grouped = grouped},
                    .preset = preset};
    comparison d = {.rounds = choose_rounds(9, 3), .contenders = 2};
    message_set set = {0};
    key_source keys;
    raw_outbox_open(&f.raw);
    semel_side_open(&f.semel);
    must_sqlite(sqlite3_exec(f.raw.raw.db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL),
                f.raw.raw.db);
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    for (size_t round = 0; round < d.rounds; round++) {
        progress(name, round, d.rounds);
        messages_make(&set, &keys, choose(10000, 5000));
        relay_round(&d, round, &f, &set);
        comparison_settle(&d, round + 1);
        stop_if_asked();
    }
    report_comparison(name, &d, SEMEL, RAW, NO_AIM);
    messages_free(&set);
    raw_outbox_close(&f.raw);
    semel_side_close(&f.semel);
}

void section_relay(void)
{
    report_section("relay", "relay: outbox to the memory transport", "floor/s", "semel/s");
    compare_relay(SEMEL_RELAY_CAREFUL, 10, 0, "careful (batches of 10), no groups");
    compare_relay(SEMEL_RELAY_BALANCED, 100, 0, "balanced (100), no groups");
    compare_relay(SEMEL_RELAY_THROUGHPUT, 1000, 0, "throughput (1000), no groups");
    compare_relay(SEMEL_RELAY_CAREFUL, 10, 1, "careful (10), 100 groups");
    compare_relay(SEMEL_RELAY_BALANCED, 100, 1, "balanced (100), 100 groups");
    compare_relay(SEMEL_RELAY_THROUGHPUT, 1000, 1, "throughput (1000), 100 groups");
    report_note(
        "the floor reads and deletes a batch in one transaction and sends nothing; the relay");
    report_note(
        "leases it in one, sends it, and deletes it in another. None of them waits for the disk.");
}
