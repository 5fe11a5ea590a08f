/* The parts of the API and what they share. */
#ifndef SEMEL_PROGRAM_ADMIN_API_INTERNAL_H
#define SEMEL_PROGRAM_ADMIN_API_INTERNAL_H

#include "program/admin/api.h"
#include "program/admin/api_json.h"
#include "program/admin/api_query.h"
#include "program/admin/api_series.h"
#include "program/operate/tool.h"
#include "program/support/unique_id.h"
#include "program/watch/history.h"

#include <pthread.h>

enum {
    API_PAGE = 50,
    API_READERS = 2,        /* threads that ask the store */
    API_QUESTIONS_MAX = 32, /* that wait for them */
    API_ANSWER_MS = 10000,  /* then a question is answered without the store */
    API_JOBS_KEPT = 32,
    API_OUTCOMES_MAX = 10,
    API_NOTES_MAX = 8,
    API_OUTAGES_MAX = 32,
    API_SPARKS_MAX = 512,
    API_SPARK_MINUTES = 60,
    API_REPLAYS_MAX = 128
};

/* --- what the configuration says, copied (api_snapshot.c) ------------------------------------- */

typedef struct inbox_facts {
    const char *name, *from, *handler, *mode, *key, *warning;
    uint64_t retention_ms; /* UINT64_MAX: forever */
    int grade;             /* 0: not known yet */
    int is_proxy;          /* the keys of a route of the gateway, with answers */
} inbox_facts;

typedef struct outbox_facts {
    const char *name, *to;
} outbox_facts;

typedef struct queue_facts {
    const char *name, *location, *broker; /* NULL: a queue in the store */
    int is_read, is_written;
} queue_facts;

typedef struct broker_facts {
    const char *name, *url;
    int grade;
} broker_facts;

typedef struct check_facts {
    const char *state; /* "warn" */
    const char *what, *text, *help;
} check_facts;

typedef struct snapshot {
    int uses; /* under the lock of the API */
    region memory;
    const char *path, *store_url;
    int store_grade;
    inbox_facts *inboxes;
    outbox_facts *outboxes;
    queue_facts *queues;
    broker_facts *brokers;
    check_facts *checks;
    size_t inbox_count, outbox_count, queue_count, broker_count, check_count;
    char *values; /* JSON: the list of the configuration's values */
    char *routes; /* JSON: the list of the gateway's routes */
    int has_token, has_history;
    char *token; /* never shown */
} snapshot;

snapshot *snapshot_make(const config *all, const semel_pipeline *pipeline);
void snapshot_free(snapshot *s);
const inbox_facts *snapshot_inbox(const snapshot *s, const char *name); /* NULL: there is none */

/* The members of a route of the gateway that its configuration says. */
void api_put_route(buffer *to, region *memory, const route_config *route);

/* api_values.c: the values of a configuration as a JSON list, without secrets. */
void api_put_values(buffer *to, const config *all);

/* --- what is looked at every other second (api_look.c) ---------------------------------------- */

typedef struct trouble {
    char component[288]; /* "store", "queue orders", "outbox placed" */
    char msg[32];        /* "waiting", "stalled", "failed", "unreachable" */
    char error[256];
    int64_t since_ms;
    uint64_t waiting;
    int64_t until_ms; /* 0: not over */
} trouble;

/* The suppressed copies of an inbox, or the sent messages of an outbox, minute by minute. */
typedef struct spark {
    char name[SEMEL_NAME_MAX + 1];
    int is_outbox;
    uint64_t last;
    float minutes[API_SPARK_MINUTES]; /* the oldest first */
    int filled;
} spark;

typedef struct looked {
    history views;
    trouble troubles[API_OUTAGES_MAX]; /* those of now, and those that are over, newest first */
    size_t trouble_count;
    int64_t store_at_ms; /* when the store answered last; 0: never */
    int64_t fresh_ms;    /* so old may that be to count as of now */
    int64_t ping_ns;
    int64_t unsent, oldest_ms, dead;  /* -1: not known */
    int64_t keys[SEMEL_PIPELINE_MAX]; /* of the inboxes of the snapshot; -1: not known */
    size_t key_count;
    int64_t depths[SEMEL_PIPELINE_MAX]; /* of the queues at brokers; -1: not known */
    size_t depth_count;
    spark *sparks;
    size_t spark_count;
    int64_t spark_minute;
} looked;

