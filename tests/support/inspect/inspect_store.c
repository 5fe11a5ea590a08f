/* See inspect_store.h. What cannot fail ends the process when it does, so that children may
 * look, too. */
#include "support/inspect/inspect_store.h"

#include "support/fixture/effect.h"
#include "support/inspect/inspect.h"
#include "support/process/process.h"

enum { LETTERS_MAX = 10000 };

static semel_status count_letter(const semel_dead *dead, void *context, semel_error *err)
{
    store_contents *found = context;
    (void)err;
    found->dead++;
    found->letters += dead->origin == SEMEL_DEAD_INBOX;
    return SEMEL_OK;
}

store_contents inspect_open_store(semel_store *store)
{
    semel_error err;
    semel_counters counters;
    store_contents found = {.done = INSPECT_UNKNOWN};
    semel_dead_filter all = {.size = sizeof all, .limit = LETTERS_MAX};
    PROCESS_REQUIRE_OK(semel_store_counters(&counters, sizeof counters, store, &err), &err);
    PROCESS_REQUIRE_OK(semel_dead_list(store, &all, count_letter, &found, &err), &err);
    found.unsent = (int64_t)counters.unsent;
    return found;
}

static store_contents look_by_sql(const char *url)
{
    static const char *const sqls[] = {
        "SELECT count(*) FROM semel_marker WHERE state = 0", "SELECT count(*) FROM semel_outbox",
        "SELECT count(*) FROM semel_dead", "SELECT count(*) FROM semel_dead WHERE origin = 1"};
    int64_t n[sizeof sqls / sizeof *sqls];
    inspect_numbers(n, url, sqls, sizeof sqls / sizeof *sqls);
    return (store_contents){n[0], n[1], n[2], n[3]};
}

static void collect(const store_place *place, semel_store *store, const char *name)
{
    effect e;
    semel_error err;
    PROCESS_REQUIRE_OK(effect_open(&e, place, store, name, &err), &err);
    PROCESS_REQUIRE_OK(effect_collect(&e, &err), &err);
    effect_close(&e);
}

store_contents inspect_store(const store_place *place, const char *const effects[])
{
    semel_error err;
    semel_store *store;
    if (place->has_sql)
        return look_by_sql(place->url);
    if (place->kind == PLACE_SERVER && server_clock_ms(place->server.kind))
        store_place_pass_ms(place, 0); /* what was sent by a process whose clock is ahead is due */
    PROCESS_REQUIRE_OK(semel_store_open(&store, place->url, NULL, &err), &err);
    for (; *effects; effects++)
        collect(place, store, *effects);
    store_contents found = inspect_open_store(store);
    semel_store_close(store);
    return found;
}
