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
    log_config log;
    uint32_t drain_ms;
    const test_config *tests;
    size_t test_count;
    const config_node *root;
} config;

#endif