/* --- jobs (api_jobs.c) ------------------------------------------------------------------------ */

typedef enum job_state { JOB_RUNNING = 1, JOB_DONE, JOB_STOPPED, JOB_FAILED } job_state;

typedef struct job {
    int64_t id;
    api_verb verb;
    job_state state;
    atomic_int stops;
    region memory; /* with the action */
    const api_action *action;
    const char *who, *note, *what;
    int64_t began_ms, ended_ms;
    uint64_t total;
    struct {
        const char *word;
        uint64_t count;
    } outcomes[API_OUTCOMES_MAX];
    size_t outcome_count;
    char *notes[API_NOTES_MAX];
    size_t note_count;
    int64_t audit_id;
    char *error;
    uint64_t gone; /* before it began */
    pthread_t thread;
    int has_thread;
    api *api;
} job;

/* An answer to a change, for a request that comes again. */
typedef struct replay {
    char request[UNIQUE_ID_SIZE];
    char digest[65];
    unsigned status;
    int64_t job;
} replay;

/* --- the whole -------------------------------------------------------------------------------- */

/* Requests to a route, for its rate: the totals of two moments. */
typedef struct route_rate {
    char name[64];
    uint64_t total;
    int64_t at_ns;
    double rate; /* negative: not known yet */
} route_rate;

enum { API_ROUTES_MAX = 64 };

typedef struct question question;

struct api {
    log *log;
    struct live *live;
    pthread_mutex_t lock; /* over what follows, up to the next one */
    pthread_cond_t wake;  /* questions have come, or it ends */
    pthread_cond_t idle;  /* no thread uses store, configuration and pipeline */
    semel_store *store;
    const config *all;
    semel_pipeline *pipeline;
    int uses, stops, is_exchanged;
    snapshot *facts;
    question *first, *last; /* that wait */
    question *asked[API_READERS];
    size_t waiting;
    pthread_mutex_t look_lock; /* over the next two */
    looked looked;
    series series;
    pthread_mutex_t gateway_lock; /* over the next two */
    struct gateway *gateway;
    route_rate rates[API_ROUTES_MAX];
    pthread_mutex_t job_lock; /* over what follows */
    job *jobs[API_JOBS_KEPT];
    int64_t last_job;
    replay replays[API_REPLAYS_MAX];
    size_t next_replay;
    int64_t refused_ns;             /* when a refused change was last written to the audit */
    uint64_t refused;               /* further ones, not written */
    pthread_mutex_t decide_lock;    /* changes are decided about one after the other */
    atomic_int_fast64_t last_audit; /* an id that exists */
    atomic_int_fast64_t asked_ns;   /* when the last question came */
    pthread_t readers[API_READERS];
    size_t reader_count;
    pthread_t looker, sampler;
    int has_looker, has_sampler;
};

/* The store and the configuration, as long as they are used. */
typedef struct api_place {
    semel_store *store;
    const config *all;
    semel_pipeline *pipeline; /* NULL: there is none yet */
} api_place;

/* 0: there is no store yet, or the configuration is being exchanged. */
int api_begin_use(api *a, api_place *out);
void api_end_use(api *a);

snapshot *api_take_facts(api *a);
void api_return_facts(api *a, snapshot *s);

/* Once in a second, by the sampler: questions that took too long are answered. */
void api_answer_late(api *a);

/* --- answers ---------------------------------------------------------------------------------- */

typedef struct api_answer {
    unsigned status; /* 0: 200 */
    buffer body;     /* "{" and members */
    /* of a problem: */
    const char *type, *title;
    buffer detail, more; /* more: further members */
    uint32_t retry_after_s;
    int is_replayed;
} api_answer;

/* What a route gets. Everything is copied, so that the request may be answered meanwhile. */
typedef struct asking {
    api *a;
    region memory;
    api_query query;
    semel_bytes body;
    const char *peer, *request_id, *token;
    int is_post;
    api_action action; /* of a change */
} asking;

typedef void api_route(asking *q, api_answer *out);

/* A problem; the detail is a format. */
void api_problem(api_answer *out, unsigned status, const char *type, const char *title,
                 const char *format, ...) SEMEL_PRINTF(5, 6);
