/* semel health: are the processes on this host healthy, and ready?
 *
 * The processes are asked through their sockets, which need no store: so the answer comes also when
 * the store is what is away. Only if no socket of this configuration is found, the store is asked
 * which processes there are; and whether it answers at all.
 *
 * With --url the admin server at that place is asked, which needs no configuration: for containers
 * that have no curl, and for other hosts. */
#include "program/cli.h"
#include "program/command/health_url.h"
#include "program/support/show.h"
#include "program/watch/peers.h"
#include "program/watch/watching.h"

#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char health_help[] =
    "usage: semel health [--ready] [--stalled-after D]\n"
    "       semel health --url URL [--ready]\n"
    "\n"
    "Asks the processes on this host that run the configuration whether everything works: store, "
    "queues\n"
    "and relays. Something that is due and has not moved for a while is stalled.\n"
    "\n"
    "  --ready             whether they receive messages, instead\n"
    "  --stalled-after D   longer than the slowest handler takes; default: 60s\n"
    "  --url URL           asks the admin server there: http://127.0.0.1:8481 or unix:PATH\n"
    "  --json              one JSON object per process\n"
    "  --timeout D         time to wait for an answer; default: 10s\n"
    "\n"
    "Common options: semel help common. Exit status: 0 healthy, 1 unhealthy, or no process runs.\n";

enum { TIMEOUT_DEFAULT_MS = 10000, NS_PER_MS = 1000000 };

typedef struct health_arguments {
    tool_options tool;
    int ready;
    uint64_t stalled_after_ms;
    const char *url;
    argument_list rest;
} health_arguments;

typedef struct asking {
    const health_arguments *given;
    char *config; /* its path, absolute; NULL: any */
    buffer question;
    size_t answered, good;
    int names_processes; /* several answer */
} asking;

/* --- JSON ------------------------------------------------------------------------------------- */

static struct json_object *member(struct json_object *of, const char *name)
{
    struct json_object *found = NULL;
    return json_object_object_get_ex(of, name, &found) ? found : NULL;
}

static const char *text_of(struct json_object *of, const char *name)
{
    const char *text = json_object_get_string(member(of, name));
    return text ? text : "";
}

static int64_t number_of(struct json_object *of, const char *name)
{
    return json_object_get_int64(member(of, name));
}

static int is_true(struct json_object *of, const char *name)
{
    return json_object_get_boolean(member(of, name));
}

/* --- lines for people ------------------------------------------------------------------------- */

static void add_plural(buffer *to, int64_t count, const char *word)
{
    if (count)
        buffer_printf(to, ", %lld %s%s", (long long)count, word, count == 1 ? "" : "s");
}

/* up 3h 8m; store, 1 broker, 3 relays; last outcome 1.8 s ago */
static void describe_good(buffer *to, struct json_object *answer)
{
    int64_t last_ms = number_of(answer, "last_outcome_ago_ms");
    buffer_text(to, "up ");
    show_duration(to, number_of(answer, "up_ms") * NS_PER_MS);
    buffer_text(to, "; store");
    add_plural(to, number_of(answer, "brokers"), "broker");
    add_plural(to, number_of(answer, "relays"), "relay");
    if (!member(answer, "last_outcome_ago_ms")) {
        buffer_text(to, "; no outcome yet");
        return;
    }
    buffer_text(to, "; last outcome ");
    show_duration(to, last_ms * NS_PER_MS);
    buffer_text(to, " ago");
}

/* outbox shipping: stalled for 14m 20s, 215 waiting: no queue is bound for "order.paid" */
static void describe_problem(buffer *to, struct json_object *problem)
{
    int64_t for_ms = number_of(problem, "for_ms"), waiting = number_of(problem, "waiting");
    const char *component = text_of(problem, "component"), *msg = text_of(problem, "msg"),
               *error = text_of(problem, "error");
    show_text(to, component, strlen(component), 0);
    buffer_text(to, ": ");
    show_text(to, msg, strlen(msg), 0);
    if (for_ms) {
        buffer_text(to, " for ");
        show_duration(to, for_ms * NS_PER_MS);
    }
    if (waiting > 0) {
        buffer_text(to, ", ");
        show_number(to, (uint64_t)waiting);
        buffer_text(to, " waiting");
    }
    if (*error) {
        buffer_text(to, ": ");
        show_text(to, error, strlen(error), 0);
    }
}

static void print_line(const asking *a, struct json_object *answer, const char *word,
                       const buffer *text)
{
    (void)printf("%s: ", word);
    if (a->names_processes)
        (void)printf("pid %lld: ", (long long)number_of(answer, "pid"));
    (void)printf("%s\n", text->data ? text->data : "");
}

static void print_problems(const asking *a, struct json_object *answer, const char *word)
{
    struct json_object *problems = member(answer, "problems");
    size_t count =
        json_object_is_type(problems, json_type_array) ? json_object_array_length(problems) : 0;
    for (size_t i = 0; i < count; i++) {
        buffer text = {0};
        describe_problem(&text, json_object_array_get_idx(problems, i));
        print_line(a, answer, word, &text);
        buffer_free(&text);
    }
    if (!count)
        print_line(a, answer, word, &(buffer){.data = "starting or stopping"});
}

