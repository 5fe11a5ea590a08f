/* semel publish: puts messages into a queue, one or several, each once or in copies. */
#include "program/cli.h"
#include "program/command/common.h"
#include "program/config/complete.h"
#include "program/handler/topic.h"
#include "program/support/encoding.h"
#include "program/support/input.h"
#include "program/support/memory.h"
#include "program/support/nearest.h"
#include "program/support/show.h"
#include "program/support/strict_json.h"
#include "program/support/unique_id.h"
#include "program/support/unsaid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char publish_help[] =
    "usage: semel publish QUEUE [BODY] [--file FILE] [--lines] [--cloudevents] [--copies N]\n"
    "                     [--delay D] [--type T] [--id ID] [--source S] [--topic T]\n"
    "                     [--group G] [--content-type C] [--header NAME=VALUE]...\n"
    "\n"
    "Publishes a message to a queue of the configuration and prints its id once the queue has\n"
    "confirmed it. Without BODY or --file the body is read from the standard input. With --lines "
    "each\n"
    "line is a message. Copies share one id.\n"
    "\n" COMMON_HELP
    "  --file FILE         the body, or with --lines the bodies; -: the standard input\n"
    "  --lines             each line is the body of a message\n"
    "  --cloudevents       the body, or each line, is a CloudEvent in JSON: its id, source, type, "
    "time,\n"
    "                      data and extensions become those of the message\n"
    "  --copies N          publish each message N times, under one id\n"
    "  --delay D           deliver it after this time: 30s, 2h (queues in the store)\n"
    "  --json              print an object per message: its id, the queue, how many copies\n"
    "\n"
    "Exit status: 0 published, 1 failed or refused, 2 called wrongly, 3 the configuration is "
    "wrong,\n"
    "4 there is no such queue, 75 the queue cannot be reached.\n";

typedef struct publishing {
    common_options common;
    const char *file, *type, *id, *source, *topic, *group, *content_type;
    uint32_t copies;
    uint64_t delay_ms;
    int lines, cloudevents, json;
    argument_list headers, rest;

    region memory;
    semel_store *store;
    semel_transport *queue;
    const char *fixed_topic; /* of a queue that is reached by it alone; NULL: an exchange routes */
    size_t line;             /* with --lines, from 1 */
    size_t published;
} publishing;

/* --- one message ------------------------------------------------------------------------------ */

static const char *result_text(semel_publish_result result)
{
    return result == SEMEL_PUBLISH_REFUSED      ? "the queue refuses this message"
           : result == SEMEL_PUBLISH_UNROUTABLE ? "no queue is bound for it"
           : result == SEMEL_PUBLISH_NACKED     ? "the broker does not accept it now"
                                                : "the broker has not confirmed it";
}

/* "semel publish: line 3: TEXT; 2 published before it". The text may quote the message. */
static void say_failed(const publishing *p, const char *text)
{
    buffer shown = {0};
    show_text(&shown, text, strlen(text), 0);
    if (p->line)
        (void)cli_failed("publish", "line %zu: %s; %zu published before it", p->line, shown.data,
                         p->published);
    else if (p->published)
        (void)cli_failed("publish", "%s; %zu published before it", shown.data, p->published);
    else
        (void)cli_failed("publish", "%s", shown.data);
    buffer_free(&shown);
}

static int failed(const publishing *p, const semel_error *why)
{
    say_failed(p, why->text);
    return why->retryable ? CLI_TEMPORARY : CLI_FAILED;
}

/* A pipe gets the id as it is; a terminal, as text only. */
static void print_id(const publishing *p, semel_bytes id, uint32_t copies)
{
    buffer line = {0};
    if (p->json) {
        buffer_text(&line, "{\"id\":");
        show_json(&line, id.data, id.len);
        buffer_text(&line, ",\"queue\":");
        show_json(&line, p->rest.items[0], strlen(p->rest.items[0]));
        buffer_printf(&line, ",\"copies\":%u}", copies);
    } else if (isatty(STDOUT_FILENO)) {
        show_text(&line, id.data, id.len, 0);
    } else {
        buffer_add(&line, id.data, id.len);
    }
    buffer_text(&line, "\n");
    (void)fwrite(line.data, 1, line.len, stdout);
    buffer_free(&line);
}

