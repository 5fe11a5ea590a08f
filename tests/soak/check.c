/* What has become of the messages: three lists of them (the effects, those of the second consumers,
 * what the foreign consumer has written down), each compared with what the publisher says it has
 * published. Rows have a serial number in the order in which handlers inserted them, and in a group
 * of the ordered queue a handler begins when the one before has committed: so there the first of
 * each number must come in order. */
#include "brokers.h"

#include <semel/semel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUEUES = 2, GROUPS = 64, MANY = 10 };

static const char *const queues[QUEUES] = {"ordered", "free"};

typedef struct group {
    uint64_t published; /* numbers 1 to this */
    uint64_t latest;    /* the highest number seen */
    struct sight {
        uint32_t times;
        uint32_t id; /* a digest of it; 0: none */
    } * sights;
} group;

typedef struct checker {
    group groups[QUEUES][GROUPS];
    soak_tally tally;
} checker;

/* --- what was published ----------------------------------------------------------------------- */

/* "QUEUE.GROUP NUMBER ..."; returns what follows, or NULL. */
static const char *read_item(const char *text, unsigned *queue, unsigned *number_of_group,
                             uint64_t *number)
{
    char *rest;
    for (*queue = 0; *queue < QUEUES; (*queue)++) {
        size_t len = strlen(queues[*queue]);
        if (strncmp(text, queues[*queue], len) != 0 || text[len] != '.')
            continue;
        *number_of_group = (unsigned)strtoul(text + len + 1, &rest, 10);
        if (*number_of_group >= GROUPS || *rest != ' ')
            return NULL;
        *number = strtoull(rest + 1, &rest, 10);
        return rest;
    }
    return NULL;
}

static void expect(checker *c, const char *line)
{
    unsigned queue, number_of_group;
    uint64_t published;
    if (!read_item(line, &queue, &number_of_group, &published))
        soak_die("publish.py wrote \"%s\"", line);
    group *g = &c->groups[queue][number_of_group];
    g->published = published;
    g->sights = calloc(published + 1, sizeof *g->sights);
    if (!g->sights)
        soak_die("no memory for a group of %llu", (unsigned long long)published);
}

typedef void line_call(checker *c, const char *line);

static void each_line(checker *c, const soak_run *run, const char *name, line_call *call)
{
    char path[SCRATCH_PATH], line[SOAK_URL];
    FILE *file = fopen(scratch_file(path, &run->directory, name), "re");
    if (!file)
        soak_die("there is no %s", path);
    while (fgets(line, sizeof line, file))
        call(c, line);
    (void)fclose(file);
}

static checker *checker_open(const soak_run *run)
{
    checker *c = calloc(1, sizeof *c);
    if (!c)
        soak_die("no memory for a checker");
    each_line(c, run, "published", expect);
    return c;
}

/* --- what was seen ---------------------------------------------------------------------------- */

static uint32_t digest(const char *text)
{
    uint32_t sum = 5381;
    for (; *text && *text != '\n'; text++)
        sum = sum * 33 + (unsigned char)*text;
    return sum | 1;
}

static void see(checker *c, const char *text)
{
    unsigned queue, number_of_group;
    uint64_t number;
    const char *id = text ? read_item(text, &queue, &number_of_group, &number) : NULL;
    c->tally.seen++;
    group *g = id ? &c->groups[queue][number_of_group] : NULL;
    if (!g || number == 0 || number > g->published) {
        c->tally.unknown++;
        return;
    }
    struct sight *sight = &g->sights[number];
    if (sight->times++)
        c->tally.doubled++;
    else if (queue == 0 && number < g->latest)
        c->tally.out_of_order++;
    if (number > g->latest)
        g->latest = number;
    if (sight->id && sight->id != digest(id))
        c->tally.renamed++;
    sight->id = digest(id);
}

static void see_row(const char *text, void *context)
{
    see(context, text);
}