static void print_answer(const asking *a, struct json_object *answer, int is_good)
{
    int ready = a->given->ready;
    buffer text = {0};
    if (a->given->tool.json) {
        (void)printf("%s\n", json_object_to_json_string_ext(
                                 answer, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
    } else if (is_good) {
        describe_good(&text, answer);
        print_line(a, answer, ready ? "ready" : "healthy", &text);
    } else {
        print_problems(a, answer, ready ? "not ready" : "unhealthy");
    }
    buffer_free(&text);
}

/* --- asking ----------------------------------------------------------------------------------- */

static int64_t timeout_of(const asking *a)
{
    uint64_t ms = a->given->tool.timeout_ms;
    return !ms ? TIMEOUT_DEFAULT_MS : ms > INT32_MAX ? INT32_MAX : (int64_t)ms;
}

typedef struct answers {
    struct json_object **items;
    size_t count;
} answers;

/* A process that is there and does not answer is not healthy. */
static void add_silent(answers *to, const peer *p, const char *why)
{
    struct json_object *answer = json_object_new_object(), *problem = json_object_new_object(),
                       *problems = json_object_new_array();
    json_object_object_add(answer, "healthy", json_object_new_boolean(0));
    json_object_object_add(answer, "ready", json_object_new_boolean(0));
    json_object_object_add(answer, "pid", json_object_new_int64(p->pid));
    json_object_object_add(problem, "component", json_object_new_string("process"));
    json_object_object_add(problem, "msg", json_object_new_string(why));
    json_object_array_add(problems, problem);
    json_object_object_add(answer, "problems", problems);
    to->items[to->count++] = answer;
}

/* `known`: it runs the configuration as far as the store knows. Of one that was found by its socket
 * that is known from its answer. */
static void ask_all(const asking *a, const peers *all, answers *to, int known)
{
    to->items = must_alloc((all->count + 1) * sizeof(struct json_object *));
    for (size_t i = 0; i < all->count; i++) {
        const peer *p = &all->items[i];
        struct json_object *answer = NULL;
        if (p->reach == PEER_REMOTE)
            continue;
        const char *wrong = peer_ask(&answer, p, a->question.data, timeout_of(a));
        if (wrong && known)
            add_silent(to, p, wrong);
        else if (!wrong && (known || !a->config || !strcmp(a->config, text_of(answer, "config"))))
            to->items[to->count++] = answer;
        else
            json_object_put(answer);
    }
}

/* Prints them and frees them. */
static void print_all(asking *a, answers *all)
{
    a->names_processes = all->count > 1;
    for (size_t i = 0; i < all->count; i++) {
        int is_good = is_true(all->items[i], a->given->ready ? "ready" : "healthy");
        print_answer(a, all->items[i], is_good);
        a->good += (size_t)is_good;
        json_object_put(all->items[i]);
    }
    a->answered += all->count;
    free(all->items);
}

static void ask_sockets(asking *a)
{
    peers all;
    answers found = {0};
    peers_on_host(&all);
    ask_all(a, &all, &found, 0);
    print_all(a, &found);
    peers_free(&all);
}

/* --- the store -------------------------------------------------------------------------------- */

static void say_no_process(const tool *t, const asking *a, size_t remote)
{
    if (a->given->tool.json)
        (void)printf("{\"healthy\":false,\"ready\":false,\"problems\":[{\"component\":\"process\","
                     "\"msg\":\"no process is running\"}]}\n");
    else
        (void)printf("%s: no process is running %s%s; the store was asked instead: it answers\n",
                     a->given->ready ? "not ready" : "unhealthy", watching_what(t),
                     remote ? " on this host" : "");
}

static int ask_store(asking *a)
{
    tool t = {0};
    peers all = {0};
    answers found = {0};
    semel_error why = {0};
    int status = tool_open(&t, "health", &a->given->tool);
    if (!status && peers_in_store(&all, t.store, &why))
        status = tool_failed(&t, &why);
    if (!status) {
        ask_all(a, &all, &found, 1);
        print_all(a, &found);
        if (!a->answered)
            say_no_process(&t, a, peers_count(&all, PEER_REMOTE));
    }
    peers_free(&all);
    tool_close(&t);
    return status;
}

/* --- the command ------------------------------------------------------------------------------ */

/* 0, or the exit status. With a store alone, the store knows the processes. */
static int find_config(asking *a)
{
    const common_options *common = &a->given->tool.common;
    config *all = NULL;
    if (common->store_url && !common->path)
        return CLI_OK;
    int status = common_load(&all, common);
    if (!status)
        a->config = realpath(all->path, NULL);
    config_free(all);
    return status;
}

static int show_health(const health_arguments *given)
{
    asking a = {.given = given};
    uint64_t stalled = given->stalled_after_ms < UINT32_MAX ? given->stalled_after_ms : UINT32_MAX;
    buffer_printf(&a.question, "{\"ask\":\"health\",\"stalled_after_ms\":%llu}\n",
                  (unsigned long long)stalled);
    int status = find_config(&a);
    if (!status && a.config)
        ask_sockets(&a);
    if (!status && !a.answered)
        status = ask_store(&a);
    if (!status && (!a.answered || a.good < a.answered))
        status = CLI_FAILED;
    buffer_free(&a.question);
    free(a.config);
    return status;
}

int cmd_health(int argc, char **argv)
{
    static health_arguments given;
    const argument_option options[] = {
        TOOL_OPTIONS(&given.tool),
        {"--ready", 0, ARGUMENT_FLAG, &given.ready},
        {"--stalled-after", 0, ARGUMENT_PERIOD, &given.stalled_after_ms},
        {"--url", 0, ARGUMENT_TEXT, &given.url},
        {0}};
    int status = arguments_read("health", argc, argv, options, &given.rest);
    if (!status && given.rest.count)
        status =
            cli_usage("health", "it takes options only, and there is \"%s\"", given.rest.items[0]);
    if (!status && given.url && (given.tool.json || given.stalled_after_ms))
        status = cli_usage("health", "--url asks the admin server, which knows no --json and "
                                     "no --stalled-after");
    if (status)
        return status;
    if (given.url)
        return health_ask_url(given.url, given.ready, (int64_t)given.tool.timeout_ms);
    watching_use_zone(&given.tool);
    return show_health(&given);
}
