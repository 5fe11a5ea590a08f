/* The configuration of `semel run` as C structures: what a file of YAML says, with every default
 * filled in and every reference checked.
 *
 * config_load() (config/load.h) makes it from a file; the commands and handlers only read it. Each
 * element keeps the node of the file that it came from, so that an error that is found later (a
 * statement that the database refuses, a program that does not exist) is reported with file, line
 * and column. Everything belongs to the configuration and lives until config_free(). */
#ifndef SEMEL_PROGRAM_CONFIG_CONFIG_H
#define SEMEL_PROGRAM_CONFIG_CONFIG_H

#include <semel/semel.h>

typedef struct config_node config_node; /* config/tree.h */

typedef struct config_list {
    const char *const *items; /* the last one is followed by NULL */
    size_t count;
} config_list;

typedef struct config_pair {
    const char *name;
    const char *value;
} config_pair;

typedef struct config_pairs {
    const config_pair *items;
    size_t count;
} config_pairs;

/* --- handlers --------------------------------------------------------------------------------- */

typedef enum handler_kind {
    HANDLER_NONE = 0, /* `send` alone: a bridge between queues */
    HANDLER_SQL,
    HANDLER_HTTP,
    HANDLER_EXEC,
    HANDLER_WORKER
} handler_kind;

/* Of exec and worker processes; 0: not limited, but for output. */
typedef struct limits_config {
    uint64_t memory_bytes;
    uint64_t cpu_ms;
    uint64_t files;
    uint64_t output_bytes; /* of stdout and of one answer; more is a failure. Default 64 KiB */
} limits_config;

typedef enum handler_output {
    OUTPUT_NONE = 0, /* stdout is ignored */
    OUTPUT_RESULT,   /* stored with the key */
    OUTPUT_ANSWER    /* a JSON object: result, send, status */
} handler_output;

typedef struct exec_config {
    config_list command; /* no shell; a path with a slash is relative to the file */
    config_pairs env;
    handler_output output;
    limits_config limits;
} exec_config;

typedef struct worker_config {
    config_list command;
    config_pairs env;
    uint32_t processes;
    limits_config limits;
} worker_config;

typedef enum http_form { HTTP_BINARY = 0, HTTP_STRUCTURED } http_form;

typedef struct http_config {
    const char *url;
    http_form cloudevents;
    config_pairs headers; /* values may hold secrets: they are never printed */
    int private_addresses;
    uint64_t response_bytes; /* the most of an answer that is read; more is a failure */
} http_config;

/* A message that is sent if and only if the handler's work commits. Texts that begin with ':' are
 * values of the received message (handler/value.h); NULL: as in the received message. */
typedef struct send_config {
    const char *to; /* a queue, whose outbox has the same name */
    const char *type;
    const char *id; /* NULL: made from the received message, so that a repetition has the same */
    const char *topic;
    const char *group;
    config_pairs headers;
    const config_node *body; /* NULL: the received body */
    const config_node *at;
} send_config;

/* --- elements --------------------------------------------------------------------------------- */

typedef struct queue_config {
    const char *name;
    const char *url; /* NULL: a queue in the store */
    semel_queue_options queue;
    semel_consumer_options consumer;
    int is_read;    /* an inbox reads it */
    int is_written; /* an outbox sends to it */
    const config_node *at;
} queue_config;

typedef struct inbox_config {
    const char *name;
    const char *from;
    config_list types; /* count 0: all */
    semel_inbox_options options;
    const char *faults; /* a queue, or NULL */
    semel_grade require;
    uint32_t timeout_ms; /* of one attempt of http, exec and worker */
    handler_kind handler;
    config_list sql; /* statements as written, with :values */
    http_config http;
    exec_config exec;
    worker_config worker;
    const send_config *sends;
    size_t send_count;
    const config_node *at;
} inbox_config;