static int publish_copies(publishing *p, const semel_message *message)
{
    enum { WAIT_MS = 10000 };
    semel_error why = {0};
    semel_publish_result result = SEMEL_PUBLISH_UNKNOWN;
    uint32_t copies = p->copies ? p->copies : 1;
    for (uint32_t i = 0; i < copies; i++) {
        if (semel_transport_publish(&result, p->queue, &message, 1, WAIT_MS, &why))
            return failed(p, &why);
        if (result != SEMEL_PUBLISH_CONFIRMED) {
            say_failed(p, result_text(result));
            return CLI_FAILED;
        }
        p->published++;
    }
    print_id(p, message->id, copies);
    return CLI_OK;
}

static size_t make_headers(const publishing *p, semel_header out[], char *names[])
{
    size_t count = 0;
    for (size_t i = 0; i < p->headers.count && count < SEMEL_HEADERS_MAX; i++) {
        const char *equals = strchr(p->headers.items[i], '=');
        names[count] = must_copy(p->headers.items[i]);
        names[count][equals - p->headers.items[i]] = 0;
        out[count] = (semel_header){.name = names[count], .value = semel_str(equals + 1)};
        count++;
    }
    return count;
}

enum { JSON_DEPTH_MAX = 64 };

static const char *content_type_of(const publishing *p, semel_bytes body)
{
    if (p->content_type)
        return p->content_type;
    return strict_json_check(body, JSON_DEPTH_MAX, NULL) ? "application/json" : NULL;
}

static const char *topic_of(const publishing *p, const semel_message *message)
{
    return p->topic ? p->topic : topic_of_message(p->fixed_topic, p->store != NULL, message);
}

static int publish_body(publishing *p, semel_bytes body)
{
    char made[UNIQUE_ID_SIZE];
    char *names[SEMEL_HEADERS_MAX] = {0};
    semel_header headers[SEMEL_HEADERS_MAX];
    unique_id(made);
    semel_message message = {.size = sizeof message,
                             .id = semel_str(p->id ? p->id : made),
                             .type = p->type,
                             .source = p->source,
                             .group = p->group,
                             .content_type = content_type_of(p, body),
                             .time_ms = wall_clock_ms(),
                             .headers = headers,
                             .header_count = make_headers(p, headers, names),
                             .body = body,
                             .delay_ms = (uint32_t)p->delay_ms};
    message.topic = topic_of(p, &message);
    int status = publish_copies(p, &message);
    for (size_t i = 0; i < message.header_count; i++)
        free(names[i]);
    return status;
}

/* What the event does not say stays unsaid, but for the topic. */
static int publish_event(publishing *p, semel_bytes json)
{
    semel_error why = {0};
    semel_message *read = NULL;
    semel_header headers[SEMEL_HEADERS_MAX];
    if (semel_message_read_cloudevent(&read, json, &why))
        return failed(p, &why);
    semel_message message = *read;
    unsaid_take(&message, headers);
    message.topic = topic_of(p, &message);
    message.delay_ms = (uint32_t)p->delay_ms;
    int status = publish_copies(p, &message);
    semel_message_free(read);
    return status;
}

static int publish_one(publishing *p, semel_bytes text)
{
    return p->cloudevents ? publish_event(p, text) : publish_body(p, text);
}

/* --- bodies ----------------------------------------------------------------------------------- */

static int publish_lines(publishing *p, const buffer *all)
{
    int status = CLI_OK;
    for (const char *at = all->data, *end = at + all->len; !status && at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((newline ? newline : end) - at);
        if (len && at[len - 1] == '\r')
            len--;
        p->line++;
        if (len)
            status = publish_one(p, (semel_bytes){at, len});
        at = newline ? newline + 1 : end;
    }
    return status;
}

static int publish_input(publishing *p)
{
    buffer all = {0};
    size_t most = p->lines || p->cloudevents ? INPUT_MAX : SEMEL_BODY_MAX;
    int status = input_read(&all, p->file ? p->file : "-", most);
    if (status)
        status = cli_failed("publish", "%s: %s", p->file ? p->file : "the standard input",
                            strerror(status));
    else
        status =
            p->lines ? publish_lines(p, &all) : publish_one(p, (semel_bytes){all.data, all.len});
    buffer_free(&all);
    return status;
}

/* --- the command ------------------------------------------------------------------------------ */

static int find_queue(const queue_config **out, const config *all, const char *name)
{
    nearest meant = {.typed = name};
    *out = config_queue(all, name);
    if (*out)
        return CLI_OK;
    for (size_t i = 0; i < all->queue_count; i++)
        nearest_offer(&meant, all->queues[i].name);
    if (meant.name)
        cli_failed("publish", "queue \"%s\" does not exist; did you mean \"%s\"?", name,
                   meant.name);
    else
        cli_failed("publish", "queue \"%s\" does not exist", name);
    return CLI_NOT_FOUND;
}

