#include "post.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- a database and two processes ------------------------------------------------------------- */

const semel_store_driver *const post_driver = &keyed_memory_store;

/* Only what was written while the scan is under way may be missed. */
static keyed_memory_fate before_scan(post *p, const keyed_memory_event *event)
{
    void (*meanwhile)(post *) = p->while_scanning;
    if (!meanwhile || *(const char *)event->space.data != 'w')
        return KEYED_MEMORY_DONE;
    p->while_scanning = NULL;
    meanwhile(p);
    p->is_hiding = 1;
    return KEYED_MEMORY_DONE;
}

static int omits(void *context, const semel_keyed_record *record)
{
    post *p = context;
    if (!p->is_hiding || !p->hidden || *(const char *)record->space.data != 'w')
        return 0;
    return (int64_t)record->guard == p->numbers[p->hidden - 1];
}

static void after_call(void *context, const keyed_memory_event *event, semel_status status)
{
    post *p = context;
    (void)status;
    if (event->call == KEYED_MEMORY_SCAN)
        p->is_hiding = 0;
}

static void note_places(void *context, const semel_keyed_change changes[], size_t count)
{
    post *p = context;
    for (size_t i = 0; i < count; i++)
        if (changes[i].kind == SEMEL_KEYED_WRITE &&
            *(const char *)changes[i].record.space.data == 'w' && p->numbers_count < 16)
            p->numbers[p->numbers_count++] = (int64_t)changes[i].record.guard;
}

static keyed_memory_fate before_call(void *context, keyed_memory_event *event)
{
    post *p = context;
    void (*meanwhile)(post *) = p->meanwhile;
    keyed_memory_fate fate = p->fate;
    if (event->call == KEYED_MEMORY_SCAN)
        return before_scan(p, event);
    if (event->call != KEYED_MEMORY_APPLY || (!meanwhile && !fate))
        return KEYED_MEMORY_DONE;
    p->meanwhile = NULL;
    p->fate = KEYED_MEMORY_DONE;
    if (meanwhile)
        meanwhile(p);
    return fate;
}

void post_open(post *p, const keyed_memory_options *options)
{
    *p = (post){0};
    assert_int_equal(semel_test_seam_open(&p->seam, 1, &p->err), SEMEL_OK);
    semel_store_options with = {
        .size = sizeof with, .seam = semel_test_seam_get(p->seam), .answer_ms = 1000};
    p->memory = keyed_memory_open("post", options);
    for (int i = 0; i < POST_HANDLES; i++)
        assert_int_equal(
            semel_store_open_driver(&p->stores[i], post_driver, "post", &with, &p->err), SEMEL_OK);
    assert_int_equal(semel_store_migrate(p->stores[0], &p->err), SEMEL_OK);
    assert_int_equal(
        post_driver->scope(p->stores[0]->state, SEMEL_SCOPE_OUTBOX, "mail", &p->outbox, &p->err),
        SEMEL_OK);
    keyed_memory_set_hook(p->memory, &(keyed_memory_hook){.context = p,
                                                          .before = before_call,
                                                          .after = after_call,
                                                          .applied = note_places,
                                                          .omits = omits});
}

outbox_counts post_expect_invariants(const post *p)
{
    outbox_counts counts;
    char text[256];
    if (!outbox_invariants_hold(p->memory, &counts, text, sizeof text))
        fail_msg("%s", text);
    return counts;
}

void post_close(post *p)
{
    (void)post_expect_invariants(p);
    for (int i = 0; i < POST_HANDLES; i++)
        semel_store_close(p->stores[i]);
    keyed_memory_close(p->memory);
    semel_test_seam_close(p->seam);
}

void *post_begin(post *p, int handle)
{
    void *unit = calloc(1, post_driver->unit_size);
    assert_int_equal(
        post_driver->units->begin(p->stores[handle]->state, unit, SEMEL_BEGIN_DURABLE, 0, &p->err),
        SEMEL_OK);
    return unit;
}

semel_status post_commit(post *p, void *unit)
{
    semel_status status = post_driver->units->commit(unit, &p->err);
    free(unit);
    return status;
}

void post_put_in(post *p, void *unit, const char *id, const char *group)
{
    semel_message message = {
        .size = sizeof message, .id = semel_str(id), .group = group, .body = semel_str(id)};
    assert_int_equal(post_driver->outbox->put(unit, p->outbox, &message, &p->err), SEMEL_OK);
}

void post_put(post *p, int handle, const char *id, const char *group)
{
    void *unit = post_begin(p, handle);
    post_put_in(p, unit, id, group);
    assert_int_equal(post_commit(p, unit), SEMEL_OK);
}

semel_status post_collect(const semel_item *item, void *context, semel_error *err)
{
    post_leased *to = context;
    size_t used = strlen(to->ids);
    (void)err;
    assert_true(to->count < POST_LEASED_MAX);
    (void)snprintf(to->ids + used, sizeof to->ids - used, "%.*s ", (int)item->message->id.len,
                   (const char *)item->message->id.data);
    to->attempts[to->count] = item->attempts;
    to->all[to->count++] = (semel_item_settlement){
        .seq = item->seq, .token = item->token, .verdict = SEMEL_VERDICT_ACK};
    return SEMEL_OK;
}

void post_lease(post *p, int handle, post_leased *out, uint32_t limit)
{
    void *unit = post_begin(p, handle);
    *out = (post_leased){.count = 0};
    assert_int_equal(post_driver->outbox->lease(unit, p->outbox, limit, POST_LEASE_MS, post_collect,
                                                out, &p->err),
                     SEMEL_OK);
    assert_int_equal(post_commit(p, unit), SEMEL_OK);
}

semel_status post_settle(post *p, int handle, post_leased *items, semel_verdict verdict)
{
    void *unit = post_begin(p, handle);
    for (size_t i = 0; i < items->count; i++)
        items->all[i].verdict = verdict;
    assert_int_equal(
        post_driver->outbox->settle(unit, p->outbox, items->all, items->count, &p->err), SEMEL_OK);
    return post_commit(p, unit);
}

void post_expect_leased(post *p, int handle, const char *ids)
{
    post_leased found;
    post_lease(p, handle, &found, POST_LEASED_MAX);
    assert_string_equal(found.ids, ids);
}