typedef enum table_preset { TABLE_COLUMNS = 0, TABLE_DEBEZIUM } table_preset;

/* A table of the application's, whose rows are sent. A column that is NULL is the preset's, or
 * absent. */
typedef struct table_config {
    const char *name; /* NULL: none */
    table_preset preset;
    const char *id, *type, *group, *topic, *body; /* columns */
    const char *prefix;                           /* of the topic */
} table_config;

typedef struct outbox_config {
    const char *name;
    const char *to; /* a queue */
    table_config table;
    semel_relay_options options;
    const config_node *at;
} outbox_config;

typedef enum log_level { LOG_ERROR = 0, LOG_WARNING, LOG_INFO, LOG_DEBUG } log_level;
typedef enum log_format { LOG_FORMAT_AUTO = 0, LOG_FORMAT_TEXT, LOG_FORMAT_JSON } log_format;
typedef enum log_messages {
    LOG_MESSAGES_AUTO = 0,
    LOG_MESSAGES_ALL,
    LOG_MESSAGES_NONE
} log_messages;

typedef struct log_config {
    log_level level;
    log_format format;
    log_messages messages;
    int keys; /* 0: keys are shown as 12 hex digits of their SHA-256 */
} log_config;

/* --- HTTP ------------------------------------------------------------------------------------- */

typedef enum webhook_preset {
    WEBHOOK_NONE = 0,
    WEBHOOK_STANDARD, /* Standard Webhooks: v1 (HMAC-SHA256) and v1a (Ed25519) */
    WEBHOOK_STRIPE,
    WEBHOOK_GITHUB,
    WEBHOOK_SHOPIFY,
    WEBHOOK_SLACK,
    WEBHOOK_HMAC /* as `hmac` says */
} webhook_preset;

typedef enum hmac_encoding { HMAC_HEX = 0, HMAC_BASE64 } hmac_encoding;
typedef enum hmac_algorithm { HMAC_SHA256 = 0, HMAC_SHA1, HMAC_SHA512 } hmac_algorithm;

/* A signature of a sender that no preset knows. */
typedef struct hmac_config {
    const char *header; /* that has the signature */
    const char *prefix; /* before the signature in the header: sha256= */
    hmac_algorithm algorithm;
    hmac_encoding encoding;
    const char *timestamp; /* a header with the time in seconds since 1970; NULL: none */
    const char *content;   /* what is signed: {body}, {timestamp}.{body}, ... */
} hmac_config;

typedef enum route_kind {
    ROUTE_PUBLISH = 0, /* `to` alone: a message, or CloudEvents, for a queue */
    ROUTE_WEBHOOK,     /* `preset`: the same, after its signature was verified */
    ROUTE_PROXY        /* `proxy`: an upstream that handles each key once */
} route_kind;

/* What becomes of a key whose request has reached the upstream and has no answer. */
typedef enum on_unknown {
    UNKNOWN_REPORT = 0, /* copies are told so, until an operator or the retention ends it */
    UNKNOWN_RETRY       /* the next copy is sent to the upstream again, with the same key */
} on_unknown;

typedef struct route_config {
    const char *name; /* for metrics, logs, and the inbox of its keys; default: from the path */
    const char *path; /* exact, or a prefix and * */
    config_list methods;
    route_kind kind;     /* completed */
    const char *to;      /* a queue, or NULL */
    const char *inbox;   /* handled before it is answered, instead of `to`; or NULL */
    config_list tokens;  /* secret: bearer tokens of publish routes; count 0: any caller */
    uint32_t rate;       /* requests a second from one address; 0: as the gateway's */
    uint64_t body_bytes; /* 0: as the gateway's */
    /* webhooks */
    webhook_preset preset;
    config_list secrets; /* secret: any of them may have signed, for rotation */
    uint64_t tolerance_ms;
    const char *key; /* a key expression instead of the preset's */
    hmac_config hmac;
    /* proxies */
    const char *proxy; /* the URL of the upstream */
    const char *key_header;
    int key_required;     /* 0: a request without a key is passed on, unprotected */
    config_list identity; /* headers whose values belong to the key; secret values are digested */
    semel_on_in_flight on_in_flight;
    uint32_t wait_ms;
    config_list replay; /* statuses whose answers are replayed: 2xx, 404 */
    on_unknown on_unknown;
    uint32_t timeout_ms;
    uint32_t lease_ms;
    uint64_t retention_ms;
    uint64_t response_bytes;
    config_list replay_headers; /* of answers, beside those that are always replayed */
    int private_addresses;
    const config_node *at;
} route_config;

