/* See rabbitmq_servers_kit.h. */
#include "support/servers/rabbitmq/rabbitmq_servers_kit.h"

/* To make or to look at something, however busy the machine is. */
static semel_store *service_case_store(const service_case *s)
{
    semel_store_options patient = {.size = sizeof patient, .busy_ms = KIT_WAIT_MS};
    semel_store *store = NULL;
    OK(semel_store_open(&store, s->place.url, &patient, &last_error));
    return store;
}

void service_case_open_store(service_case *s, const server_place *database)
{
    if (database)
        store_place_open_on(&s->place, database);
    else
        store_place_open(&s->place, PLACE_SQLITE);
    OK(effect_open(&s->effect, &s->place, NULL, "effect", &last_error)); /* opens nothing */
    semel_store *store = service_case_store(s);
    OK(semel_store_migrate(store, &last_error));
    semel_store_close(store);
    effect_build(&s->place, "effect");
}

void service_case_open_at(service_case *s, const server_place *broker, const server_place *database,
                          const char *parameters)
{
    *s = (service_case){.tally = process_share(sizeof(tally))};
    service_case_open_store(s, database);
    kit_prepare(&s->kit, broker, parameters);
    OK(kit_open_transport(&s->kit.transport, s->kit.url, &last_error));
    semel_transport_close(s->kit.transport);
    s->kit.transport = NULL;
}

void service_case_open(service_case *s, server_kind kind, const char *parameters)
{
    server_place broker, database;
    server_find(&broker, SERVER_RABBITMQ);
    if (kind)
        server_find(&database, kind);
    service_case_open_at(s, &broker, kind ? &database : NULL, parameters);
}

void service_case_close(service_case *s)
{
    for (size_t i = 0; i < CHILDREN_MAX; i++)
        if (s->children[i] > 0) { /* the test has failed */
            (void)kill(s->children[i], SIGKILL);
            (void)process_wait(s->children[i], KIT_WAIT_MS);
        }
    kit_close(&s->kit);
    store_place_close(&s->place);
    process_unshare(s->tally, sizeof *s->tally);
}

int service_case_setup(void **state)
{
    const variant *where = *state;
    service_case *s = calloc(1, sizeof *s);
    service_case_open(s, where->kind, where->queue);
    *state = s;
    return 0;
}

int service_case_teardown(void **state)
{
    service_case_close(*state);
    free(*state);
    return 0;
}

/* --- messages --------------------------------------------------------------------------------- */

void service_case_publish(service_case *s, const char *ids)
{
    char texts[KIT_BATCH][ID_ROOM], groups[KIT_BATCH][2];
    semel_message messages[KIT_BATCH];
    semel_publish_result results[KIT_BATCH];
    size_t count = 0;
    for (int read; count < KIT_BATCH && sscanf(ids, "%47s%n", texts[count], &read) == 1; count++) {
        ids += read;
        (void)snprintf(groups[count], sizeof groups[count], "%.1s", texts[count]);
        messages[count] = text_message(texts[count], texts[count]);
        messages[count].group = groups[count];
    }
    kit_publish_only(&s->kit, "");
    OK(kit_publish(&s->kit, results, messages, count, KIT_WAIT_MS));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(results[i], SEMEL_PUBLISH_CONFIRMED);
    semel_transport_close(s->kit.transport);
    s->kit.transport = NULL;
}

const char *numbered(char out[KIT_SAID], char initial, unsigned from, unsigned count)
{
    size_t used = 0;
    out[0] = 0;
    for (unsigned i = from; i < from + count; i++)
        used += (size_t)snprintf(out + used, KIT_SAID - used, "%c%u ", initial, i);
    return out;
}

/* --- the handler ------------------------------------------------------------------------------ */

static void note_run(const service_case *s, const semel_unit *unit, const semel_message *message)
{
    unsigned index = atomic_load(&s->tally->begun);
    while (!atomic_compare_exchange_weak(&s->tally->begun, &index, index + 1))
        continue;
    PROCESS_REQUIRE(index < RUNS_MAX);
    run *r = &s->tally->runs[index];
    (void)snprintf(r->id, sizeof r->id, "%.*s", (int)message->id.len,
                   (const char *)message->id.data);
    r->delivery = message->delivery;
    r->attempt = semel_unit_attempt(unit);
    r->at_ms = process_now_ms();
    r->pid = getpid();
}

