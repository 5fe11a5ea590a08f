/* What the sections about `semel run` share.
 *
 *     run_program.c   starts the program, waits until it is ready, looks at its memory, stops it
 *     run_stage.c     a store with a full queue, and how fast it is emptied
 *     run_slices.c    programs that run at once, for small differences
 *     run_library.c   a consumer on that queue by the library alone, in a process of its own, too
 *     run_echo.c      a worker that does nothing, and the bare loop over pipes to such workers
 *     run_http.c      a server that does nothing, and the bare loop of libcurl
 *     section_run*.c  what is measured
 *     gateway_load.c  clients of the gateway; plain/ has a plain proxy and an upstream
 *
 * The program is the one beside the benchmark, as a user would start it. Each turn starts it anew
 * on a queue that was filled before; what is timed begins when a fifth of the queue is done, and so
 * is the steady state and not the start. */
#ifndef SEMEL_BENCH_RUN_H
#define SEMEL_BENCH_RUN_H

#include "server.h"

#include <semel/consumer.h>
#include <sys/types.h>

enum { RUN_SIDES_MAX = 4, RUN_PROCESSES = 4 };

/* --- run_program.c ---------------------------------------------------------------------------- */

typedef struct program {
    char config[512];
    const char *const *arguments; /* its file first; NULL: semel run -c CONFIG */
    pid_t pid;
    int said; /* what it writes to stderr */
    double ready_ms;
    double resident_mib; /* the most that was seen since it was started */
} program;

const char *program_path(char out[512], const char *name); /* of a file beside the benchmark */
void program_configure(program *p, const char *name, const char *format, ...) SEMEL_PRINTF(3, 4);
void program_start(program *p); /* and waits until it is ready */
void program_watch(program *p); /* it is still there; looks at its memory */
void program_stop(program *p);
double program_cpu_s(const program *p);

/* --- run_stage.c ------------------------------------------------------------------------------ */

/* A store that is new, on SQLite or on a server. */
typedef struct stage {
    const server *on; /* NULL: SQLite */
    const char *server_url;
    const char *name;
    char url[1100];
    char effect[100]; /* the table of the rows */
    char left_sql[SQL_TEXT];
    sqlite3 *db;
    raw_connection *connection;
} stage;

void stage_open(stage *s, const server *on, const char *server_url, const char *name);
void stage_close(stage *s);
void stage_fill(stage *s, const message_set *set);
/* What a turn cost. The processor time is that of the process that is measured, without its workers
 * and without the server; 0: not known. Other work on the machine disturbs it far less. */
typedef struct run_figure {
    double rate;   /* messages a second */
    double cpu_us; /* a message */
} run_figure;

/* While the queue is emptied by this process. */
run_figure stage_measure(stage *s, size_t filled, program *by);
/* So many effects are there, or so many keys that were completed; if not, the benchmark ends. A
 * queue is also emptied by dead letters, and quickly. */
void stage_check_effects(stage *s, size_t expected);
void stage_check_completed(stage *s, size_t expected);

/* --- contenders ------------------------------------------------------------------------------- */

typedef struct run_side {
    run_figure (*turn)(void *context, const message_set *set);
    void *context;
} run_side;

typedef struct run_comparison {
    comparison rates; /* its rounds and contenders are set by the caller */
    comparison costs; /* processor time, as messages in a second of it */
} run_comparison;

/* Every round each takes the same messages; one round before the first is not counted. */
void run_rounds(run_comparison *d, const run_side sides[], size_t messages, const char *label);
void run_report_cost(const run_comparison *d, size_t which, size_t against);
/* In place of `kept`: the slower of the two, round by round. */
comparison run_slower(const comparison *d, size_t kept, size_t other);

typedef struct program_side {
    stage stage;
    program program;
} program_side;

run_figure program_turn(void *program_side, const message_set *set);

/* run_slices.c: the processor time of programs that differ in little, as messages in a second of
 * it. SQLite only; each side is open, configured and not started. */
typedef struct slice_side {
    program_side *of;
    void (*meanwhile)(void *context); /* in the middle of each slice; may be NULL */
    void *context;
} slice_side;

void run_slices(comparison *costs, const slice_side sides[], size_t messages, const char *label);

/* run_library.c: the benchmark under another argument, so that neither what it counts for other
 * sections nor its look at the queue is in the way of the library. */
typedef struct library_side {
    stage stage;
    semel_mode mode; /* in claim mode the handler is empty, else it queues the row */
    uint32_t batch, workers;
    program process;
} library_side;

#define LIBRARY_ARGUMENT "--as-library"
int library_main(char **arguments); /* mode, batch, workers, URL, table */
run_figure library_turn(void *library_side, const message_set *set);

/* run_echo.c */
typedef struct echo_process {
    pid_t pid;
    int to, from;
} echo_process;

#define ECHO_ARGUMENT "--as-echo-worker" /* makes the benchmark such a worker */
int echo_main(void);
void echo_start(echo_process all[RUN_PROCESSES]);
void echo_stop(echo_process all[RUN_PROCESSES]);
run_figure echo_turn(void *echo_processes, const message_set *set);

/* run_http.c */
typedef struct http_sink {
    int port;
    char url[64];
    void *handles[RUN_PROCESSES]; /* of the bare loop */
} http_sink;

void http_sink_open(http_sink *sink); /* stays until the benchmark ends */
run_figure http_sink_turn(void *http_sink, const message_set *set);

/* --- sections --------------------------------------------------------------------------------- */

void section_run_sql(void);
void section_run_worker(void);
void section_run_http(void);
void section_run_start(void);
void section_tracing(void);
void section_gateway(void);
void section_history(void);
void section_run_metrics(void); /* section_run_metrics.c */

#endif
