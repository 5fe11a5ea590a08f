/* Records of a store of the keyed layer, into which anyone may have written who has access to the
 * database. The input is a list of records, each
 *
 *     a letter        the kind of its space (<store/keyed/keyed.h>): of the inbox, the outbox, ...
 *     a byte, bytes   the key, with its length before it
 *     a byte          the guard
 *     two times       value and body: two bytes of length, the lowest first, and as many bytes
 *
 *  - Every value is read by every decoder. What is not damaged is written, and is read again as
 *    the same; what is cut off is not taken for whole.
 *  - A store with these records is opened, listed, counted, swept, and used: a message comes,
 *    others are leased. Nothing crashes or hangs, and every error has a reason, on one line.
 *  - A list of letters or of outgoing messages shows all there are: one that is damaged hides no
 *    other one, is shown without its message and says why. */
#include "property.h"
#include "store/keyed/history_row.h"
#include "store/keyed/marker.h"
#include "store/keyed/outbox.h"
#include "support/keyed/memory_adapter.h"

#include <semel/semel.h>
#include <semel/test.h>

enum { RECORDS_MAX = 64, LEASED_MAX = 64 };

static const char inbox_name[] = "orders", outbox_name[] = "mail";

/* --- values ----------------------------------------------------------------------------------- */

/* What was read of a value that is whole, and what is read of what was written of it. */
static void check_marker(semel_bytes value)
{
    keyed_marker marker, back;
    mem_arena arena = {0};
    semel_bytes written;
    if (keyed_marker_read(&marker, value)) {
        HOLDS(keyed_marker_write(&written, &arena, &marker));
        HOLDS(keyed_marker_read(&back, written));
        HOLDS(marker.state == back.state && marker.held == back.held);
        HOLDS(marker.attempts == back.attempts && marker.fingerprint == back.fingerprint);
        HOLDS(marker.changed_ms == back.changed_ms && marker.first_ms == back.first_ms);
        HOLDS(marker.type == back.type && marker.source == back.source);
        HOLDS(marker.received_ms == back.received_ms && same_bytes(marker.why, back.why));
        HOLDS(marker.has_result == back.has_result && marker.letter_gone == back.letter_gone);
        HOLDS(marker.unproven == back.unproven);
        HOLDS(!written.len ||
              !keyed_marker_read(&back, (semel_bytes){written.data, written.len - 1}));
    }
    arena_free(&arena);
}

static void check_same_item(const keyed_item *item, const keyed_item *back)
{
    HOLDS(item->number == back->number && item->previous == back->previous);
    HOLDS(item->attempts == back->attempts && item->refusals == back->refusals);
    HOLDS(item->captured_ms == back->captured_ms && item->due_ms == back->due_ms);
    HOLDS(item->sent_ms == back->sent_ms && same_text(item->error, back->error));
    HOLDS(same_bytes(item->message.id, back->message.id));
    HOLDS(same_text(item->message.group, back->message.group));
    HOLDS(item->message.time_ms == back->message.time_ms);
    HOLDS(item->message.header_count == back->message.header_count);
    HOLDS(same_bytes(item->message.body, back->message.body));
}

static void check_item(const semel_keyed_record *record)
{
    mem_arena arena = {0};
    keyed_item item, back;
    semel_error err = {0};
    semel_status status = keyed_item_read(&item, record, 1, 1, &arena, &err);
    HOLDS(item.error && (status != SEMEL_OK) == item.damaged);
    if (status) {
        HOLDS(status == SEMEL_ESTORE);
        check_error(status, &err);
    } else {
        semel_keyed_record written = *record;
        HOLDS(keyed_item_value(&written.value, &arena, &item));
        HOLDS(keyed_message_body(&written.body, &arena, &item.message));
        HOLDS(keyed_item_read(&back, &written, 1, 1, &arena, &err) == SEMEL_OK);
        check_same_item(&item, &back);
    }
    arena_free(&arena);
}

static void check_row(semel_bytes value)
{
    mem_arena arena = {0};
    history_row row, back;
    semel_bytes written;
    HOLDS(history_row_decode(&row, 7, value, 1, &arena));
    HOLDS(row.row.name && row.row.process && row.row.error && row.row.id == 7);
    HOLDS(!row.row.message == (row.row.damage && row.row.damage[0]));
    if (row.row.message) {
        HOLDS(history_row_encode(&written, &arena, &row.row, row.row.kept));
        HOLDS(history_row_decode(&back, 7, written, 1, &arena));
        HOLDS(back.row.message && back.row.at_ms == row.row.at_ms);
        HOLDS(back.row.kind == row.row.kind && back.row.outcome == row.row.outcome);
        HOLDS(same_bytes(back.row.key, row.row.key) && same_text(back.row.name, row.row.name));
        HOLDS(same_bytes(back.message.id, row.message.id));
        HOLDS(!row.row.kept || same_bytes(back.message.body, row.message.body));
    }
    (void)history_row_at(value);
    arena_free(&arena);
}