static soak_tally checker_close(checker *c)
{
    for (unsigned i = 0; i < QUEUES * GROUPS; i++) {
        group *g = &c->groups[i / GROUPS][i % GROUPS];
        for (uint64_t number = 1; number <= g->published; number++)
            c->tally.lost += !g->sights[number].times;
        free(g->sights);
    }
    soak_tally tally = c->tally;
    free(c);
    return tally;
}

static soak_tally check_store(soak_run *run, unsigned stage)
{
    checker *c = checker_open(run);
    soak_topology_collect(run, stage);
    effect_each(&run->places[stage], soak_effect_names[stage], see_row, c);
    return checker_close(c);
}

static soak_tally check_foreign(const soak_run *run)
{
    checker *c = checker_open(run);
    each_line(c, run, "foreign", see);
    return checker_close(c);
}

/* --- dead letters ----------------------------------------------------------------------------- */

static semel_status see_letter(const semel_dead *dead, void *context, semel_error *err)
{
    soak_run *run = context;
    const char *type = dead->message ? dead->message->type : NULL;
    (void)err;
    run->dead++;
    run->dead_poison += type && strcmp(type, "order.poison") == 0;
    soak_log(run, "dead letter %.*s: %s", (int)dead->key.len, (const char *)dead->key.data,
             dead->error);
    return SEMEL_OK;
}

static void see_letters(soak_run *run, unsigned stage)
{
    semel_error err;
    semel_store *store;
    if (semel_store_open(&store, run->places[stage].url, NULL, &err) ||
        semel_dead_list(store, NULL, see_letter, run, &err))
        soak_die("the dead letters cannot be read: %s", err.text);
    semel_store_close(store);
}

/* --- the verdict ------------------------------------------------------------------------------ */

void soak_check(soak_run *run)
{
    run->first = check_store(run, 0);
    run->second = check_store(run, 1);
    run->foreign = check_foreign(run);
    for (unsigned stage = 0; stage < 2; stage++)
        see_letters(run, stage);
}

static int is_good(const soak_tally *tally)
{
    return !tally->lost && !tally->unknown && !tally->out_of_order && !tally->renamed;
}

/* The poison's letter, and no other. */
static int letters_are_good(const soak_run *run)
{
    uint64_t expected = run->options->broker->uncounted ? 0 : 1;
    return run->dead == expected && run->dead_poison == expected;
}

/* What only the broker's word tells. */
static const char *missing_deliveries(const soak_run *run)
{
    const soak_counters *counters = run->counters;
    if (!run->poisoned)
        return "the poison killed no process";
    unsigned enough = run->options->broker->one_by_one ? MANY : 1;
    if (run->killed[SOAK_VICTIM_CONSUMER] >= enough &&
        atomic_load(&counters->again[0]) <= run->poisoned)
        return "no message came again because a consumer was killed";
    if (run->killed[SOAK_VICTIM_SECOND] >= MANY && !atomic_load(&counters->again[1]))
        return "no message came again because a second consumer was killed";
    return NULL;
}

/* Of what the kills were to cause: without it a good run says little. After many kills of a kind
 * not all of them have met a process that was idle, or one that waited for its turn. */
const char *soak_missing(const soak_run *run)
{
    const soak_broker *broker = run->options->broker;
    const char *missing = broker->uncounted ? NULL : missing_deliveries(run);
    unsigned servers = run->killed[SOAK_VICTIM_BROKER];
    if (run->store != SOAK_SQLITE)
        servers += run->killed[SOAK_VICTIM_DATABASE];
    if (missing)
        return missing;
    if (run->killed[SOAK_VICTIM_CONSUMER] >= MANY && !run->caught[0])
        return "no kill met a handler at work";
    if (atomic_load(&run->counters->outages) < servers)
        return "a server was killed, and no process noticed";
    return NULL;
}

/* The foreign consumer has no inbox, so copies are what it must expect. */
int soak_run_is_good(const soak_run *run)
{
    return is_good(&run->first) && is_good(&run->second) && is_good(&run->foreign) &&
           !run->first.doubled && !run->second.doubled && letters_are_good(run) &&
           !run->surprises && !run->unfinished && !soak_missing(run);
}
