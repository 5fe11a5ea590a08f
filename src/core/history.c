/* The history of deliveries: rows about what has happened, which decide nothing.
 *
 * They are written without waiting for the disk, many at once. A row may say anything that a
 * message of others says, so texts are mended here, once for all drivers: a type that is no UTF-8
 * must not make a database refuse the whole batch. Each driver gets a message for each row, be it
 * one with an id, a type and a source only, so that all of them have one way to store it. */
#include "base/message.h"
#include "base/utf8.h"
#include "core/key.h"
#include "core/operate.h"

#include <string.h>

static const semel_store_history *store_history(const semel_store *store)
{
    static const semel_store_history none;
    return store->driver->history ? store->driver->history : &none;
}

static semel_status refuse(const semel_store *store, semel_error *err)
{
    return operate_refuse(store, "keep a history", err);
}

static semel_status fail_memory(semel_error *err)
{
    return semel_fail(err, SEMEL_ENOMEM, "out of memory for the history");
}

/* --- writing ---------------------------------------------------------------------------------- */

typedef struct history_batch {
    mem_arena arena;
    semel_history *rows;
    size_t count;
} history_batch;

/* A text that a database takes, copied only if it must be; NULL stays NULL. 0: out of memory. */
static int mend(const char **text, mem_arena *arena, size_t most)
{
    size_t len = *text ? strlen(*text) : 0;
    if (len > most || (len && !utf8_valid(*text, len)))
        *text = operate_text(arena, *text, most);
    return *text || !len;
}

static void cut(semel_bytes *bytes, size_t most)
{
    if (bytes->len > most)
        bytes->len = most;
}

static int mend_message(semel_message *m, mem_arena *arena)
{
    m->size = sizeof *m;
    cut(&m->id, SEMEL_TEXT_MAX);
    cut(&m->correlation_id, SEMEL_TEXT_MAX);
    cut(&m->body, SEMEL_HISTORY_BODY_MAX);
    return mend(&m->source, arena, SEMEL_TEXT_MAX) && mend(&m->type, arena, SEMEL_TEXT_MAX) &&
           mend(&m->topic, arena, SEMEL_TEXT_MAX) && mend(&m->group, arena, SEMEL_TEXT_MAX) &&
           mend(&m->content_type, arena, SEMEL_TEXT_MAX);
}

/* The message as it is stored: what was kept, or a brief one. A message beyond the limits is not
 * kept: it must not keep the rows beside it out. */
static semel_status complete_message(semel_history *row, mem_arena *arena, semel_error *err)
{
    semel_message *stored = arena_alloc(arena, sizeof *stored);
    if (!stored)
        return fail_memory(err);
    *stored = (semel_message){.size = sizeof *stored};
    row->kept = row->message && !message_check(row->message, NULL);
    if (row->kept) {
        size_t size = row->message->size < sizeof *stored ? row->message->size : sizeof *stored;
        memcpy(stored, row->message, size);
    }
    stored->id = row->message_id;
    stored->type = row->type;
    stored->source = row->source;
    row->message = stored;
    return mend_message(stored, arena) ? SEMEL_OK : fail_memory(err);
}

static semel_status check_row(const semel_history *row, semel_error *err)
{
    if (row->kind < SEMEL_HISTORY_RECEIVED || row->kind > SEMEL_HISTORY_GAP)
        return semel_fail(err, SEMEL_EINVAL, "semel_history.kind: there is no choice %d",
                          (int)row->kind);
    if ((unsigned)row->outcome > SEMEL_DEAD || (unsigned)row->refused > SEMEL_DEAD)
        return semel_fail(err, SEMEL_EINVAL, "semel_history.outcome: there is no choice %d",
                          (unsigned)row->outcome > SEMEL_DEAD ? (int)row->outcome
                                                              : (int)row->refused);
    return SEMEL_OK;
}