static void check_values(const semel_keyed_record *record)
{
    outbox_group group;
    semel_error err = {0};
    check_marker(record->value);
    check_item(record);
    check_row(record->value);
    check_row(record->body);
    (void)keyed_marker_known(record);
    (void)keyed_note_number(record);
    semel_status status = outbox_group_read(&group, record, &err);
    if (status)
        check_error(status, &err);
}

/* --- records ---------------------------------------------------------------------------------- */

typedef struct place {
    keyed_memory *memory;
    semel_test_seam *seam;
    semel_store *store;
    semel_inbox *inbox;
    semel_outbox *outbox;
    int64_t inbox_number, outbox_number;
    size_t letters, waiting; /* that a list must show */
} place;

typedef struct bytes_left {
    const uint8_t *at;
    size_t len;
} bytes_left;

static semel_bytes take(bytes_left *from, size_t len)
{
    semel_bytes taken = {from->at, len < from->len ? len : from->len};
    from->at += taken.len;
    from->len -= taken.len;
    return taken;
}

static size_t take_number(bytes_left *from, size_t bytes)
{
    semel_bytes taken = take(from, bytes);
    size_t number = 0;
    for (size_t i = taken.len; i-- > 0;)
        number = number << 8 | ((const uint8_t *)taken.data)[i];
    return number;
}

/* 0 if no space has this letter. */
static int find_space(keyed_space *out, const place *p, char letter)
{
    if (!letter || !strchr("mtorwgxdDaphHnNs", letter))
        return 0;
    *out = strchr("mt", letter)      ? keyed_space_of(letter, p->inbox_number)
           : strchr("orwgx", letter) ? keyed_space_of(letter, p->outbox_number)
           : strchr("nN", letter)    ? keyed_space_of(letter, SEMEL_SCOPE_INBOX)
                                     : keyed_space_plain(letter);
    return 1;
}

static int is_number_key(semel_bytes key)
{
    return key.len == KEYED_NUMBER_LEN && keyed_number_read(key.data) > 0;
}

static semel_status ignore_record(const semel_keyed_record *record, void *context, semel_error *err)
{
    (void)record, (void)context, (void)err;
    return SEMEL_OK;
}

/* Over whatever is there. 0: it was there already. */
static int put(const place *p, const semel_keyed_record *record)
{
    semel_error err;
    keyed_store *store = semel_store_state(p->store, &keyed_memory_store);
    semel_keyed_change change = {
        .kind = SEMEL_KEYED_WRITE, .expect = SEMEL_EXPECT_ABSENT, .record = *record};
    semel_status status = store->driver->apply(store->state, &change, 1, SEMEL_BEGIN_DURABLE,
                                               ignore_record, NULL, &err);
    return status == SEMEL_OK;
}

static void put_records(place *p, bytes_left input)
{
    for (int i = 0; i < RECORDS_MAX && input.len; i++) {
        keyed_space space;
        int known = find_space(&space, p, (char)take_number(&input, 1));
        semel_keyed_record record = {.version = {(unsigned char)i, 1}};
        record.key = take(&input, take_number(&input, 1));
        record.guard = take_number(&input, 1);
        record.value = take(&input, take_number(&input, 2));
        record.body = take(&input, take_number(&input, 2));
        check_values(&record);
        if (!known || !record.key.len)
            continue;
        record.space = keyed_space_bytes(&space);
        int is_new = put(p, &record);
        p->letters += is_new && space.text[0] == 'd' && is_number_key(record.key);
        p->waiting += is_new && space.text[0] == 'o' && is_number_key(record.key);
    }
}

/* --- what is shown ---------------------------------------------------------------------------- */

static size_t touched;

static void touch(const void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        touched += ((const unsigned char *)bytes)[i];
}

static void touch_text(const char *text)
{
    if (text)
        touch(text, strlen(text));
}

static void touch_message(const semel_message *message)
{
    touch(message->id.data, message->id.len);
    touch(message->correlation_id.data, message->correlation_id.len);
    touch(message->body.data, message->body.len);
    touch_text(message->source);
    touch_text(message->type);
    touch_text(message->topic);
    touch_text(message->group);
    touch_text(message->content_type);
    for (size_t i = 0; i < message->header_count; i++) {
        touch_text(message->headers[i].name);
        touch(message->headers[i].value.data, message->headers[i].value.len);
    }
}

