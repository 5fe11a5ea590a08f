/* The tables and queues of a run; brokers.h says which queues there are. All names have the store's
 * in front, so that two runs can have one broker. Queues are declared here, before any process
 * starts; the processes of the run only check them. */
#include "brokers.h"
#include "support/inspect/inspect_store.h"

#include <fcntl.h>
#include <semel/semel.h>
#include <semel/sys/transport.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { COUNT_DEADLINE_MS = 120000, COLLECT_DEADLINE_MS = 900000 /* all effects are taken out */ };

/* --- names ------------------------------------------------------------------------------------ */

const char *const soak_effect_names[2] = {"effect", "mirrored"};

static void name_places(soak_run *run)
{
    static const char *const names[2] = {"first", "second"};
    char path[SCRATCH_PATH];
    for (unsigned stage = 0; stage < 2; stage++) {
        store_place *p = &run->places[stage];
        *p = (store_place){.has_sql = !run->options->by_message, .directory = run->directory};
        p->kind = run->store == SOAK_SQLITE ? PLACE_SQLITE : PLACE_SERVER;
        p->server = run->servers->database.at;
        if (run->store == SOAK_SQLITE)
            soak_print(p->url, sizeof p->url, "%s",
                       scratch_sqlite(path, &run->directory, names[stage]));
        else if (run->store == SOAK_DYNAMODB)
            server_fresh(p->url, &p->server); /* a table, and credentials for all processes */
        else
            soak_print(p->url, sizeof p->url, "%s?%s=%s", p->server.url,
                       run->store == SOAK_REDIS ? "namespace" : "schema", names[stage]);
    }
}

/* --- making it -------------------------------------------------------------------------------- */

static void build_store(const soak_run *run, unsigned stage)
{
    semel_error err;
    semel_store *store;
    PROCESS_REQUIRE_OK(semel_store_open(&store, run->places[stage].url, NULL, &err), &err);
    PROCESS_REQUIRE_OK(semel_store_migrate(store, &err), &err);
    semel_store_close(store);
    effect_build(&run->places[stage], soak_effect_names[stage]);
}

/* A look for deliveries makes sure that the transport has been to the broker. */
static void build_queue(const soak_run *run, soak_role role)
{
    char url[SOAK_URL];
    semel_error err;
    semel_transport *transport;
    semel_delivery none;
    size_t count;
    run->options->broker->url(url, run, role, 1);
    PROCESS_REQUIRE_OK(semel_transport_open(&transport, url, NULL, &err), &err);
    if (role != SOAK_RELAY)
        PROCESS_REQUIRE_OK(semel_transport_receive(transport, &none, 1, &count, 0, &err), &err);
    semel_transport_close(transport);
}

/* In a process of its own: no store may be open in the one that forks all the others. */
static int build(void *context)
{
    const soak_run *run = context;
    const soak_broker *broker = run->options->broker;
    soak_leave();
    build_store(run, 0);
    build_store(run, 1);
    if (broker->prepare)
        broker->prepare(run);
    for (unsigned role = 0; role < SOAK_ROLES; role++)
        build_queue(run, (soak_role)role);
    if (broker->declared)
        broker->declared(run);
    return PROCESS_OK;
}

static soak_counters *map_counters(const soak_run *run)
{
    char path[SCRATCH_PATH];
    int file =
        open(scratch_file(path, &run->directory, "counters"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof(soak_counters)) != 0)
        soak_die("cannot make %s", path);
    void *counters = mmap(NULL, sizeof(soak_counters), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (counters == MAP_FAILED)
        soak_die("cannot map %s", path);
    close(file);
    return counters;
}

void soak_topology_open(soak_run *run)
{
    scratch_open(&run->directory);
    run->counters = map_counters(run);
    name_places(run);
    if (process_run(build, run) != PROCESS_OK)
        soak_die("the tables and queues cannot be made");
}

/* What goes by this name when the program ends is gone; so it gets another. */
static void keep_directory(const soak_run *run)
{
    char kept[SCRATCH_PATH];
    soak_print(kept, sizeof kept, "%s-kept", run->directory.path);
    if (rename(run->directory.path, kept) == 0)
        printf("what %s left is in %s\n", soak_store_name(run->store), kept);
}

void soak_topology_close(soak_run *run, int keep)
{
    munmap(run->counters, sizeof *run->counters);
    if (keep)
        keep_directory(run);
    scratch_close(&run->directory);
}

/* --- looking at it ---------------------------------------------------------------------------- */

static int count_queues(void *context)
{
    const soak_run *run = context;
    soak_leave();
    int64_t count = run->options->broker->queued(run);
    PROCESS_REQUIRE(count >= 0);
    atomic_store(&run->counters->queued, count);
    return PROCESS_OK;
}

int64_t soak_topology_queued(soak_run *run)
{
    int end = process_wait(process_start(count_queues, run), COUNT_DEADLINE_MS);
    return end == PROCESS_OK ? atomic_load(&run->counters->queued) : -1;
}

/* --- looking at the stores -------------------------------------------------------------------- */

typedef struct look {
    soak_run *run;
    unsigned stage;
    int collects;
} look;

/* In a process of its own, since the one that forks has no store open. */
static int look_at_store(void *context)
{
    const look *l = context;
    const char *const collected[] = {l->collects ? soak_effect_names[l->stage] : NULL, NULL};
    soak_leave();
    atomic_store(&l->run->counters->unsent,
                 inspect_store(&l->run->places[l->stage], collected).unsent);
    return PROCESS_OK;
}

static int64_t look_from_a_child(soak_run *run, unsigned stage, int collects)
{
    look l = {run, stage, collects};
    int end = process_wait(process_start(look_at_store, &l),
                           collects ? COLLECT_DEADLINE_MS : COUNT_DEADLINE_MS);
    if (end != PROCESS_OK)
        soak_die("the store of stage %u cannot be looked at", stage + 1);
    return atomic_load(&run->counters->unsent);
}

soak_contents soak_topology_contents(soak_run *run, unsigned stage)
{
    const store_place *place = &run->places[stage];
    int64_t unsent = look_from_a_child(run, stage, 0);
    if (!place->has_sql)
        return (soak_contents){.effects = unsent};
    return (soak_contents){effect_count(place, soak_effect_names[stage]).all, unsent};
}

void soak_topology_collect(soak_run *run, unsigned stage)
{
    if (!run->places[stage].has_sql)
        (void)look_from_a_child(run, stage, 1); /* what it leaves is lost, and counted so */
}