semel_status service_case_handle(semel_unit *unit, const semel_message *message, void *context,
                                 semel_error *err)
{
    const service_case *s = context;
    char id[ID_ROOM];
    (void)snprintf(id, sizeof id, "%.*s", (int)message->id.len, (const char *)message->id.data);
    note_run(s, unit, message);
    semel_status status = effect_write(&s->effect, unit, id, 0, err);
    if (!status && id[0] == 'p')
        raise(SIGKILL);
    if (!status && id[0] == 'f')
        status = semel_fail(err, SEMEL_EHANDLER, "%s is out of paper", id);
    return status;
}

void wait_for_harm(const service_case *s, unsigned most)
{
    int64_t until = process_now_ms() + KIT_WAIT_MS;
    while (atomic_load(&s->tally->begun) > most && !atomic_load(&s->tally->struck) &&
           process_now_ms() < until)
        process_nap();
}

void note_trouble(void *context, const semel_error *trouble)
{
    tally *t = context;
    atomic_fetch_add(trouble ? &t->troubles : &t->relief, 1);
}

/* --- what became of it ------------------------------------------------------------------------ */

unsigned runs_of(const service_case *s, const char *id)
{
    unsigned count = 0, begun = atomic_load(&s->tally->begun);
    for (unsigned i = 0; i < begun; i++)
        count += strcmp(s->tally->runs[i].id, id) == 0;
    return count;
}

int64_t effects(const service_case *s)
{
    return effect_count(&s->place, "effect").all;
}

int64_t effects_of(const service_case *s, const char *id)
{
    return effect_times(&s->place, "effect", id);
}

int64_t dead_letters(const service_case *s)
{
    return inspect_number(s->place.url, "SELECT count(*) FROM semel_dead");
}

int64_t unsent(const service_case *s)
{
    return inspect_number(s->place.url, "SELECT count(*) FROM semel_outbox");
}

void end_leases(const service_case *s)
{
    store_place_wait_quiet(&s->place);
    inspect_run(s->place.url,
                "UPDATE semel_outbox SET wake_ms = captured_ms WHERE token IS NOT NULL");
    inspect_run(s->place.url,
                "UPDATE semel_marker SET lease_until_ms = 1 WHERE lease_until_ms IS NOT NULL");
}

void expect_effects(const service_case *s, const char *ids)
{
    char id[ID_ROOM];
    int64_t count = 0;
    for (int read; sscanf(ids, "%47s%n", id, &read) == 1; ids += read, count++)
        if (effects_of(s, id) != 1)
            fail_msg("%s had %d effects", id, (int)effects_of(s, id));
    assert_int_equal(effects(s), count);
}

static semel_status keep_letter(const semel_dead *dead, void *context, semel_error *err)
{
    letters *kept = context;
    letter *l = &kept->all[kept->count++ % 16];
    semel_bytes id = dead->message ? dead->message->id : (semel_bytes){NULL, 0};
    (void)err;
    (void)snprintf(l->id, sizeof l->id, "%.*s", (int)id.len, id.len ? (const char *)id.data : "");
    (void)snprintf(l->name, sizeof l->name, "%s", dead->name);
    (void)snprintf(l->error, sizeof l->error, "%s", dead->error);
    l->attempts = dead->attempts;
    return SEMEL_OK;
}

letters read_letters(const service_case *s)
{
    semel_store *store = service_case_store(s);
    letters kept = {0};
    OK(semel_dead_list(store, NULL, keep_letter, &kept, &last_error));
    semel_store_close(store);
    assert_in_range(kept.count, 0, 16);
    return kept;
}

void expect_empty_queue(const service_case *s)
{
    EVENTUALLY(broker_count(&s->kit.broker, s->kit.queue) == 0);
}

/* --- services --------------------------------------------------------------------------------- */