static semel_status complete_row(semel_history *row, mem_arena *arena, semel_error *err)
{
    semel_status status = check_row(row, err);
    row->name = row->name ? row->name : "";
    row->process = row->process ? row->process : "";
    row->error = row->error ? row->error : "";
    if (!row->key.len)
        row->key.data = NULL;
    if (!status && row->key.len)
        status = key_stored(&row->key, arena, row->key, err);
    if (!status &&
        !(mend(&row->name, arena, SEMEL_NAME_MAX) && mend(&row->process, arena, SEMEL_NAME_MAX) &&
          mend(&row->error, arena, SEMEL_AUDIT_TEXT_MAX)))
        status = fail_memory(err);
    return status ? status : complete_message(row, arena, err);
}

static semel_status complete_rows(history_batch *batch, const semel_history rows[], size_t count,
                                  semel_error *err)
{
    semel_status status = SEMEL_OK;
    batch->rows = arena_alloc(&batch->arena, count * sizeof *batch->rows);
    if (!batch->rows)
        return fail_memory(err);
    for (; !status && batch->count < count; batch->count++) {
        semel_history *row = &batch->rows[batch->count];
        status = options_read(row, sizeof *row, &rows[batch->count], "semel_history", err);
        if (!status)
            status = complete_row(row, &batch->arena, err);
    }
    return status;
}

static semel_status put_rows(work_unit *unit, void *context, semel_error *err)
{
    const history_batch *batch = context;
    return store_history(unit->store)->put(unit->state, batch->rows, batch->count, err);
}

semel_status semel_history_write(semel_store *store, const semel_history rows[], size_t count,
                                 semel_error *err)
{
    history_batch batch = {.count = 0};
    if (!store_history(store)->put)
        return refuse(store, err);
    if (count > SEMEL_HISTORY_ROWS_MAX)
        return semel_fail(err, SEMEL_ELIMIT, "%zu rows of history; SEMEL_HISTORY_ROWS_MAX is %zu",
                          count, SEMEL_HISTORY_ROWS_MAX);
    if (!count)
        return SEMEL_OK;
    semel_status status = complete_rows(&batch, rows, count, err);
    if (!status)
        status = operate_change(store, SEMEL_BEGIN_RELAXED, put_rows, &batch, err);
    arena_free(&batch.arena);
    return status;
}

/* --- listing ---------------------------------------------------------------------------------- */

typedef struct history_page {
    mem_arena arena;
    semel_history *rows;
    uint32_t room;
    uint32_t count;
    int contents;
} history_page;

static int copy_text(const char **text, mem_arena *arena)
{
    return !*text || (*text = arena_copy(arena, *text, strlen(*text))) != NULL;
}

static int copy_bytes(semel_bytes *bytes, mem_arena *arena)
{
    return !bytes->data || (bytes->data = arena_copy(arena, bytes->data, bytes->len)) != NULL;
}

static void fill_empty(semel_history *row)
{
    row->size = sizeof *row;
    row->name = row->name ? row->name : "";
    row->process = row->process ? row->process : "";
    row->error = row->error ? row->error : "";
}

/* A driver's row has its id, type and source in the message, if that can be read. */
static int copy_row(semel_history *row, mem_arena *arena, int contents)
{
    if (row->message) {
        row->message_id = row->message->id;
        row->type = row->message->type;
        row->source = row->message->source;
    }
    if (!row->kept || !contents)
        row->message = NULL;
    if (row->message && !(row->message = message_copy_into(arena, row->message)))
        return 0;
    return copy_text(&row->name, arena) && copy_bytes(&row->key, arena) &&
           copy_text(&row->process, arena) && copy_text(&row->error, arena) &&
           copy_text(&row->damage, arena) && copy_bytes(&row->message_id, arena) &&
           copy_text(&row->type, arena) && copy_text(&row->source, arena);
}

