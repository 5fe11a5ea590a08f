/* Counting outcomes, asking for totals, and reporting them to the store's observer.
 *
 * Without an observer an outcome costs two additions. With one, the library also reads a clock
 * before and after each handler. The report comes when nothing can change the outcome any more,
 * so that a metric never counts what was rolled back afterwards. */
#include "core/unit.h"

#include "base/wait.h"

#include <string.h>

static void inbox_count(semel_inbox *inbox, semel_outcome outcome)
{
    static const tally of[] = {[SEMEL_PROCESSED] = TALLY_PROCESSED,
                               [SEMEL_DUPLICATE] = TALLY_DUPLICATES,
                               [SEMEL_REPLAYED] = TALLY_REPLAYED,
                               [SEMEL_IN_PROGRESS] = TALLY_IN_PROGRESS,
                               [SEMEL_MISMATCH] = TALLY_MISMATCHED,
                               [SEMEL_STALE] = TALLY_STALE,
                               [SEMEL_MISSING_KEY] = TALLY_MISSING_KEY,
                               [SEMEL_FAILED] = TALLY_FAILED,
                               [SEMEL_DEAD] = TALLY_DEAD};
    if (outcome >= SEMEL_PROCESSED && outcome <= SEMEL_DEAD)
        inbox_add(inbox, of[outcome], 1);
}

/* --- totals ----------------------------------------------------------------------------------- */

static void copy_counters(semel_counters *out, size_t size, const tally_set *set)
{
    semel_counters now = {0};
    tally_copy(&now, set);
    memcpy(out, &now, size < sizeof now ? size : sizeof now);
}

void semel_inbox_counters(semel_counters *out, size_t size, const semel_inbox *inbox)
{
    copy_counters(out, size, &inbox->tallies);
}

void semel_outbox_counters(semel_counters *out, size_t size, const semel_outbox *outbox)
{
    copy_counters(out, size, &outbox->tallies);
}

static semel_status ask_stats(semel_stats *out, size_t size, semel_store *store, semel_stats_of of,
                              uint32_t deadline_ms, semel_error *err)
{
    semel_stats now = {0};
    if (!store->driver->stats)
        return semel_fail(err, SEMEL_EUNSUPPORTED, "%s: this store does not count what it holds",
                          store->driver->scheme);
    semel_status status = store->driver->stats(store->state, &of, deadline_ms, &now, err);
    if (!status)
        memcpy(out, &now, size < sizeof now ? size : sizeof now);
    return status;
}

semel_status semel_store_stats(semel_stats *out, size_t size, semel_store *store,
                               uint32_t deadline_ms, semel_error *err)
{
    return ask_stats(out, size, store, (semel_stats_of){0}, deadline_ms, err);
}

semel_status semel_inbox_stats(semel_stats *out, size_t size, semel_inbox *inbox,
                               uint32_t deadline_ms, semel_error *err)
{
    semel_stats_of of = {SEMEL_SCOPE_INBOX, inbox->scope, inbox->name};
    return ask_stats(out, size, inbox->store, of, deadline_ms, err);
}

semel_status semel_outbox_stats(semel_stats *out, size_t size, semel_outbox *outbox,
                                uint32_t deadline_ms, semel_error *err)
{
    semel_stats_of of = {SEMEL_SCOPE_OUTBOX, outbox->scope, outbox->name};
    return ask_stats(out, size, outbox->store, of, deadline_ms, err);
}

/* --- reports ---------------------------------------------------------------------------------- */

/* A duplicate that is rejected is an error of the call only. */
static int is_success(semel_outcome outcome)
{
    return outcome == SEMEL_PROCESSED || outcome == SEMEL_DUPLICATE || outcome == SEMEL_REPLAYED;
}

void inbox_report(semel_inbox *inbox, const semel_event *event)
{
    const semel_store *store = inbox->store;
    if (event->outcome < SEMEL_PROCESSED || event->outcome > SEMEL_DEAD)
        return;
    inbox_count(inbox, event->outcome);
    if (!store->observer)
        return;
    semel_event complete = *event;
    complete.size = sizeof complete;
    complete.kind = SEMEL_EVENT_RECEIVED;
    complete.name = event->name ? event->name : inbox->name;
    if (is_success(event->outcome))
        complete.error = NULL;
    store->observer(store->observer_context, &complete);
}

