/* See options.h: the file as a whole, store, queues and outboxes. The others are in
 * options_inbox.c, options_handler.c and options_test.c. */
#include "program/config/options.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define DAY_MS       UINT64_C(86400000)

/* --- what is asked of the table --------------------------------------------------------------- */

const option *option_find(const section *in, const char *name)
{
    for (size_t i = 0; i < in->count; i++)
        if (strcmp(in->options[i].name, name) == 0)
            return &in->options[i];
    return NULL;
}

const option *option_main(const section *of)
{
    for (size_t i = 0; i < of->count; i++)
        if (of->options[i].flags & OPTION_MAIN)
            return &of->options[i];
    return NULL;
}

const char *option_type_name(option_type type)
{
    static const char *const names[] = {
        [OPTION_TEXT] = "text",
        [OPTION_URL] = "URL",
        [OPTION_KEY] = "key expression",
        [OPTION_DURATION] = "duration",
        [OPTION_LONG_DURATION] = "duration",
        [OPTION_SIZE] = "size",
        [OPTION_NUMBER] = "number",
        [OPTION_LONG_NUMBER] = "number",
        [OPTION_COUNT] = "number",
        [OPTION_BOOLEAN] = "true or false",
        [OPTION_WORD] = "word",
        [OPTION_LIST] = "list",
        [OPTION_PAIRS] = "names and texts",
        [OPTION_VALUE] = "any value",
        [OPTION_SECTION] = "section",
        [OPTION_SECTIONS] = "list of sections",
        [OPTION_NAMED] = "named sections",
    };
    return names[type];
}

/* --- store ------------------------------------------------------------------------------------ */

#define OF_STORE(member) \
    .offset = offsetof(config, store.member), .c_name = "semel_store_options." #member

static const option store_options[] = {
    {.name = "url",
     .type = OPTION_URL,
     .flags = OPTION_MAIN | OPTION_REQUIRED,
     .offset = offsetof(config, store_url),
     .text = "the database that keeps keys, queues, outgoing messages and dead letters",
     .example = "sqlite:shop.db"},
    {.name = "busy",
     .type = OPTION_DURATION,
     OF_STORE(busy_ms),
     .fallback = "5s",
     .least = 1,
     .most = DAY_MS,
     .text = "longest wait for a lock or a connection",
     .example = "5s"},
    {.name = "answer",
     .type = OPTION_DURATION,
     OF_STORE(answer_ms),
     .fallback = "10s",
     .least = 1,
     .most = DAY_MS,
     .text = "how long a server may owe an answer, beyond its waits for locks, before the "
             "connection is given up",
     .example = "10s"},
};
const section section_store = {"store",
                               "The database of keys, queues and outgoing messages.",
                               store_options,
                               COUNT(store_options),
                               0,
                               SECTION_NO_OFFSET,
                               SECTION_NO_OFFSET};

/* --- queues ----------------------------------------------------------------------------------- */

#define OF_QUEUE(member) \
    .offset = offsetof(queue_config, queue.member), .c_name = "semel_queue_options." #member
#define OF_CONSUMER(member) \
    .offset = offsetof(queue_config, consumer.member), .c_name = "semel_consumer_options." #member

static const option_word orders[] = {{"none", SEMEL_ORDER_NONE},
                                     {"group", SEMEL_ORDER_GROUP},
                                     {"partition", SEMEL_ORDER_PARTITION},
                                     {NULL, 0}};
static const option_word on_unrouted[] = {
    {"dead", SEMEL_UNROUTED_DEAD}, {"ignore", SEMEL_UNROUTED_IGNORE}, {NULL, 0}};
static const option_word on_failure[] = {{"hold", SEMEL_FAILURE_HOLD},
                                         {"requeue", SEMEL_FAILURE_REQUEUE},
                                         {"reject", SEMEL_FAILURE_REJECT},
                                         {NULL, 0}};