typedef struct gateway_config {
    const char *listen; /* NULL: there is no gateway. 127.0.0.1:8480, [::1]:8480, unix:PATH */
    uint32_t workers;
    uint32_t connections;
    uint32_t connections_per_client;
    uint64_t body_bytes;
    uint64_t header_bytes;
    uint64_t memory_bytes; /* of all bodies that are held */
    uint32_t request_ms;   /* until the whole request was received */
    uint32_t idle_ms;      /* a connection without a request */
    uint32_t rate;         /* requests a second from one address; 0: not limited */
    const route_config *routes;
    size_t route_count;
    const config_node *at;
} gateway_config;

typedef struct admin_config {
    const char *listen; /* NULL: there is no admin server */
    const char *token;  /* secret; NULL: nothing can be changed by HTTP */
    config_list hosts;  /* names in Host, beside those of the loopback */
    int page;
    const config_node *at;
} admin_config;

/* What is kept of the outcomes of the last while, for timelines. */
typedef struct history_config {
    int enabled;
    uint64_t age_ms;
    uint64_t rows;
    uint64_t body_bytes; /* of the first delivery of a message; 0: none */
} history_config;

/* The OTEL_* variables say the same; what the file says wins. */
typedef struct tracing_config {
    const char *endpoint; /* of OTLP/HTTP; NULL: by the environment, else there is no tracing */
    config_pairs headers; /* secret */
    const char *sample;   /* a share from 0 to 1, as a text; NULL: by the environment, else 0.01 */
    const char *service;  /* service.name */
} tracing_config;

/* --- tests ------------------------------------------------------------------------------------ */

typedef struct test_message {
    const char *to;
    const char *id; /* NULL: made by the test */
    const char *type;
    const char *source;
    const char *group;
    config_pairs headers;
    const config_node *body;
    uint32_t copies;
} test_message;

/* What a stubbed handler answers, or which outcomes an inbox is to have. */
typedef struct test_words {
    const char *inbox;
    config_list words;
    const config_node *at;
} test_words;

typedef struct test_number {
    const char *name; /* a queue, or a statement that returns one value */
    const config_node *value;
} test_number;

typedef struct test_config {
    const char *name;
    const test_message *given;
    size_t given_count;
    const test_words *answers;
    size_t answer_count;
    const test_words *inboxes;
    size_t inbox_count;
    const test_number *sent;
    size_t sent_count;
    const test_number *sql;
    size_t sql_count;
    int64_t dead; /* -1: not asked */
    const config_node *at;
} test_config;

/* --- the whole -------------------------------------------------------------------------------- */

typedef struct config {
    const char *path; /* of the file, as it was given */
    uint32_t version;
    const char *directory; /* paths in it are relative to this */
    const char *store_url;
    semel_store_options store;
    config_list setup;
    const queue_config *queues;
    size_t queue_count;
    const inbox_config *inboxes;
    size_t inbox_count;
    const outbox_config *outboxes; /* those of `send` and `faults`, too */
    size_t outbox_count;
    gateway_config gateway;
    admin_config admin;
    history_config history;
    tracing_config tracing;
    log_config log;
    uint32_t drain_ms;
    const test_config *tests;
    size_t test_count;
    const config_node *root;
} config;

#endif