static semel_status keep_row(const semel_history *row, void *context, semel_error *err)
{
    history_page *page = context;
    if (page->count == page->room)
        return SEMEL_OK;
    semel_history *copy = &page->rows[page->count++];
    *copy = *row;
    fill_empty(copy);
    return copy_row(copy, &page->arena, page->contents) ? SEMEL_OK : fail_memory(err);
}

static semel_status read_filter(semel_history_filter *out, const semel_history_filter *given,
                                semel_error *err)
{
    semel_status status = options_read(out, sizeof *out, given, "semel_history_filter", err);
    if (!out->limit)
        out->limit = SEMEL_PAGE_DEFAULT;
    if (!out->before_id)
        out->before_id = INT64_MAX;
    if (!out->key.len)
        out->key.data = NULL;
    if (!status && out->limit > SEMEL_PAGE_MAX)
        status =
            semel_fail(err, SEMEL_ELIMIT, "semel_history_filter.limit is %u; SEMEL_PAGE_MAX is %d",
                       out->limit, SEMEL_PAGE_MAX);
    return status;
}

semel_status semel_history_list(semel_store *store, const semel_history_filter *filter,
                                semel_history_visitor *visitor, void *context, semel_error *err)
{
    history_page page = {.count = 0};
    semel_history_filter wanted;
    const semel_store_history *driver = store_history(store);
    semel_status status = read_filter(&wanted, filter, err);
    if (status || !driver->list)
        return status ? status : refuse(store, err);
    page.room = wanted.limit;
    page.contents = wanted.contents;
    page.rows = arena_alloc(&page.arena, page.room * sizeof *page.rows);
    if (!page.rows)
        status = fail_memory(err);
    if (!status)
        status = driver->list(store->state, &wanted, keep_row, &page, err);
    for (uint32_t i = 0; !status && i < page.count; i++)
        status = visitor(&page.rows[i], context, err);
    arena_free(&page.arena);
    return status;
}

/* --- trimming --------------------------------------------------------------------------------- */

typedef struct history_trimming {
    uint64_t rows_kept;
    int64_t cutoff_ms;
    uint32_t limit;
    size_t removed;
} history_trimming;

static semel_status trim_rows(work_unit *unit, void *context, semel_error *err)
{
    history_trimming *t = context;
    t->removed = 0;
    return store_history(unit->store)
        ->trim(unit->state, t->rows_kept, t->cutoff_ms, t->limit, &t->removed, err);
}

semel_status semel_history_trim(size_t *removed, int *more, semel_store *store, uint64_t rows_kept,
                                uint64_t older_than_ms, uint32_t limit, semel_error *err)
{
    history_trimming t = {.rows_kept = rows_kept, .limit = limit ? limit : SEMEL_SWEEP_BATCH};
    int64_t now = 0;
    if (!store_history(store)->trim)
        return refuse(store, err);
    if (rows_kept > INT64_MAX)
        t.rows_kept = 0;
    semel_status status = older_than_ms ? semel_store_now(&now, store, err) : SEMEL_OK;
    if (status)
        return status;
    if (older_than_ms && older_than_ms < (uint64_t)now)
        t.cutoff_ms = now - (int64_t)older_than_ms;
    status = operate_change(store, SEMEL_BEGIN_RELAXED, trim_rows, &t, err);
    if (status)
        return status;
    if (removed)
        *removed = t.removed;
    if (more)
        *more = t.removed >= t.limit;
    return SEMEL_OK;
}

semel_status semel_history_size(uint64_t *rows, int64_t *oldest_ms, semel_store *store,
                                semel_error *err)
{
    int64_t first = 0, last = 0, at_ms = 0;
    if (!store_history(store)->bounds)
        return refuse(store, err);
    semel_status status = store_history(store)->bounds(store->state, &first, &last, &at_ms, err);
    if (status)
        return status;
    *rows = last ? (uint64_t)(last - first) + 1 : 0;
    *oldest_ms = at_ms;
    return SEMEL_OK;
}