static const option queue_options[] = {
    {.name = "url",
     .type = OPTION_URL,
     .flags = OPTION_MAIN | OPTION_REQUIRED,
     .offset = offsetof(queue_config, url),
     .text = "store: a durable queue in the store; or the URL of a broker: amqp://, kafka://, "
             "nats:// or redis://; or store:URL#NAME, a queue in another store",
     .example = "amqp://host/?queue=orders"},
    {.name = "workers",
     .type = OPTION_NUMBER,
     OF_CONSUMER(workers),
     .fallback = "1",
     .least = 1,
     .most = SEMEL_WORKERS_MAX,
     .text = "threads that handle its messages",
     .example = "4"},
    {.name = "batch",
     .type = OPTION_NUMBER,
     OF_CONSUMER(batch),
     .otherwise = "adaptive",
     .least = 1,
     .most = SEMEL_BATCH_MAX,
     .text = "messages that are received, and where possible handled, at once",
     .example = "100"},
    {.name = "inflight_max",
     .type = OPTION_NUMBER,
     OF_CONSUMER(inflight_max),
     .otherwise = "2 * batch * workers, at least 100",
     .least = 1,
     .most = SEMEL_INFLIGHT_MAX,
     .text = "most messages that are held unsettled",
     .example = "1000"},
    {.name = "order",
     .type = OPTION_WORD,
     OF_CONSUMER(order),
     .fallback = "none",
     .words = orders,
     .text = "group: messages of one group are handled in their order, one at a time; partition: "
             "the same for the messages of one partition of the broker",
     .example = "group"},
    {.name = "backoff",
     .type = OPTION_DURATION,
     OF_CONSUMER(backoff_ms),
     .fallback = "200ms",
     .least = 1,
     .most = DAY_MS,
     .text = "wait before the second attempt; doubles each time, up to backoff_max",
     .example = "200ms"},
    {.name = "backoff_max",
     .type = OPTION_DURATION,
     OF_CONSUMER(backoff_max_ms),
     .fallback = "60s",
     .least = 1,
     .most = 7 * DAY_MS,
     .text = "longest wait between two attempts",
     .example = "60s"},
    {.name = "on_unrouted",
     .type = OPTION_WORD,
     OF_CONSUMER(on_unrouted),
     .fallback = "dead",
     .words = on_unrouted,
     .text = "what becomes of messages whose type no inbox accepts",
     .example = "ignore"},
    {.name = "on_failure",
     .type = OPTION_WORD,
     OF_CONSUMER(on_failure),
     .fallback = "hold",
     .words = on_failure,
     .text = "who decides after a failure: semel (hold), or the broker (requeue, reject)",
     .example = "hold"},
    {.name = "reject_dead",
     .type = OPTION_BOOLEAN,
     OF_CONSUMER(reject_dead),
     .fallback = "false",
     .text = "true: a dead letter also goes to the broker's own dead letters",
     .example = "true"},
    {.name = "lease",
     .type = OPTION_DURATION,
     OF_QUEUE(lease_ms),
     .fallback = "30s",
     .least = 100,
     .most = DAY_MS,
     .text = "of a queue in the store: how long a delivery is out before it comes again; renewed "
             "while handlers run",
     .example = "30s"},
    {.name = "poll",
     .type = OPTION_DURATION,
     OF_QUEUE(poll_ms),
     .fallback = "200ms",
     .least = 1,
     .most = DAY_MS,
     .text = "of a queue in the store: how often a waiting consumer looks by itself",
     .example = "200ms"},
};
const section section_queue = {
    "queues.NAME",
    "Where messages come from and go to. Inboxes read `from` a queue and "
    "`send` writes `to` one.",
    queue_options,
    COUNT(queue_options),
    sizeof(queue_config),
    offsetof(queue_config, name),
    offsetof(queue_config, at)};

/* --- outboxes --------------------------------------------------------------------------------- */

#define OF_RELAY(member) \
    .offset = offsetof(outbox_config, options.member), .c_name = "semel_relay_options." #member

static const option_word presets[] = {{"balanced", SEMEL_RELAY_BALANCED},
                                      {"throughput", SEMEL_RELAY_THROUGHPUT},
                                      {"careful", SEMEL_RELAY_CAREFUL},
                                      {NULL, 0}};
static const option_word on_unroutable[] = {
    {"wait", SEMEL_UNROUTABLE_WAIT}, {"dead", SEMEL_UNROUTABLE_DEAD}, {NULL, 0}};
static const option_word keep_never[] = {{"never", 0}, {NULL, 0}};

static const option_word table_presets[] = {
    {"columns", TABLE_COLUMNS}, {"debezium", TABLE_DEBEZIUM}, {NULL, 0}};

