/* Programs that differ in little, compared by their processor time: all run at once, and what each
 * has used and done is read in slices of half a second. What the machine does besides hurts
 * all of them in the same slice, so the ratio is taken within a slice, and the median over many.
 * Work that a program does by the clock has the share that it has in real life, as it would not
 * have if the programs took turns.
 *
 * A slice ends with a commit of the program, so that no batch is counted in one slice and paid for
 * in another: its rows are watched over a connection of the benchmark. Queues are filled before;
 * the measurement also ends when one is nearly empty. SQLite only. */
#include "run.h"

#include <time.h>

enum { SLICE_MS = 500, LOOK_US = 200, PATIENCE_S = 60 };

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

static void take_slice(comparison *costs, size_t round, size_t which, const slice_side *side,
                       mark *last)
{
    mark reached = next_commit(side);
    if (round)
        costs->rate[which][round - 1] =
            (double)(reached.rows - last->rows) / (reached.cpu_s - last->cpu_s);
    *last = reached;
}

static void wait_for_slice(const slice_side sides[], size_t count)
{
    pause_us(SLICE_MS * 1000L / 2);
    for (size_t i = 0; i < count; i++)
        if (sides[i].meanwhile)
            sides[i].meanwhile(sides[i].context);
    pause_us(SLICE_MS * 1000L / 2);
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
    for (size_t i = 0; i < count; i++)
        program_start(&sides[i].of->program);
}

/* What was handled had its effect, and the rest is in the queue. */
static void end_all(const slice_side sides[], size_t count, size_t messages)
{
    for (size_t i = 0; i < count; i++) {
        stage *on = &sides[i].of->stage;
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
        wait_for_slice(sides, count);
        for (size_t i = 0; i < count; i++) {
            size_t which = round % 2 ? count - 1 - i : i;
            take_slice(costs, round, which, &sides[which], &last[which]);
        }
        if (!is_filled(last, count, round, messages) && round)
            costs->rounds = round;
        comparison_settle(costs, round);
    }
    progress_clear();
    end_all(sides, count, messages);
}
