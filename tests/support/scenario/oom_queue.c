/* The operations of oom_operations.c on a queue in the store. */
#include "support/scenario/oom.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
/* cmocka needs the first two. */
#include <cmocka.h>
#include <semel/queue.h>
#include <semel/sys/transport.h>
#include <string.h>

enum { LEASE_MS = 10000 };

static semel_status open_queue(semel_transport **out, oom_world *w, semel_error *err)
{
    semel_queue_options options = {.size = sizeof options, .lease_ms = LEASE_MS};
    return semel_queue_open(out, w->store, "orders", &options, err);
}

/* --- opening ---------------------------------------------------------------------------------- */

semel_status oom_open_queue(oom_world *w, semel_error *err)
{
    semel_transport *queue = NULL;
    semel_status status = open_queue(&queue, w, err);
    if (!status)
        semel_transport_close(queue);
    return status;
}

semel_status oom_open_queue_by_url(oom_world *w, semel_error *err)
{
    char url[SCRATCH_PATH + 64];
    semel_transport *queue = NULL;
    semel_transport_options options = {.size = sizeof options, .seam = &w->host};
    (void)snprintf(url, sizeof url, "store:%s#orders?lease_ms=5", w->url);
    semel_status status = semel_transport_open(&queue, url, &options, err);
    if (!status)
        semel_transport_close(queue);
    return status;
}

/* --- publishing ------------------------------------------------------------------------------- */

static semel_status publish(oom_world *w, size_t count, semel_error *err)
{
    semel_message messages[OOM_MANY];
    const semel_message *list[OOM_MANY] = {NULL};
    semel_publish_result results[OOM_MANY];
    for (unsigned i = 0; i < count; i++) {
        messages[i] = oom_message(oom_name(i));
        messages[i].id = (semel_bytes){NULL, 0};
        messages[i].group = "group";
        list[i] = &messages[i];
    }
    semel_status status = semel_transport_publish(results, w->queue, list, count, 0, err);
    semel_publish_result right = status ? SEMEL_PUBLISH_UNKNOWN : SEMEL_PUBLISH_CONFIRMED;
    for (size_t i = 0; i < count; i++)
        if (results[i] != right)
            return semel_fail(err, SEMEL_EINVAL, "result %d with %s", (int)results[i],
                              semel_status_name(status));
    return status;
}

void oom_prepare_queue(oom_world *w)
{
    semel_error err;
    oom_must(open_queue(&w->queue, w, &err), &err);
    w->letter = 0;
    w->failure = SEMEL_OK;
}

/* Publishing twice makes two: it is done until it worked once. */
semel_status oom_publish(oom_world *w, semel_error *err)
{
    if (w->letter)
        return SEMEL_OK;
    semel_status status = publish(w, OOM_MANY, err);
    w->letter = !status;
    w->failure = status ? status : w->failure;
    return status;
}

/* --- receiving and settling ------------------------------------------------------------------- */

static void note(oom_sink *sink, const semel_message *message)
{
    if (sink->count == OOM_SINK_MAX)
        fail_msg("more is delivered than was published");
    (void)snprintf(sink->messages[sink->count++].body, OOM_TEXT, "%.*s", (int)message->body.len,
                   (const char *)message->body.data);
}

/* Until nothing is left. Each receive is ready to wait, for which it needs memory, too. */
static semel_status settle_all(oom_world *w, semel_verdict verdict, semel_error *err)
{
    semel_delivery got[OOM_MANY];
    semel_delivery_settlement settles[OOM_MANY];
    size_t count = 1;
    semel_status status = SEMEL_OK;
    semel_test_advance_ms(w->seam, LEASE_MS);
    while (!status && count) {
        status = semel_transport_receive(w->queue, got, OOM_MANY, &count, 1, err);
        if (status)
            return status;
        for (size_t i = 0; i < count; i++) {
            note(&w->sink, got[i].message);
            settles[i] = (semel_delivery_settlement){got[i].tag, verdict, 0};
        }
        status = semel_transport_settle(w->queue, settles, count, err);
    }
    return status;
}

semel_status oom_consume_queue(oom_world *w, semel_error *err)
{
    return settle_all(w, SEMEL_VERDICT_ACK, err);
}

semel_status oom_reject(oom_world *w, semel_error *err)
{
    return settle_all(w, SEMEL_VERDICT_REJECT, err);
}

void oom_prepare_queued(oom_world *w)
{
    semel_error err;
    oom_prepare_queue(w);
    oom_must(publish(w, OOM_MANY, &err), &err);
}

static size_t copies_of(const oom_world *w, const char *body)
{
    size_t copies = 0;
    for (size_t i = 0; i < w->sink.count; i++)
        copies += strcmp(w->sink.messages[i].body, body) == 0;
    return copies;
}