const char *observe_text(const semel_store *store, mem_arena *arena, const char *text)
{
    return store->observer && *text ? arena_copy(arena, text, strlen(text) + 1) : NULL;
}

/* Was there an attempt? A copy of a dead letter has the same outcome as the last attempt. In queued
 * mode the handler may have run for a copy; in claim mode it has run if the claim is still held. */
static int was_attempted(const unit_item *item, semel_outcome outcome)
{
    return outcome == SEMEL_PROCESSED || outcome == SEMEL_FAILED ||
           (outcome == SEMEL_DEAD && item->failure) ||
           (outcome == SEMEL_IN_PROGRESS && item->handler_ns);
}

uint32_t terms_retry_ms(const unit_terms *terms, semel_outcome outcome,
                        const semel_message *message)
{
    return outcome == SEMEL_FAILED && terms && terms->retry_ms
               ? terms->retry_ms(terms->retry_context, message)
               : 0;
}

void unit_report(const work_unit *unit, semel_inbox *inbox, semel_outcome outcome,
                 const semel_error *err)
{
    const unit_item *item = &unit->item;
    const char *said = err && err->text[0] ? err->text : NULL;
    inbox_report(inbox, &(semel_event){
                            .name = item->kept_as,
                            .message = item->message,
                            .key = item->whole_key,
                            .outcome = outcome,
                            .attempt = was_attempted(item, outcome) ? item->attempt : 0,
                            .handler_ns = item->handler_ns,
                            .error = item->failure ? item->failure : said,
                            .retry_ms = terms_retry_ms(&unit->terms, outcome, item->message),
                            .refused = item->refused,
                            .letter = outcome == SEMEL_DEAD ? item->letter : 0,
                            .started_ns = item->handler_ns ? item->started_ns : 0,
                            .captured = outcome == SEMEL_PROCESSED ? (uint32_t)unit->captured : 0});
}

void outbox_report(semel_outbox *outbox, const semel_event *event)
{
    const semel_store *store = outbox->store;
    if (!store->observer)
        return;
    semel_event complete = *event;
    complete.size = sizeof complete;
    complete.kind = SEMEL_EVENT_SENT;
    complete.name = outbox->name;
    store->observer(store->observer_context, &complete);
}

/* A unit that works for a message has its inbox; other units say what they do. A transaction that
 * was joined has no beginning. */
void unit_report_transaction(work_unit *unit, int is_committed)
{
    const semel_store *store = unit->store;
    semel_operation operation = unit->operation;
    if (!unit->began_ns)
        return;
    if (!operation && unit->item.inbox)
        operation = SEMEL_OPERATION_RECEIVE;
    const semel_transaction_end end = {.size = sizeof end,
                                       .operation = operation,
                                       .is_committed = is_committed,
                                       .took_ns = wait_clock_ns() - unit->began_ns};
    unit->began_ns = 0;
    store->transactions(store->observer_context, &end);
}

int64_t observe_start(const semel_store *store)
{
    return store->observer || store->tracing.start || store->tracing.transfer ? wait_clock_ns() : 0;
}

/* At least 1: zero says that no handler ran. */
int64_t observe_since(const semel_store *store, int64_t started_ns)
{
    int64_t took = store->observer ? wait_clock_ns() - started_ns : 0;
    return store->observer && took < 1 ? 1 : took;
}

/* --- for tracing ------------------------------------------------------------------------------ */

void unit_announce(work_unit *unit, const semel_message *message)
{
    const semel_tracing *tracing = &unit->store->tracing;
    unit_item *item = &unit->item;
    item->traceparent[0] = '\0';
    if (!tracing->start)
        return;
    tracing->start(tracing->context,
                   &(semel_start){.size = sizeof(semel_start),
                                  .name = item->inbox ? item->inbox->name : "",
                                  .message = message,
                                  .key = item->whole_key,
                                  .attempt = item->attempt,
                                  .started_ns = item->started_ns},
                   item->traceparent);
    item->traceparent[SEMEL_TRACEPARENT_SIZE - 1] = '\0';
}

void transfer_report(const semel_store *store, const semel_transfer *transfer)
{
    semel_transfer complete = *transfer;
    complete.size = sizeof complete;
    complete.took_ns = wait_clock_ns() - transfer->started_ns;
    store->tracing.transfer(store->tracing.context, &complete);
}