void service_open_store(service *v, const service_case *s, const semel_seam *seam)
{
    semel_store_options options = {.size = sizeof options,
                                   .seam = seam,
                                   .busy_ms = s->place.kind == PLACE_SERVER ? 0 : KIT_WAIT_MS};
    int64_t until = process_now_ms() + KIT_WAIT_MS;
    semel_status status;
    *v = (service){0};
    do
        status = semel_store_open(&v->store, s->place.url, &options, &v->err);
    while (status == SEMEL_EUNAVAILABLE && process_now_ms() < until);
    PROCESS_REQUIRE_OK(status, &v->err);
    PROCESS_REQUIRE_OK(semel_outbox_open(&v->outbox, v->store, "out", &v->err), &v->err);
}

void service_open_consumer(service *v, service_case *s, semel_handler *handler,
                           semel_inbox_options inbox, semel_consumer_options consumer)
{
    semel_route route = {"*", NULL, handler ? handler : service_case_handle, s};
    service_open_store(v, s, NULL);
    inbox.size = sizeof inbox;
    consumer.size = sizeof consumer;
    PROCESS_REQUIRE_OK(semel_inbox_open(&v->inbox, v->store, "stock", &inbox, &v->err), &v->err);
    PROCESS_REQUIRE_OK(kit_open_transport(&v->transport, s->kit.url, &v->err), &v->err);
    route.inbox = v->inbox;
    PROCESS_REQUIRE_OK(
        semel_consumer_open(&v->consumer, v->transport, &route, 1, &consumer, &v->err), &v->err);
}

void service_open_relay(service *v, const service_case *s, const char *exchange,
                        semel_relay_options relay, const semel_seam *seam)
{
    char url[SERVER_URL_ROOM + BROKER_NAME_ROOM + 16];
    (void)snprintf(url, sizeof url, "%s?exchange=%s", s->kit.broker.url, exchange);
    service_open_store(v, s, seam);
    relay.size = sizeof relay;
    PROCESS_REQUIRE_OK(kit_open_transport(&v->transport, url, &v->err), &v->err);
    PROCESS_REQUIRE_OK(semel_relay_open(&v->relay, v->outbox, v->transport, &relay, &v->err),
                       &v->err);
}

void service_close(service *v)
{
    semel_consumer_close(v->consumer);
    semel_relay_close(v->relay);
    semel_transport_close(v->transport);
    semel_inbox_close(v->inbox);
    semel_outbox_close(v->outbox);
    semel_store_close(v->store);
    *v = (service){0};
}

/* --- services as processes -------------------------------------------------------------------- */

static semel_status die_there(void *context, const char *point)
{
    if (strcmp(point, context) == 0)
        raise(SIGKILL);
    return SEMEL_OK;
}

semel_seam lethal_at(const char *point)
{
    return (semel_seam){
        .size = sizeof(semel_seam), .context = (void *)(uintptr_t)point, .fault = die_there};
}

static semel_consumer *child_consumer;

static void stop_child(int signal_number)
{
    (void)signal_number;
    semel_consumer_stop(child_consumer);
}

void stop_at_sigterm(semel_consumer *consumer)
{
    child_consumer = consumer;
    (void)signal(SIGTERM, stop_child);
}

int run_consumer_in_child(service *v, const service_case *s)
{
    stop_at_sigterm(v->consumer);
    atomic_fetch_add(&s->tally->ready, 1);
    PROCESS_REQUIRE_OK(semel_consumer_run(v->consumer, &v->err), &v->err);
    (void)signal(SIGTERM, SIG_IGN); /* there is nothing to stop any more */
    service_close(v);
    return PROCESS_OK;
}

int has_ended(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

int stop_and_wait(pid_t pid)
{
    enum { AGAIN_MS = SANITIZER_SLOWDOWN > 1 ? 3000 : KIT_WAIT_MS };
    int64_t until = process_now_ms() + KIT_WAIT_MS, next = 0;
    for (; !has_ended(pid) && process_now_ms() < until; process_nap())
        if (process_now_ms() >= next) {
            (void)kill(pid, SIGTERM);
            next = process_now_ms() + AGAIN_MS;
        }
    return process_wait(pid, 0);
}