static size_t first_of(const oom_world *w, const char *body)
{
    size_t at = 0;
    while (at < w->sink.count && strcmp(w->sink.messages[at].body, body) != 0)
        at++;
    return at;
}

/* Each came once; and a second time if that could not be settled. They are of one group: none
 * overtook another. */
void oom_check_consumed(oom_world *w)
{
    for (unsigned i = 0; i < OOM_MANY; i++)
        assert_in_range(copies_of(w, oom_name(i)), 1, 2);
    for (unsigned i = 1; i < OOM_MANY; i++)
        assert_true(first_of(w, oom_name(i - 1)) < first_of(w, oom_name(i)));
    size_t before = w->sink.count;
    assert_int_equal(oom_consume_queue(w, NULL), SEMEL_OK);
    assert_int_equal(w->sink.count, before);
    assert_int_equal(oom_letters(w), 0);
}

void oom_check_rejected(oom_world *w)
{
    assert_int_equal(oom_letters(w), OOM_MANY);
    size_t before = w->sink.count;
    assert_int_equal(oom_consume_queue(w, NULL), SEMEL_OK);
    assert_int_equal(w->sink.count, before);
}

/* All or nothing: a publish that ran out of memory left nothing, one that failed right after its
 * commit left all. */
void oom_check_published(oom_world *w)
{
    assert_int_equal(oom_consume_queue(w, NULL), SEMEL_OK);
    size_t copies = copies_of(w, oom_name(0));
    assert_in_range(copies, 1, w->failure == SEMEL_ESTORE ? 2 : 1);
    for (unsigned i = 0; i < OOM_MANY; i++)
        assert_int_equal(copies_of(w, oom_name(i)), copies);
}

/* --- extending -------------------------------------------------------------------------------- */

/* What the operation extends: a store need not lease all of a group at once. */
static semel_delivery out[OOM_MANY];
static size_t out_count;

void oom_prepare_out(oom_world *w)
{
    semel_error err;
    out_count = 0;
    oom_prepare_queued(w);
    oom_must(semel_transport_receive(w->queue, out, OOM_MANY, &out_count, 0, &err), &err);
    assert_true(out_count > 0);
}

/* Until it worked once: the next one would hide that it did not. */
semel_status oom_extend(oom_world *w, semel_error *err)
{
    const semel_transport_driver *driver = semel_transport_driver_of(w->queue);
    uint64_t tags[OOM_MANY];
    uint32_t hold_ms = 0;
    if (w->letter)
        return SEMEL_OK;
    for (size_t i = 0; i < out_count; i++)
        tags[i] = out[i].tag;
    semel_test_advance_ms(w->seam, LEASE_MS - 1);
    semel_status status =
        driver->extend(semel_transport_state(w->queue, driver), tags, out_count, &hold_ms, err);
    w->letter = !status;
    return status;
}

/* They are still out, and this receiver's to settle. */
void oom_check_extended(oom_world *w)
{
    semel_transport *other = NULL;
    semel_delivery_settlement settles[OOM_MANY];
    semel_delivery got;
    semel_error err;
    size_t count = 9;
    oom_must(open_queue(&other, w, &err), &err);
    semel_test_advance_ms(w->seam, LEASE_MS - 1);
    oom_must(semel_transport_receive(other, &got, 1, &count, 0, &err), &err);
    assert_int_equal(count, 0);
    semel_transport_close(other);
    for (size_t i = 0; i < out_count; i++)
        settles[i] = (semel_delivery_settlement){out[i].tag, SEMEL_VERDICT_ACK, 0};
    oom_must(semel_transport_settle(w->queue, settles, out_count, &err), &err);
}

/* --- replaying -------------------------------------------------------------------------------- */

static semel_status keep_id(const semel_dead *dead, void *context, semel_error *err)
{
    (void)err;
    *(int64_t *)context = dead->id;
    return SEMEL_OK;
}

void oom_prepare_rejected(oom_world *w)
{
    semel_error err;
    oom_prepare_queue(w);
    oom_must(publish(w, 1, &err), &err);
    oom_must(oom_reject(w, &err), &err);
    w->sink.count = 0;
    oom_must(semel_dead_list(w->store, NULL, keep_id, &w->letter, &err), &err);
}

semel_status oom_replay_into_queue(oom_world *w, semel_error *err)
{
    semel_status status = semel_queue_replay(w->queue, w->letter, err);
    return status == SEMEL_ENOTFOUND ? SEMEL_OK : status;
}

void oom_check_replayed(oom_world *w)
{
    assert_int_equal(oom_letters(w), 0);
    assert_int_equal(oom_consume_queue(w, NULL), SEMEL_OK);
    assert_int_equal(w->sink.count, 1);
}
