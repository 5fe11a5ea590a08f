/* Confirmed publishing: the transport against loops by hand, with the same number of messages
 * outstanding.
 *
 * There are two loops by hand. One keeps so many outstanding all the time; that is the fastest. The
 * other sends so many and waits for all of them, which is what publishing a batch is. Each
 * contender publishes to a queue of its own, empty at the start of every round, without a
 * consumer. */
#include "broker.h"

static const char window_place[] = "bench_window", batch_place[] = "bench_batch",
                  semel_place[] = "bench_semel";

enum { WINDOW, BATCH, SEMEL, CONTENDERS };

typedef struct publisher {
    const char *place;
    size_t outstanding;
    broker *by_hand;
    broker_publish *publish;
    semel_transport *transport;
} publisher;

static void publish_by_hand(void *context, const message_set *set)
{
    publisher *p = context;
    p->publish(p->by_hand, p->place, set->pointers, set->count, p->outstanding);
}

static void publish_batch(publisher *p, const semel_message *const messages[], size_t count)
{
    enum { BATCH_MAX = 1000, WAIT_MS = 60000 };
    semel_error err;
    semel_publish_result results[BATCH_MAX];
    must(semel_transport_publish(results, p->transport, messages, count, WAIT_MS, &err), &err);
    for (size_t i = 0; i < count; i++)
        if (results[i] != SEMEL_PUBLISH_CONFIRMED)
            die("a message is not confirmed: result %d", (int)results[i]);
}

static void publish_by_semel(void *context, const message_set *set)
{
    publisher *p = context;
    for (size_t done = 0; done < set->count;) {
        size_t left = set->count - done, count = left < p->outstanding ? left : p->outstanding;
        publish_batch(p, set->pointers + done, count);
        done += count;
    }
}

static void rounds_run(comparison *d, const contender *contenders, const broker_kind *on,
                       broker *manager, size_t messages, size_t slice)
{
    message_set set = {0};
    key_source keys;
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    for (size_t round = 0; round <= d->rounds; round++) {
        progress("publishing", round, d->rounds + 1);
        for (size_t i = 0; i < CONTENDERS; i++)
            on->empty(manager, ((const publisher *)contenders[i].context)->place);
        messages_make(&set, &keys, round ? messages : messages / WARM_UP);
        messages_address(&set);
        comparison_round(d, round, contenders, &set, slice);
        comparison_settle(d, round);
    }
    messages_free(&set);
}

static void compare_contenders(comparison *d, const broker_case *b, size_t outstanding,
                               size_t messages, size_t slice)
{
    semel_error err;
    char url[1024];
    broker *manager = b->on->open(b->url);
    publisher all[CONTENDERS] = {
        [WINDOW] = {.place = window_place, .publish = b->on->publish_window},
        [BATCH] = {.place = batch_place, .publish = b->on->publish_batches},
        [SEMEL] = {.place = semel_place}};
    contender contenders[CONTENDERS];
    for (size_t i = 0; i < CONTENDERS; i++) {
        b->on->make(manager, all[i].place, b->queue);
        all[i].outstanding = outstanding;
        all[i].by_hand = i == SEMEL ? NULL : b->on->open(b->url);
        contenders[i] =
            (contender){.context = &all[i], .run = i == SEMEL ? publish_by_semel : publish_by_hand};
    }
    must(semel_transport_open(&all[SEMEL].transport, place_url(url, b, semel_place, 0), NULL, &err),
         &err);
    *d = (comparison){.rounds = choose_rounds(7, 3), .contenders = CONTENDERS};
    rounds_run(d, contenders, b->on, manager, messages, slice);
    semel_transport_close(all[SEMEL].transport);
    for (size_t i = 0; i < CONTENDERS; i++) {
        b->on->remove(manager, all[i].place);
        if (all[i].by_hand)
            b->on->close(all[i].by_hand);
    }
    b->on->close(manager);
}

static void measure(const broker_case *b)
{
    static const struct amount {
        size_t outstanding, full, quick, slices;
    } amounts[] = {
        {1, 600, 150, 5}, {10, 4000, 1000, 5}, {100, 10000, 3000, 3}, {1000, 20000, 4000, 1}};
    char title[100], name[100];
    comparison d;
    report_section("broker-publish", broker_title(title, b, "publish"), "raw/s", "semel/s");
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++) {
        size_t messages = choose(amounts[i].full, amounts[i].quick);
        compare_contenders(&d, b, amounts[i].outstanding, messages, messages / amounts[i].slices);
        snprintf(name, sizeof name, "%4zu outstanding, by a window", amounts[i].outstanding);
        report_comparison(name, &d, SEMEL, WINDOW, NO_AIM);
        report_comparison("     by send so many, wait for all", &d, SEMEL, BATCH, NO_AIM);
    }
}

void section_broker_publish(void)
{
    each_broker(0, measure);
}
