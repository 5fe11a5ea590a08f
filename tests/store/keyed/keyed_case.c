#include "keyed_case.h"

static keyed_memory_fate choose(void *context, keyed_memory_event *event)
{
    keyed_case *c = context;
    if (event->call != KEYED_MEMORY_APPLY)
        return KEYED_MEMORY_DONE;
    c->applies++;
    if (c->fate == c->fate_count)
        return c->endless && c->fate_count ? c->fates[c->fate_count - 1] : KEYED_MEMORY_DONE;
    return c->fates[c->fate++];
}

void keyed_case_expect(keyed_case *c, const keyed_memory_fate fates[], size_t count)
{
    assert_true(count <= sizeof c->fates / sizeof *c->fates);
    for (size_t i = 0; i < count; i++)
        c->fates[i] = fates[i];
    c->fate = 0;
    c->fate_count = count;
    c->endless = 0;
    c->applies = 0;
}

static semel_inbox *open_inbox(semel_store *store, semel_mode mode)
{
    semel_inbox *inbox = NULL;
    semel_inbox_options options = {.size = sizeof options,
                                   .mode = mode,
                                   .lease_ms = 30000,
                                   .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    OK(semel_inbox_open(&inbox, store, "orders", &options, &last_error));
    return inbox;
}

void keyed_case_open(keyed_case *c, semel_mode mode, const keyed_memory_options *given)
{
    keyed_memory_options options = given ? *given : (keyed_memory_options){0};
    *c = (keyed_case){0};
    options.hook = (keyed_memory_hook){.context = c, .before = choose};
    c->memory = keyed_memory_open("case", &options);
    assert_non_null(c->memory);
    OK(semel_test_seam_open(&c->seam, 7, &last_error));
    semel_store_options chosen = {
        .size = sizeof chosen, .busy_ms = 1, .seam = semel_test_seam_get(c->seam)};
    OK(semel_store_open_driver(&c->store, &keyed_memory_store, "case", &chosen, &last_error));
    OK(semel_store_open_driver(&c->other, &keyed_memory_store, "case", &chosen, &last_error));
    OK(semel_store_migrate(c->store, &last_error));
    c->inbox = open_inbox(c->store, mode);
    c->others = open_inbox(c->other, mode);
    OK(semel_outbox_open(&c->outbox, c->store, "mail", &last_error));
    OK(semel_outbox_open(&c->others_outbox, c->other, "mail", &last_error));
}

void keyed_case_close(keyed_case *c)
{
    keyed_case_expect(c, NULL, 0);
    semel_outbox_close(c->outbox);
    semel_outbox_close(c->others_outbox);
    semel_inbox_close(c->inbox);
    semel_inbox_close(c->others);
    semel_store_close(c->store);
    semel_store_close(c->other);
    keyed_memory_close(c->memory);
    semel_test_seam_close(c->seam);
}

semel_status keyed_case_work(semel_unit *unit, const semel_message *message, void *context,
                             semel_error *err)
{
    semel_value one = semel_int(1);
    semel_message mail = text_message("mail", "paid");
    (void)message, (void)context;
    semel_status status = semel_unit_queue(unit, "add done ?", &one, 1, err);
    return status ? status : semel_unit_send(unit, semel_unit_outbox(unit, "mail"), &mail, err);
}

void keyed_case_receive(keyed_case *c, semel_inbox *inbox, const char *id, semel_status status,
                        semel_outcome outcome)
{
    semel_message message = text_message(id, "10 EUR");
    semel_outcome found = SEMEL_UNDECIDED;
    FAILS(status, semel_inbox_receive(&found, inbox, &message, keyed_case_work, c, &last_error));
    assert_int_equal(found, outcome);
}

int64_t keyed_case_done(keyed_case *c)
{
    return keyed_memory_counter(c->memory, "done");
}

uint64_t keyed_case_unsent(keyed_case *c)
{
    semel_counters now;
    OK(semel_store_counters(&now, sizeof now, c->store, &last_error));
    return now.unsent;
}

keyed_store *keyed_case_store(semel_store *store)
{
    return semel_store_state(store, &keyed_memory_store);
}

/* Of the only key. */
const keyed_row *keyed_case_marker(keyed_case *c, mem_arena *arena)
{
    keyed_store *store = keyed_case_store(c->other);
    int64_t inbox = 0;
    OK(keyed_scope(store, SEMEL_SCOPE_INBOX, "orders", &inbox, &last_error));
    keyed_space space = keyed_space_of('m', inbox);
    keyed_rows rows = {.arena = arena};
    semel_keyed_range all = {.space = keyed_space_bytes(&space), .limit = 10};
    OK(keyed_scan(&rows, store, &all, &last_error));
    assert_true(rows.count <= 1);
    return rows.first;
}

void keyed_case_steal(keyed_case *c)
{
    mem_arena arena = {0};
    keyed_store *store = keyed_case_store(c->other);
    const keyed_row *row = keyed_case_marker(c, &arena);
    assert_non_null(row);
    semel_keyed_record stolen = row->record;
    stolen.guard = keyed_new_token(store);
    semel_keyed_change change = keyed_write_of(store, &row->record, &stolen, 1);
    OK(keyed_apply_now(store, &change, 1, SEMEL_BEGIN_DURABLE, NULL, &last_error));
    arena_free(&arena);
}
