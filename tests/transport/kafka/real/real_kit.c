#include "real_kit.h"

#include "support/base/check.h"
#include "support/process/process.h"
#include "support/servers/server_internal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

extern const semel_transport_driver kafka_transport_driver;

enum { SLICE = 500, TEXT_ROOM = 32 };

/* --- a topic ---------------------------------------------------------------------------------- */

void real_topic_open_on(real_topic *t, const server_place *where, int partitions, unsigned keys)
{
    assert_true(keys <= REAL_KEYS_MAX);
    *t = (real_topic){.partitions = partitions, .keys = keys};
    server_print(t->servers, sizeof t->servers, "%s:%u", where->host, where->port);
    kafka_cluster_name(t->topic);
    kafka_cluster_name(t->group);
    kafka_cluster_make(t->servers, t->topic, partitions);
}

void real_topic_open(real_topic *t, int partitions, unsigned keys)
{
    server_place shared;
    server_find(&shared, SERVER_KAFKA);
    real_topic_open_on(t, &shared, partitions, keys);
}

void real_topic_close(real_topic *t)
{
    kafka_cluster_remove(t->servers, t->topic);
}

void real_topic_url(char url[SERVER_URL_ROOM], const real_topic *t, const char *parameters)
{
    server_print(url, SERVER_URL_ROOM,
                 "kafka://%s/%s?group=%s&connect_ms=60000&X.session.timeout.ms=%d"
                 "&X.heartbeat.interval.ms=%d%s%s",
                 t->servers, t->topic, t->group, REAL_SESSION_MS, REAL_SESSION_MS / 5,
                 *parameters ? "&" : "", parameters);
}

/* --- records ---------------------------------------------------------------------------------- */

typedef struct written {
    char key[TEXT_ROOM], id[TEXT_ROOM], body[TEXT_ROOM];
    semel_header headers[4];
} written;

static kafka_cluster_record write_record(written *w, unsigned key, unsigned number)
{
    server_print(w->key, sizeof w->key, "%u", key);
    server_print(w->id, sizeof w->id, "%u-%u", key, number);
    server_print(w->body, sizeof w->body, "%u %u", key, number);
    w->headers[0] = (semel_header){"ce_specversion", semel_str("1.0")};
    w->headers[1] = (semel_header){"ce_id", semel_str(w->id)};
    w->headers[2] = (semel_header){"ce_source", semel_str("/shop")};
    w->headers[3] = (semel_header){"ce_type", semel_str("order.placed")};
    return (kafka_cluster_record){
        .key = w->key, .value = w->body, .headers = w->headers, .header_count = 4, .partition = -1};
}

void real_topic_note(real_topic *t, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        t->produced[real_topic_total(t) % t->keys]++;
}

void real_topic_poison(real_topic *t, unsigned key)
{
    written texts;
    kafka_cluster_record record = write_record(&texts, key, t->produced[key]);
    server_print(texts.id, sizeof texts.id, "%u-poison", key);
    server_print(texts.body, sizeof texts.body, "poison");
    texts.headers[1].value = semel_str(texts.id);
    texts.headers[3].value = semel_str("order.poison");
    kafka_cluster_produce(t->servers, t->topic, &record, 1);
}

static void fill_slice(real_topic *t, unsigned count)
{
    static written texts[SLICE];
    kafka_cluster_record records[SLICE];
    for (unsigned i = 0; i < count; i++) {
        unsigned key = real_topic_total(t) % t->keys;
        records[i] = write_record(&texts[i], key, t->produced[key]++);
    }
    kafka_cluster_produce(t->servers, t->topic, records, count);
}

void real_topic_fill(real_topic *t, unsigned count)
{
    for (; count > SLICE; count -= SLICE)
        fill_slice(t, SLICE);
    fill_slice(t, count);
}

unsigned real_topic_total(const real_topic *t)
{
    unsigned all = 0;
    for (unsigned key = 0; key < t->keys; key++)
        all += t->produced[key];
    return all;
}

int64_t real_topic_progress(const real_topic *t)
{
    return kafka_cluster_progress(t->servers, t->group, t->topic, t->partitions);
}

void real_topic_wait(const real_topic *t, int64_t progress)
{
    int64_t deadline = process_now_ms() + REAL_PATIENCE_MS, now;
    while ((now = real_topic_progress(t)) != progress)
        if (process_now_ms() > deadline)
            fail_msg("the group has committed %lld of %lld", (long long)now, (long long)progress);
}

/* --- a transport that stops its process ------------------------------------------------------- */

static semel_transport_driver stopping;
static atomic_int *stop_wanted;
static atomic_uint *stop_held;

static semel_status receive_and_stop(void *transport, semel_delivery deliveries[], size_t max,
                                     size_t *count, uint32_t wait_ms, semel_error *err)
{
    semel_status status =
        kafka_transport_driver.receive(transport, deliveries, max, count, wait_ms, err);
    if (!status && *count && atomic_exchange(stop_wanted, 0)) {
        atomic_fetch_add(stop_held, (unsigned)*count);
        (void)raise(SIGSTOP);
    }
    return status;
}

semel_status real_stopping_open(semel_transport **out, const char *url, atomic_int *wanted,
                                atomic_uint *held, semel_error *err)
{
    stop_wanted = wanted;
    stop_held = held;
    stopping = kafka_transport_driver;
    stopping.receive = receive_and_stop;
    return semel_transport_open_driver(out, &stopping, url, NULL, err);
}
