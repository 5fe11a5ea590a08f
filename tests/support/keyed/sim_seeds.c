#include "support/keyed/sim_seeds.h"

#include "support/process/process.h"

#include <string.h>

enum { PROCESSES = 2, DEADLINE_MS = 550000 };

typedef struct share {
    uint64_t first, count, step;
    sim_mistake mistake;
    int stop;
    sim_totals *totals;
} share;

static void add(sim_totals *to, uint64_t seed, const sim_result *one)
{
    to->seeds++;
    to->calls += one->calls;
    to->faults += one->faults;
    to->crashes += one->crashes;
    to->effects += one->effects;
    to->published += one->published;
    to->stale += one->stale;
    to->dead += one->dead;
    if (one->failed && !to->failed++) {
        to->first = seed;
        memcpy(to->why, one->why, sizeof to->why);
    }
}

static int run_share(void *context)
{
    const share *mine = context;
    for (uint64_t i = 0; i < mine->count; i += mine->step) {
        sim_result result;
        sim_options options = {.seed = mine->first + i, .mistake = mine->mistake};
        sim_run_seed(&result, &options);
        add(mine->totals, options.seed, &result);
        if (mine->totals->failed && mine->stop)
            break;
    }
    sim_fibers_free();
    return PROCESS_OK;
}

static void merge(sim_totals *to, const sim_totals *from)
{
    to->seeds += from->seeds;
    to->calls += from->calls;
    to->faults += from->faults;
    to->crashes += from->crashes;
    to->effects += from->effects;
    to->published += from->published;
    to->stale += from->stale;
    to->dead += from->dead;
    if (from->failed && (!to->failed || from->first < to->first)) {
        to->first = from->first;
        memcpy(to->why, from->why, sizeof to->why);
    }
    to->failed += from->failed;
}

void sim_seeds(sim_totals *out, uint64_t first, uint64_t count, sim_mistake mistake, int stop)
{
    sim_totals *totals = process_share(PROCESSES * sizeof *totals);
    share shares[PROCESSES];
    pid_t pids[PROCESSES];
    *out = (sim_totals){.seeds = 0};
    for (uint64_t i = 0; i < PROCESSES; i++) {
        shares[i] =
            (share){first + i, count > i ? count - i : 0, PROCESSES, mistake, stop, &totals[i]};
        pids[i] = process_start(run_share, &shares[i]);
    }
    for (size_t i = 0; i < PROCESSES; i++) {
        int end = process_wait(pids[i], DEADLINE_MS);
        if (end != PROCESS_OK && !out->failed++) {
            out->first = shares[i].first + PROCESSES * totals[i].seeds;
            (void)snprintf(out->why, sizeof out->why, "the process ended with %d", end);
        }
        merge(out, &totals[i]);
    }
    process_unshare(totals, PROCESSES * sizeof *totals);
}

void sim_show(uint64_t seed, sim_mistake mistake)
{
    sim_result result;
    sim_options options = {.seed = seed, .mistake = mistake, .trace = stdout};
    (void)printf("--- seed %llu, mistake: %s\n", (unsigned long long)seed,
                 sim_mistake_name(mistake));
    sim_run_seed(&result, &options);
    (void)printf("--- seed %llu: %s\n", (unsigned long long)seed,
                 result.failed ? result.why : "nothing is wrong");
}