static int says_what_an_event_says(const publishing *p)
{
    return p->type || p->id || p->source || p->group || p->content_type || p->headers.count;
}

static int check_id(const publishing *p)
{
    if (p->id && !*p->id)
        return cli_usage("publish", "--id must not be empty");
    if (p->id && encoding_has_controls(p->id, strlen(p->id)))
        return cli_usage("publish", "--id must not have control characters");
    if (p->lines && p->id)
        return cli_usage("publish",
                         "with --lines each message has an id of its own: leave --id out");
    return CLI_OK;
}

static int check_arguments(const publishing *p)
{
    if (!p->rest.count || p->rest.count > 2)
        return cli_usage("publish", "it takes a queue and, if it is not read from a file, a body");
    if (p->rest.count == 2 && (p->file || p->lines))
        return cli_usage("publish", "a body and --file or --lines exclude each other");
    if (p->cloudevents && says_what_an_event_says(p))
        return cli_usage("publish",
                         "with --cloudevents the event says what --type, --id, --source, --group, "
                         "--content-type and --header say: leave them out");
    if (p->delay_ms > UINT32_MAX)
        return cli_usage("publish", "--delay is at most 49d");
    for (size_t i = 0; i < p->headers.count; i++)
        if (!strchr(p->headers.items[i], '=') || p->headers.items[i][0] == '=')
            return cli_usage("publish", "--header takes NAME=VALUE, not \"%s\"",
                             p->headers.items[i]);
    return p->headers.count > SEMEL_HEADERS_MAX
               ? cli_usage("publish", "a message has at most %zu headers", SEMEL_HEADERS_MAX)
               : CLI_OK;
}

static int publish_all(publishing *p, const config *all)
{
    const queue_config *queue = NULL;
    int status = find_queue(&queue, all, p->rest.items[0]);
    if (!status && !queue->url)
        status = common_open_store(&p->store, "publish", all);
    if (!status)
        status = common_open_queue(&p->queue, "publish", queue, p->store);
    if (status)
        return status;
    p->fixed_topic = topic_of_queue(&p->memory, all, queue->name);
    status = p->rest.count == 2 ? publish_one(p, semel_str(p->rest.items[1])) : publish_input(p);
    if (!status && p->copies > 1 && !p->lines)
        (void)fprintf(cli_errors(), "published %zu copies to \"%s\"\n", p->published, queue->name);
    else if (!status)
        (void)fprintf(cli_errors(), "published %zu message%s to \"%s\"\n", p->published,
                      p->published == 1 ? "" : "s", queue->name);
    return status;
}

int cmd_publish(int argc, char **argv)
{
    static publishing p;
    const argument_option options[] = {COMMON_OPTIONS(&p.common),
                                       {"--file", 0, ARGUMENT_TEXT, &p.file},
                                       {"--lines", 0, ARGUMENT_FLAG, &p.lines},
                                       {"--cloudevents", 0, ARGUMENT_FLAG, &p.cloudevents},
                                       {"--json", 0, ARGUMENT_FLAG, &p.json},
                                       {"--copies", 'n', ARGUMENT_COUNT, &p.copies},
                                       {"--delay", 0, ARGUMENT_PERIOD, &p.delay_ms},
                                       {"--type", 0, ARGUMENT_TEXT, &p.type},
                                       {"--id", 0, ARGUMENT_TEXT, &p.id},
                                       {"--source", 0, ARGUMENT_TEXT, &p.source},
                                       {"--topic", 0, ARGUMENT_TEXT, &p.topic},
                                       {"--group", 0, ARGUMENT_TEXT, &p.group},
                                       {"--content-type", 0, ARGUMENT_TEXT, &p.content_type},
                                       {"--header", 0, ARGUMENT_LIST, &p.headers},
                                       {0}};
    config *all = NULL;
    int status = arguments_read("publish", argc, argv, options, &p.rest);
    if (!status)
        status = check_arguments(&p);
    if (!status)
        status = check_id(&p);
    if (!status)
        status = common_load(&all, &p.common);
    if (!status)
        status = publish_all(&p, all);
    semel_transport_close(p.queue);
    semel_store_close(p.store);
    region_free(&p.memory);
    config_free(all);
    return status;
}
