/* Programs that differ in little, compared by their processor time: all run side by side, each for
 * a slice of a fifth of a second while the others are stopped (SIGSTOP), in turns. What the machine
 * does besides changes from second to second, so neighbouring slices are compared, and the median
 * of many such pairs is taken.
 *
 * A slice ends with a commit of the program, so that no batch is counted by one slice and paid for
 * by another: its rows are watched over a connection of the benchmark. A program that is stopped may
 * have the store locked; so all queues are filled before, each store has one program, and a
 * measurement also ends when a queue is nearly empty. SQLite only. */
#include "run.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

enum { SLICE_MS = 200, LOOK_US = 200, PATIENCE_S = 60 };

/* Where a program was when it last committed. */
typedef struct mark {
    int64_t rows;
    double cpu_s;
} mark;

static void pause_us(long us)
{
    const struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    nanosleep(&pause, NULL);
}

/* Reads no more than the last row. */
static int64_t rows_of(const slice_side *side)
{
    return raw_number(side->of->stage.db, "SELECT coalesce(max(id), 0) FROM effect");
}

static void go_on(const slice_side *side)
{
    if (kill(side->of->program.pid, SIGCONT) != 0)
        die("a program cannot go on: %s", strerror(errno));
}

static void stop(const slice_side *side)
{
    int status = 0;
    if (kill(side->of->program.pid, SIGSTOP) != 0 ||
        waitpid(side->of->program.pid, &status, WUNTRACED) < 0 || !WIFSTOPPED(status))
        die("a program cannot be stopped, or has ended");
}

/* Until the next commit. */
static mark next_commit(const slice_side *side)
{
    double end = now_s() + PATIENCE_S;
    int64_t before = rows_of(side), rows;
    while ((rows = rows_of(side)) == before) {
        if (now_s() > end)
            die("%s has handled nothing for %d s", side->of->stage.name, PATIENCE_S);
        stop_if_asked();
        pause_us(LOOK_US);
    }
    return (mark){rows, program_cpu_s(&side->of->program)};
}

static mark run_slice(const slice_side *side)
{
    go_on(side);
    pause_us(SLICE_MS * 1000L / 2);
    if (side->meanwhile)
        side->meanwhile(side->context);
    pause_us(SLICE_MS * 1000L / 2);
    mark reached = next_commit(side);
    stop(side);
    return reached;
}

static void take_turn(comparison *costs, size_t round, size_t which, const slice_side *side,
                      mark *last)
{
    mark reached = run_slice(side);
    if (round)
        costs->rate[which][round - 1] =
            (double)(reached.rows - last->rows) / (reached.cpu_s - last->cpu_s);
    *last = reached;
}

/* Is there enough for a slice of each, and as much again? */
static int is_filled(const mark last[], size_t count, size_t round, size_t messages)
{
    for (size_t i = 0; i < count; i++)
        if ((size_t)last[i].rows + 2 * (size_t)last[i].rows / (round + 1) > messages)
            return 0;
    return 1;
}

static void start_all(const slice_side sides[], size_t count, size_t messages)
{
    message_set set = {0};
    key_source keys;
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    messages_make(&set, &keys, messages);
    for (size_t i = 0; i < count; i++)
        stage_fill(&sides[i].of->stage, &set);
    messages_free(&set);
    for (size_t i = 0; i < count; i++) {
        program_start(&sides[i].of->program);
        stop(&sides[i]);
    }
}

/* What was handled had its effect, and the rest is in the queue. */
static void end_all(const slice_side sides[], size_t count, size_t messages)
{
    for (size_t i = 0; i < count; i++) {
        stage *on = &sides[i].of->stage;
        go_on(&sides[i]);
        program_stop(&sides[i].of->program);
        stage_check_effects(on, messages - (size_t)raw_number(on->db, on->left_sql));
    }
}

void run_slices(comparison *costs, const slice_side sides[], size_t messages, const char *label)
{
    mark last[CONTENDERS_MAX] = {{0, 0}};
    size_t count = costs->contenders;
    start_all(sides, count, messages);
    for (size_t round = 0; round <= costs->rounds; round++) {
        progress(label, round, costs->rounds + 1);
        for (size_t i = 0; i < count; i++) {
            size_t which = round % 2 ? count - 1 - i : i;
            take_turn(costs, round, which, &sides[which], &last[which]);
        }
        if (!is_filled(last, count, round, messages) && round)
            costs->rounds = round;
        comparison_settle(costs, round);
    }
    progress_clear();
    end_all(sides, count, messages);
}