static semel_status see_letter(const semel_dead *dead, void *context, semel_error *err)
{
    (void)err;
    ++*(size_t *)context;
    touch(dead->key.data, dead->key.len);
    HOLDS(dead->name && dead->error);
    touch_text(dead->name);
    touch_text(dead->error);
    if (dead->message)
        touch_message(dead->message);
    return SEMEL_OK;
}

static semel_status see_outgoing(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    (void)err;
    ++*(size_t *)context;
    HOLDS(outgoing->error && (outgoing->message || outgoing->error[0]));
    touch_text(outgoing->error);
    if (outgoing->message)
        touch_message(outgoing->message);
    return SEMEL_OK;
}

static semel_status see_marker(const semel_marker *marker, void *context, semel_error *err)
{
    (void)context, (void)err;
    HOLDS(marker->error && marker->state <= SEMEL_MARKER_DEAD);
    touch(marker->key.data, marker->key.len);
    touch(marker->result.data, marker->result.len);
    touch_text(marker->error);
    touch_text(marker->type);
    touch_text(marker->source);
    return SEMEL_OK;
}

static semel_status see_history(const semel_history *row, void *context, semel_error *err)
{
    (void)context, (void)err;
    HOLDS(row->name && row->process && row->error);
    touch(row->key.data, row->key.len);
    touch(row->message_id.data, row->message_id.len);
    touch_text(row->name);
    touch_text(row->error);
    touch_text(row->type);
    touch_text(row->damage);
    if (row->message)
        touch_message(row->message);
    return SEMEL_OK;
}

static semel_status see_audit(const semel_audit *entry, void *context, semel_error *err)
{
    (void)context, (void)err;
    touch_text(entry->who);
    touch_text(entry->what);
    touch_text(entry->result);
    return SEMEL_OK;
}

static semel_status see_process(const semel_process *process, void *context, semel_error *err)
{
    (void)context, (void)err;
    touch_text(process->id);
    touch_text(process->host);
    touch_text(process->socket);
    touch_text(process->data);
    return SEMEL_OK;
}

static semel_status see_name(const semel_name *name, void *context, semel_error *err)
{
    (void)context, (void)err;
    touch_text(name->name);
    touch_text(name->definition);
    return SEMEL_OK;
}

/* --- lists ------------------------------------------------------------------------------------ */

/* What fails says why. */
static void may_fail(semel_status status, const semel_error *err)
{
    if (!status)
        return;
    check_error(status, err);
    HOLDS_FOR(err->text, status != SEMEL_EMISUSE && status != SEMEL_ENOMEM);
}

static void list_what_waits(const place *p)
{
    semel_error err = {0};
    size_t letters = 0, waiting = 0, sent = 0;
    semel_dead_filter dead = {.size = sizeof dead, .limit = SEMEL_PAGE_MAX};
    semel_outgoing_filter outgoing = {
        .size = sizeof outgoing, .limit = SEMEL_PAGE_MAX, .contents = 1};
    semel_sent_filter left = {.size = sizeof left};
    semel_status status = semel_dead_list(p->store, &dead, see_letter, &letters, &err);
    HOLDS_FOR(err.text, status == SEMEL_OK && letters >= p->letters);
    status = semel_outbox_list(p->outbox, &outgoing, see_outgoing, &waiting, &err);
    HOLDS_FOR(err.text, status == SEMEL_OK && waiting >= p->waiting);
    may_fail(semel_outbox_list_sent(p->outbox, &left, see_outgoing, &sent, &err), &err);
}

static void list_the_rest(const place *p)
{
    semel_error err = {0};
    semel_marker_filter markers = {.size = sizeof markers, .results = 1};
    semel_history_filter history = {.size = sizeof history, .contents = 1};
    semel_audit_filter audit = {.size = sizeof audit};
    may_fail(semel_inbox_list(p->inbox, &markers, see_marker, NULL, &err), &err);
    may_fail(semel_history_list(p->store, &history, see_history, NULL, &err), &err);
    may_fail(semel_audit_list(p->store, &audit, see_audit, NULL, &err), &err);
    may_fail(semel_process_list(p->store, see_process, NULL, &err), &err);
    may_fail(semel_store_names(p->store, SEMEL_NAME_INBOX, see_name, NULL, &err), &err);
}

static void count(const place *p)
{
    semel_error err = {0};
    semel_stats stats;
    uint64_t rows;
    int64_t oldest_ms;
    may_fail(semel_store_stats(&stats, sizeof stats, p->store, 1000, &err), &err);
    may_fail(semel_inbox_stats(&stats, sizeof stats, p->inbox, 1000, &err), &err);
    may_fail(semel_outbox_stats(&stats, sizeof stats, p->outbox, 1000, &err), &err);
    may_fail(semel_history_size(&rows, &oldest_ms, p->store, &err), &err);
}

/* --- use -------------------------------------------------------------------------------------- */

