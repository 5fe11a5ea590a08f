/* The idempotent proxy of `semel run`, by 32 clients, each with one request at a time.
 *
 * Two things bound it: the same proxy without a store (semel-bench-plain proxy: the same server,
 * the same libcurl), and the library in claim mode with as many threads and a result of the same
 * size. Its claims are durable as the gateway's are: each first request waits for the disk twice.
 * First requests are measured against the slower of the two, round by round. A replayed
 * answer touches no upstream and is measured against the plain proxy. All processes share the
 * processors with the clients. */
#include "gateway_load.h"

#include <string.h>

enum { UPSTREAM, PLAIN, CLAIM, FIRST, REPLAY, CONTENDERS };

typedef struct claim_side {
    stage stage;
    semel_store *store;
    semel_inbox *inbox;
} claim_side;

/* --- claim mode ------------------------------------------------------------------------------- */

static semel_status keep_result(semel_unit *unit, const semel_message *message, void *context,
                                semel_error *err)
{
    static const char result[180] = "semel 1 answer 201";
    (void)message, (void)context;
    return semel_unit_set_result(unit, result, sizeof result, err);
}

static void claim_some(void *context, size_t worker, const semel_message *const messages[],
                       size_t count)
{
    claim_side *side = context;
    semel_error err;
    semel_outcome outcome;
    (void)worker;
    for (size_t i = 0; i < count; i++) {
        must(semel_inbox_receive(&outcome, side->inbox, messages[i], keep_result, NULL, &err),
             &err);
        if (outcome != SEMEL_PROCESSED)
            die("an outcome is \"%s\"", semel_outcome_name(outcome));
    }
}

static void claim_run(void *context, const message_set *set)
{
    threads_run(LOAD_CLIENTS, 1, set, claim_some, context);
}

static void claim_open(claim_side *side, const server *on, const char *url)
{
    semel_error err;
    const semel_inbox_options claims = {
        .size = sizeof claims, .mode = SEMEL_CLAIM, .durable_claims = 1};
    char pooled[sizeof side->stage.url + 20];
    stage_open(&side->stage, on, url, "bench_claiming");
    snprintf(pooled, sizeof pooled, "%s%cpool=%d", side->stage.url,
             strchr(side->stage.url, '?') ? '&' : '?', LOAD_CLIENTS / 2); /* as the gateway has */
    must(semel_store_open(&side->store, on ? pooled : side->stage.url, NULL, &err), &err);
    must(semel_inbox_open(&side->inbox, side->store, "bench", &claims, &err), &err);
}

static void claim_close(claim_side *side)
{
    semel_inbox_close(side->inbox);
    semel_store_close(side->store);
    stage_close(&side->stage);
}

/* --- processes -------------------------------------------------------------------------------- */

typedef struct plain {
    program process;
    char port[16], url[64];
    const char *arguments[5];
    load load;
} plain;

static void plain_open(plain *p, const char *what, const char *upstream)
{
    int port = load_free_port();
    snprintf(p->port, sizeof p->port, "%d", port);
    snprintf(p->url, sizeof p->url, "http://127.0.0.1:%d", port);
    p->arguments[0] = "semel-bench-plain";
    p->arguments[1] = what;
    p->arguments[2] = p->port;
    p->arguments[3] = upstream;
    p->process = (program){.arguments = p->arguments};
    program_start(&p->process);
    load_open(&p->load, port);
}

static void plain_close(plain *p)
{
    load_close(&p->load);
    program_stop(&p->process);
}

typedef struct gateway_side {
    stage stage;
    program process;
    load first, replay;
} gateway_side;

static void gateway_open(gateway_side *side, const server *on, const char *url,
                         const char *upstream)
{
    int port = load_free_port();
    message_set set = {0};
    key_source keys;
    side->replay.stored = 0;
    stage_open(&side->stage, on, url, "bench_gateway");
    program_configure(&side->process, "bench_gateway.yaml",
                      "version: 1\n"
                      "store: \"%s\"\n"
                      "gateway:\n"
                      "  listen: 127.0.0.1:%d\n"
                      "  routes:\n"
                      "    - { path: /v1/charges, name: charges, proxy: \"%s\" }\n",
                      side->stage.url, port, upstream);
    program_start(&side->process);
    load_open(&side->first, port);
    load_open(&side->replay, port);
    keys_begin(&keys, KEYS_IN_TIME_ORDER); /* others than those that are measured */
    messages_make(&set, &keys, LOAD_STORED);
    load_store(&side->replay, &set);
    messages_free(&set);
}

static void gateway_close(gateway_side *side)
{
    load_close(&side->first);
    load_close(&side->replay);
    program_stop(&side->process);
    stage_close(&side->stage);
}

/* --- the section ------------------------------------------------------------------------------ */

/* In place of `kept`: both, one after the other, which is what it comes to where the processors
 * have no time left. */
static comparison run_both(const comparison *d, size_t kept, size_t other)
{
    comparison both = *d;
    for (size_t i = 0; i < d->rounds; i++)
        both.rate[kept][i] = 1 / (1 / d->rate[kept][i] + 1 / d->rate[other][i]);
    return both;
}

static void report(const comparison *d)
{
    comparison slower = run_slower(d, CLAIM, PLAIN), both = run_both(d, CLAIM, PLAIN);
    report_comparison("first requests, by the slower of these", &slower, FIRST, CLAIM,
                      AT_LEAST(0.8));
    report_comparison("  by claim mode, 32 threads", d, FIRST, CLAIM, NO_AIM);
    report_comparison("  by a plain proxy", d, FIRST, PLAIN, NO_AIM);
    report_comparison("  by both, one after the other", &both, FIRST, CLAIM, NO_AIM);
    report_comparison("replayed, by a plain proxy", d, REPLAY, PLAIN, AT_LEAST(0.8));
    report_comparison("  by the bare upstream", d, REPLAY, UPSTREAM, NO_AIM);
    report_comparison("a plain proxy, by the bare upstream", d, PLAIN, UPSTREAM, NO_AIM);
}

static void measure(const server *on, const char *url)
{
    static plain upstream, proxy;
    static claim_side claim;
    static gateway_side gateway;
    key_source keys;
    comparison d;
    keys_begin(&keys, KEYS_RANDOM);
    plain_open(&upstream, "upstream", NULL);
    plain_open(&proxy, "proxy", upstream.url);
    claim_open(&claim, on, url);
    gateway_open(&gateway, on, url, upstream.url);
    const contender all[CONTENDERS] = {[UPSTREAM] = {&upstream.load, load_run},
                                       [PLAIN] = {&proxy.load, load_run},
                                       [CLAIM] = {&claim, claim_run},
                                       [FIRST] = {&gateway.first, load_run},
                                       [REPLAY] = {&gateway.replay, load_run}};
    comparison_run(&d, all, CONTENDERS, &keys, 500, choose(10, 3), choose_rounds(7, 3), "gateway");
    report(&d);
    gateway_close(&gateway);
    claim_close(&claim);
    plain_close(&proxy);
    plain_close(&upstream);
}

static void measure_server(const server *on, const char *url)
{
    char title[100];
    report_section("gateway", server_title(title, on, "the idempotent proxy, 32 clients"),
                   "reference/s", "gateway/s");
    measure(on, url);
}

void section_gateway(void)
{
    report_section("gateway", "SQLite: the idempotent proxy, 32 clients", "reference/s",
                   "gateway/s");
    measure(NULL, NULL);
    each_server(measure_server);
}