#define OF_COLUMN(member, preset)                                                         \
    .type = OPTION_TEXT, .flags = OPTION_EMPTY, .offset = offsetof(table_config, member), \
    .otherwise = "none; debezium: " preset

static const option table_options[] = {
    {.name = "name",
     .type = OPTION_TEXT,
     .flags = OPTION_MAIN | OPTION_REQUIRED,
     .offset = offsetof(table_config, name),
     .text = "a table of the application: each row that is inserted is sent, by a trigger",
     .example = "outboxevent"},
    {.name = "preset",
     .type = OPTION_WORD,
     .offset = offsetof(table_config, preset),
     .fallback = "debezium",
     .words = table_presets,
     .text = "debezium: the columns that its outbox event router expects; columns: those below",
     .example = "debezium"},
    {.name = "id", OF_COLUMN(id, "id"), .text = "column of the id", .example = "id"},
    {.name = "type", OF_COLUMN(type, "type"), .text = "column of the type", .example = "kind"},
    {.name = "group",
     OF_COLUMN(group, "aggregateid"),
     .text = "column of the group, whose messages are sent in their order",
     .example = "customer"},
    {.name = "topic",
     OF_COLUMN(topic, "aggregatetype"),
     .text = "column of the topic",
     .example = "route"},
    {.name = "body", OF_COLUMN(body, "payload"), .text = "column of the body", .example = "data"},
    {.name = "prefix",
     .type = OPTION_TEXT,
     .flags = OPTION_EMPTY,
     .offset = offsetof(table_config, prefix),
     .otherwise = "none; debezium: outbox.event.",
     .text = "what precedes the topic",
     .example = "shop."},
};
const section section_table = {
    "outboxes.NAME.table", "A table of the application whose rows are sent: see docs/SQL.md.",
    table_options,         COUNT(table_options),
    sizeof(table_config),  SECTION_NO_OFFSET,
    SECTION_NO_OFFSET};

static const option outbox_options[] = {
    {.name = "to",
     .type = OPTION_TEXT,
     .flags = OPTION_MAIN,
     .offset = offsetof(outbox_config, to),
     .otherwise = "the name of the outbox",
     .text = "the queue that its messages are sent to",
     .example = "shipping"},
    {.name = "table",
     .type = OPTION_SECTION,
     .offset = offsetof(outbox_config, table),
     .inner = &section_table,
     .text = "a table of the application whose rows are sent, too",
     .example = "outboxevent"},
    {.name = "preset",
     .type = OPTION_WORD,
     OF_RELAY(preset),
     .fallback = "balanced",
     .words = presets,
     .text = "values for the options below that are not set",
     .example = "throughput"},
    {.name = "batch",
     .type = OPTION_NUMBER,
     OF_RELAY(batch),
     .otherwise = "by preset: 100, 1000, 10",
     .least = 1,
     .most = SEMEL_BATCH_MAX,
     .text = "messages that are leased and sent at once",
     .example = "100"},
    {.name = "lease",
     .type = OPTION_DURATION,
     OF_RELAY(lease_ms),
     .otherwise = "by preset: 30s, 60s, 30s",
     .least = 100,
     .most = DAY_MS,
     .text = "how long a relay that died keeps others from its messages",
     .example = "30s"},
    {.name = "poll",
     .type = OPTION_DURATION,
     OF_RELAY(poll_ms),
     .otherwise = "by preset: 1s, 200ms, 2s",
     .least = 1,
     .most = DAY_MS,
     .text = "how often the relay looks by itself; commits of its own process wake it",
     .example = "1s"},
    {.name = "attempts_max",
     .type = OPTION_NUMBER,
     OF_RELAY(attempts_max),
     .otherwise = "by preset: 10, 10, 25",
     .least = 1,
     .most = 1000,
     .text = "refused so often, a message becomes a dead letter",
     .example = "10"},
    {.name = "backoff",
     .type = OPTION_DURATION,
     OF_RELAY(backoff_ms),
     .otherwise = "by preset: 200ms, 100ms, 1s",
     .least = 1,
     .most = DAY_MS,
     .text = "wait before the second attempt; doubles each time, up to backoff_max",
     .example = "200ms"},
    {.name = "backoff_max",
     .type = OPTION_DURATION,
     OF_RELAY(backoff_max_ms),
     .otherwise = "by preset: 60s, 30s, 10m",
     .least = 1,
     .most = 7 * DAY_MS,
     .text = "longest wait between two attempts",
     .example = "60s"},
    {.name = "on_unroutable",
     .type = OPTION_WORD,
     OF_RELAY(on_unroutable),
     .fallback = "wait",
     .words = on_unroutable,
     .text = "a message for whose topic the broker has no queue",
     .example = "dead"},
    {.name = "keep_sent",
     .type = OPTION_LONG_DURATION,
     OF_RELAY(keep_sent_ms),
     .fallback = "never",
     .least = 1000,
     .most = 3650 * DAY_MS,
     .words = keep_never,
     .text = "how long a row of each sent message is kept",
     .example = "7d"},
};
const section section_outbox = {
    "outboxes.NAME",
    "Messages that are stored with the work and sent afterwards. One for each queue that `send` or "
    "`faults` names is there by itself, under the name of the queue.",
    outbox_options,
    COUNT(outbox_options),
    sizeof(outbox_config),
    offsetof(outbox_config, name),
    offsetof(outbox_config, at)};

