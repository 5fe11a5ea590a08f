/* The scheduler of the simulation: time, chance, and whose turn it is. */
#include "support/keyed/sim.h"

#include "store/keyed/hold.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 20000, FAULTY_STEPS = 400 };
static const int64_t BEGINNING_MS = 1700000000000;

/* --- chance ----------------------------------------------------------------------------------- */

uint64_t sim_random(sim *s)
{
    uint64_t z = s->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

unsigned sim_below(sim *s, unsigned bound)
{
    return (unsigned)(sim_random(s) % bound);
}

int sim_chance(sim *s, unsigned permille)
{
    return sim_below(s, 1000) < permille;
}

/* --- the history ------------------------------------------------------------------------------ */

static void hash_more(sim *s, uint64_t number)
{
    uint64_t hash = (s->result->hash ^ number) * 0x9fb21c651e98df25u;
    s->result->hash = hash ^ (hash >> 32);
}

/* What is printed is made only if there is a trace. The hash is of the beginning of the format, the
 * time, the process, and the random state, which all choices went into. */
void sim_note(sim *s, const char *format, ...)
{
    uint64_t begins = 0;
    memcpy(&begins, format, strnlen(format, sizeof begins));
    hash_more(s, begins);
    hash_more(s, s->random);
    hash_more(s, (uint64_t)s->now_ms * SIM_PROCESSES_MAX + (s->running ? s->running->index : 0));
    if (!s->options.trace)
        return;
    va_list arguments;
    va_start(arguments, format);
    (void)fprintf(s->options.trace, "%9lld  ", (long long)(s->now_ms - BEGINNING_MS));
    if (s->running)
        (void)fprintf(s->options.trace, "p%u%s  ", s->running->index, s->running->dead ? "+" : " ");
    (void)vfprintf(s->options.trace, format, arguments);
    (void)fputc('\n', s->options.trace);
    va_end(arguments);
}

/* The first one counts: what follows may be its consequence. */
void sim_violation(sim *s, const char *format, ...)
{
    va_list arguments;
    if (s->result->failed)
        return;
    s->result->failed = 1;
    va_start(arguments, format);
    (void)vsnprintf(s->result->why, sizeof s->result->why, format, arguments);
    va_end(arguments);
    sim_note(s, "VIOLATION %s", s->result->why);
    s->calm = 2; /* everybody leaves */
}

/* --- the seam of a process -------------------------------------------------------------------- */

static int64_t seam_wall(void *context)
{
    const sim_process *p = context;
    return p->world->now_ms + p->wall_ms + p->apart_ms;
}

static int64_t seam_steady(void *context)
{
    const sim_process *p = context;
    return p->world->now_ms - BEGINNING_MS + 1000000 * (p->index + 1) + p->apart_ms;
}

static void seam_boot(void *context, char id[37])
{
    (void)context;
    memcpy(id, "00000000-0000-4000-8000-000000000001", 37);
}

static void seam_sleep(void *context, uint32_t ms)
{
    sim_sleep(context, ms);
}

static void seam_bytes(void *context, void *bytes, size_t len)
{
    sim_process *p = context;
    unsigned char *at = bytes;
    while (len) {
        uint64_t number = sim_random(p->world);
        size_t part = len < sizeof number ? len : sizeof number;
        memcpy(at, &number, part);
        at += part;
        len -= part;
    }
}

static const semel_seam seam = {.size = sizeof seam,
                                .wall_ms = seam_wall,
                                .steady_ms = seam_steady,
                                .boot_id = seam_boot,
                                .sleep_ms = seam_sleep,
                                .random = seam_bytes};

/* --- turns ------------------------------------------------------------------------------------ */

static void switch_away(sim_process *p)
{
    p->world->running = NULL;
    sim_fiber_yield();
    p->world->running = p;
}

void sim_yield(sim_process *p)
{
    if (p->dead)
        return;
    p->wake_ms = p->world->now_ms;
    switch_away(p);
}

void sim_sleep(sim_process *p, int64_t ms)
{
    if (!p->world->running) { /* after the end: nobody else is there */
        p->world->now_ms += ms;
        return;
    }
    if (p->dead) { /* time passes for it alone */
        p->apart_ms += ms;
        return;
    }
    p->wake_ms = p->world->now_ms + ms;
    switch_away(p);
}

static void live(void *context)
{
    sim_process *p = context;
    p->world->running = p;
    p->work(p);
    p->finished = 1;
    p->world->running = NULL;
}

static void let_something_arrive(sim *s)
{
    size_t count = keyed_memory_in_flight(s->memory);
    if (!count || !(s->calm || sim_chance(s, 30)))
        return;
    size_t which = sim_below(s, (unsigned)count);
    sim_note(s, "something arrives late");
    (void)keyed_memory_arrive(s->memory, which);
}

/* No network keeps a request for longer than an inbox remembers a key. */
static void wait_until(sim *s, int64_t at_ms)
{
    enum { IN_FLIGHT_MS = 60000 };
    while (at_ms - s->now_ms > IN_FLIGHT_MS && keyed_memory_in_flight(s->memory)) {
        sim_note(s, "what was in flight arrives");
        (void)keyed_memory_arrive(s->memory, 0);
    }
    s->now_ms = at_ms;
}

static sim_process *choose(sim *s)
{
    sim_process *ready[SIM_PROCESSES_MAX];
    unsigned count = 0;
    int64_t next = INT64_MAX;
    for (unsigned i = 0; i < s->process_count; i++) {
        sim_process *p = &s->processes[i];
        if (p->finished)
            continue;
        if (p->wake_ms <= s->now_ms)
            ready[count++] = p;
        else if (p->wake_ms < next)
            next = p->wake_ms;
    }
    if (count)
        return ready[sim_below(s, count)];
    if (next != INT64_MAX)
        wait_until(s, next);
    return NULL;
}

static int all_finished(const sim *s)
{
    for (unsigned i = 0; i < s->process_count; i++)
        if (!s->processes[i].finished)
            return 0;
    return 1;
}

static void turns(sim *s)
{
    while (!all_finished(s)) {
        if (++s->steps > STEPS_MAX)
            sim_violation(s, "I6: the work does not end");
        if (s->steps == FAULTY_STEPS && !s->calm)
            s->calm = 1;
        if (s->steps > 2 * STEPS_MAX)
            abort(); /* a process that does not even leave */
        let_something_arrive(s);
        sim_process *p = choose(s);
        if (p)
            (void)sim_fiber_resume(p->fiber);
    }
    while (keyed_memory_in_flight(s->memory))
        let_something_arrive(s);
}

const char *sim_mistake_name(sim_mistake mistake)
{
    static const char *const names[SIM_MISTAKES] = {"none",
                                                    "no fencing write",
                                                    "version reused",
                                                    "guard not checked",
                                                    "lease by wall clock",
                                                    "hold not written",
                                                    "FORGOTTEN not raised with the removal",
                                                    "ready entry not in the same apply",
                                                    "number not from the group's record",
                                                    "a unit is torn",
                                                    "a lost answer is misread",
                                                    "a body is lost",
                                                    "the message is not in the unit",
                                                    "the marker is not in the unit",
                                                    "records expire early"};
    return names[mistake];
}

/* --- a seed ----------------------------------------------------------------------------------- */

static void open_database(sim *s)
{
    s->database = (keyed_memory_options){
        .no_watch = 1,
        .no_count = 1,
        .now_ms = sim_database_now,
        .now_context = s,
        .hook = {.context = s, .before = sim_before, .after = sim_after, .applied = sim_applied}};
    if (sim_chance(s, 500))
        s->database.lacks = SEMEL_KEYED_EXPIRES;
    if (sim_chance(s, 300))
        s->database.error_ms = 5;
    if (sim_chance(s, 100))
        s->database.limits.changes_max = 25;
    s->memory = keyed_memory_open("simulation", &s->database);
    keyed_memory_mistake mistake = {.version = s->options.mistake == SIM_VERSION_REUSED,
                                    .guard = s->options.mistake == SIM_GUARD_NOT_CHECKED,
                                    .body = s->options.mistake == SIM_BODY_LOST,
                                    .unknown = s->options.mistake == SIM_ANSWER_MISREAD};
    keyed_memory_plant(s->memory, &mistake);
}

static void begin_processes(sim *s)
{
    for (unsigned i = 0; i < s->process_count; i++) {
        sim_process *p = &s->processes[i];
        p->world = s;
        p->index = i;
        p->lives = 3;
        p->seam = seam;
        p->seam.context = p;
        p->wake_ms = s->now_ms;
        if (s->database.error_ms)
            p->off_ms = (int64_t)sim_below(s, 2 * s->database.error_ms + 1) - s->database.error_ms;
        p->fiber = sim_fiber_new(live, p);
    }
}

void sim_run_seed(sim_result *out, const sim_options *options)
{
    static sim s;
    memset(&s, 0, sizeof s);
    *out = (sim_result){.hash = 0xcbf29ce484222325u};
    s.options = *options;
    s.result = out;
    s.random = options->seed * 0x2545f4914f6cdd1du + 1;
    s.now_ms = BEGINNING_MS;
    keyed_waits_by_seam = 1;
    (void)mallopt(M_TRIM_THRESHOLD, 64 << 20); /* memory is given back and taken in each seed */
    (void)mallopt(M_MMAP_THRESHOLD, 64 << 20);
    open_database(&s);
    sim_people(&s);
    begin_processes(&s);
    turns(&s);
    sim_final(&s);
    keyed_memory_close(s.memory);
}