void api_not_found(api_answer *out, const char *format, ...) SEMEL_PRINTF(2, 3);
void api_bad_query(api_answer *out, const char *format, ...) SEMEL_PRINTF(2, 3);
void api_store_failed(api_answer *out, const semel_error *why);
void api_no_store(api_answer *out, api *a);

/* Answers the request; `if_none_match` may be NULL. The answer stays the caller's. */
void api_send(http_request *request, const char *if_none_match, api_answer *out);
void api_answer_free(api_answer *out);

/* The parameters that a route knows; 0 after a problem if there is another one. */
int api_knows(const asking *q, api_answer *out, const char *const names[]);

/* since= or until=: 2h, a time, or milliseconds since 1970; 0 after a problem. */
int api_query_time(int64_t *out_ms, const asking *q, api_answer *to, const char *name);

/* Who hears what the commands say, for routes that use their code. */
typedef struct hearing {
    tool_host host;
    buffer said; /* the first of it */
    api_answer *out;
} hearing;

void hearing_begin(hearing *h, api_answer *out);
/* The problem that fits an exit status; 0 is none. */
void hearing_end(hearing *h, int status);

/* The routes. Those that answer from memory, and those that ask the store. */
void api_overview(asking *q, api_answer *out);
void api_inboxes(asking *q, api_answer *out);
void api_inbox(asking *q, api_answer *out);
void api_message(asking *q, api_answer *out);
void api_find(asking *q, api_answer *out);
void api_outboxes(asking *q, api_answer *out);
void api_outbox(asking *q, api_answer *out);
void api_queues(asking *q, api_answer *out);
void api_dead_groups(asking *q, api_answer *out);
void api_dead(asking *q, api_answer *out);
void api_letter(asking *q, api_answer *out);
void api_gateway(asking *q, api_answer *out);
void api_config(asking *q, api_answer *out);
void api_audit(asking *q, api_answer *out);
void api_job(asking *q, api_answer *out);
void api_session(asking *q, api_answer *out);
void api_preview(asking *q, api_answer *out);
void api_act(asking *q, api_answer *out);
void api_stop_job(asking *q, api_answer *out);

/* api_safety.c: may this request change anything? 1, or 0 after a problem. */
int api_may_change(api *a, http_request *request, api_answer *out);
int api_token_is_right(const snapshot *s, const char *given);
/* A change that was refused is counted at once. It has an entry in the audit, too, or is one of
 * the number in the next entry; that asks the store. */
void api_count_refused(api *a);
void api_audit_refused(api *a, const char *who, const char *what, const char *why);
/* "mira (127.0.0.1)", of the name that was given and the address. */
const char *api_actor(region *memory, const char *who, const char *peer);

/* api_look.c and api_sample.c: the threads. */
void *api_look(void *context);
void *api_sample(void *context);
int api_pause(api *a, int64_t ms); /* 1: it ends */
void looked_free(looked *l);
/* Shared by overview and lists; the caller has look_lock. */
void api_put_inbox(buffer *to, const char *name, api *a, const snapshot *s, const inbox_facts *f);
void api_put_spark(buffer *to, const looked *l, const char *name, int is_outbox);
const trouble *looked_trouble(const looked *l, const char *component); /* of now; NULL: none */

/* api_jobs.c */
/* Starts one; NULL, and in *busy the job of this kind that is at work. `what` is the command;
 * `gone` of those that were confirmed are not there any more. */
job *job_start(api *a, const api_action *action, const char *who, const char *what, uint64_t total,
               uint64_t gone, int64_t *busy);
void job_put(buffer *to, job *j);  /* the caller has job_lock */
job *job_find(api *a, int64_t id); /* the same */
void jobs_stop(api *a);
void jobs_close(api *a);

/* api_work.c: the changes, by the code of the commands. `preview` fills the answer with what would
 * be done; exit statuses. */
typedef struct work_found {
    uint64_t count;
    int64_t until_id, until_ms;
    int irreversible;
    const char *names[3];
    size_t name_count;
    semel_bytes sample[3];
    size_t sampled;
    const char *command;
} work_found;

int work_look(work_found *out, region *memory, const api_place *at, const api_action *action,
              const tool_host *host);
int work_do(const api_place *at, const api_action *action, const tool_host *host);

#endif