/* --- the file --------------------------------------------------------------------------------- */

static const option config_options[] = {
    {.name = "version",
     .type = OPTION_NUMBER,
     .flags = OPTION_REQUIRED,
     .offset = offsetof(config, version),
     .least = 1,
     .most = 1,
     .text = "the version of this format",
     .example = "1"},
    {.name = "store",
     .type = OPTION_SECTION,
     .flags = OPTION_REQUIRED,
     .inner = &section_store,
     .text = "the database",
     .example = "sqlite:shop.db"},
    {.name = "setup",
     .type = OPTION_LIST,
     .offset = offsetof(config, setup),
     .otherwise = "none",
     .text = "statements that run at every start and in semel test; must be safe to repeat",
     .example = "CREATE TABLE IF NOT EXISTS ledger (order_id INTEGER, amount INTEGER)"},
    {.name = "queues",
     .type = OPTION_NAMED,
     .offset = offsetof(config, queues),
     .count_offset = offsetof(config, queue_count),
     .inner = &section_queue,
     .text = "where messages come from and go to",
     .example = "{ orders: store }"},
    {.name = "inboxes",
     .type = OPTION_NAMED,
     .offset = offsetof(config, inboxes),
     .count_offset = offsetof(config, inbox_count),
     .inner = &section_inbox,
     .text = "what is done with messages, once per key"},
    {.name = "outboxes",
     .type = OPTION_NAMED,
     .offset = offsetof(config, outboxes),
     .count_offset = offsetof(config, outbox_count),
     .inner = &section_outbox,
     .text = "options of outgoing messages"},
    {.name = "gateway",
     .type = OPTION_SECTION,
     .offset = offsetof(config, gateway),
     .inner = &section_gateway,
     .text = "HTTP for others: webhooks, an idempotent proxy, publishing"},
    {.name = "admin",
     .type = OPTION_SECTION,
     .offset = offsetof(config, admin),
     .inner = &section_admin,
     .text = "HTTP for operators: health, metrics, the page",
     .example = "127.0.0.1:8481"},
    {.name = "history",
     .type = OPTION_SECTION,
     .offset = offsetof(config, history),
     .inner = &section_history,
     .text = "what is kept of recent deliveries, for timelines"},
    {.name = "tracing",
     .type = OPTION_SECTION,
     .offset = offsetof(config, tracing),
     .inner = &section_tracing,
     .text = "spans for OpenTelemetry",
     .example = "http://127.0.0.1:4318"},
    {.name = "log",
     .type = OPTION_SECTION,
     .offset = offsetof(config, log),
     .inner = &section_log,
     .text = "what is logged, and how"},
    {.name = "drain",
     .type = OPTION_DURATION,
     .offset = offsetof(config, drain_ms),
     .fallback = "30s",
     .most = DAY_MS,
     .text = "time allowed for work in progress after SIGTERM",
     .example = "30s"},
    {.name = "tests",
     .type = OPTION_SECTIONS,
     .offset = offsetof(config, tests),
     .count_offset = offsetof(config, test_count),
     .inner = &section_test,
     .text = "what semel test runs"},
};
const section section_config = {
    "the file",       "", config_options, COUNT(config_options), sizeof(config), SECTION_NO_OFFSET,
    SECTION_NO_OFFSET};