static semel_status work(semel_unit *unit, const semel_message *message, void *context,
                         semel_error *err)
{
    const semel_message mail = {
        .size = sizeof mail, .id = {"1", 1}, .type = "paid", .topic = "mail", .group = "g"};
    (void)message, (void)context;
    return semel_unit_send(unit, semel_unit_outbox(unit, outbox_name), &mail, err);
}

static void receive(const place *p)
{
    semel_error err = {0};
    semel_outcome outcome;
    semel_message message = {
        .size = sizeof message, .id = {"k", 1}, .type = "order", .delivery = 1};
    may_fail(semel_inbox_receive(&outcome, p->inbox, &message, work, NULL, &err), &err);
}

typedef struct leases {
    semel_item_settlement all[LEASED_MAX];
    size_t count;
} leases;

static semel_status see_item(const semel_item *item, void *context, semel_error *err)
{
    leases *found = context;
    (void)err;
    touch_message(item->message);
    if (found->count < LEASED_MAX)
        found->all[found->count++] = (semel_item_settlement){
            .seq = item->seq,
            .token = item->token,
            .verdict = found->count % 2 ? SEMEL_VERDICT_ACK : SEMEL_VERDICT_RETRY,
            .error = "again",
            .sent = 1};
    return SEMEL_OK;
}

static void send(const place *p)
{
    static leases found;
    semel_error err = {0};
    const semel_store_driver *driver = &keyed_memory_store;
    void *store = semel_store_state(p->store, driver);
    char *unit = mem_alloc(driver->unit_size);
    HOLDS(unit);
    found.count = 0;
    for (int settles = 0; settles < 2; settles++) {
        memset(unit, 0, driver->unit_size);
        HOLDS(driver->units->begin(store, unit, SEMEL_BEGIN_DURABLE, 0, &err) == SEMEL_OK);
        semel_status status =
            settles ? driver->outbox->settle(unit, p->outbox_number, found.all, found.count, &err)
                    : driver->outbox->lease(unit, p->outbox_number, LEASED_MAX, 1000, see_item,
                                            &found, &err);
        may_fail(status, &err);
        if (status)
            driver->units->rollback(unit);
        else
            may_fail(driver->units->commit(unit, &err), &err);
    }
    mem_free(unit);
}

static void clean(const place *p)
{
    semel_error err = {0};
    size_t gone;
    int more;
    const semel_dead_filter all = {.size = sizeof all};
    may_fail(semel_inbox_sweep(&gone, &more, p->inbox, 0, &err), &err);
    may_fail(semel_dead_sweep(&gone, &more, p->store, &all, 0, 0, &err), &err);
    may_fail(semel_history_trim(&gone, &more, p->store, 1, 0, 0, &err), &err);
}

/* --- all of it -------------------------------------------------------------------------------- */

static int64_t number_of(const place *p, semel_scope kind, const char *name)
{
    semel_error err;
    int64_t number = 0;
    HOLDS(keyed_memory_store.scope(semel_store_state(p->store, &keyed_memory_store), kind, name,
                                   &number, &err) == SEMEL_OK);
    return number;
}

static void open_place(place *p)
{
    semel_error err = {0};
    keyed_memory_options options = {.no_watch = 1};
    p->memory = keyed_memory_open("fuzz", &options);
    HOLDS(p->memory && semel_test_seam_open(&p->seam, 7, &err) == SEMEL_OK);
    semel_store_options how = {
        .size = sizeof how, .busy_ms = 1, .seam = semel_test_seam_get(p->seam)};
    semel_inbox_options inbox = {.size = sizeof inbox, .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    HOLDS(semel_store_open_driver(&p->store, &keyed_memory_store, "fuzz", &how, &err) == SEMEL_OK);
    HOLDS(semel_store_migrate(p->store, &err) == SEMEL_OK);
    HOLDS(semel_inbox_open(&p->inbox, p->store, inbox_name, &inbox, &err) == SEMEL_OK);
    HOLDS(semel_outbox_open(&p->outbox, p->store, outbox_name, &err) == SEMEL_OK);
    p->inbox_number = number_of(p, SEMEL_SCOPE_INBOX, inbox_name);
    p->outbox_number = number_of(p, SEMEL_SCOPE_OUTBOX, outbox_name);
}

static void close_place(place *p)
{
    semel_outbox_close(p->outbox);
    semel_inbox_close(p->inbox);
    semel_store_close(p->store);
    keyed_memory_close(p->memory);
    semel_test_seam_close(p->seam);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    place p = {0};
    open_place(&p);
    put_records(&p, (bytes_left){data, size});
    list_what_waits(&p);
    list_the_rest(&p);
    count(&p);
    receive(&p);
    send(&p);
    clean(&p);
    close_place(&p);
    return 0;
}
