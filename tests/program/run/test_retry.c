/* One more attempt at a dead letter: what becomes of its state when the store cannot be told. */
#include "program/run/retry.h"

#include "support/base/check.h"

#include <semel/semel.h>
#include <semel/test.h>

typedef struct retry_case {
    semel_test_seam *seam;
    semel_store *store;
    semel_pipeline *pipeline;
    semel_pipeline_store stores[2];
    semel_inbox_options options;
    semel_pipeline_inbox inboxes[2];
    semel_pipeline_spec spec;
    retry_place place;
    int is_away; /* the store, when the handler has ended */
    semel_status answer;
} retry_case;

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    retry_case *c = context;
    (void)unit;
    (void)message;
    if (c->is_away)
        semel_test_fault(c->seam, "retry.stored", 1, SEMEL_ESTORE);
    return semel_fail(err, c->answer, "not now");
}

static void open_case(retry_case *c)
{
    static const semel_pipeline_queue queues[] = {{.name = "bills"}, {0}};
    OK(semel_test_seam_open(&c->seam, 1, &last_error));
    const semel_store_options options = {.size = sizeof options,
                                         .seam = semel_test_seam_get(c->seam)};
    OK(semel_store_open(&c->store, "memory:", &options, &last_error));
    c->options = (semel_inbox_options){.size = sizeof c->options, .attempts_max = 1};
    c->stores[0] = (semel_pipeline_store){.name = "shop", .opened = c->store};
    c->inboxes[0] = (semel_pipeline_inbox){.name = "invoices",
                                           .from = "bills",
                                           .handler = handle,
                                           .context = c,
                                           .options = &c->options};
    c->spec = (semel_pipeline_spec){
        .size = sizeof c->spec, .stores = c->stores, .queues = queues, .inboxes = c->inboxes};
    OK(semel_pipeline_open(&c->pipeline, &c->spec, &last_error));
    c->place = (retry_place){.store = c->store, .pipeline = c->pipeline, .spec = &c->spec};
}

static void close_case(retry_case *c)
{
    semel_pipeline_close(c->pipeline);
    semel_store_close(c->store);
    semel_test_seam_close(c->seam);
}

static semel_status keep_letter(const semel_dead *dead, void *context, semel_error *err)
{
    retry_letter *letter = context;
    (void)err;
    *letter = retry_letter_of(dead);
    return SEMEL_OK;
}

static semel_status keep_state(const semel_dead *dead, void *context, semel_error *err)
{
    (void)err;
    *(int *)context = dead->retry;
    return SEMEL_OK;
}

static int state_of_letter(retry_case *c)
{
    int state = -1;
    OK(semel_dead_list(c->store, NULL, keep_state, &state, &last_error));
    return state;
}

/* The only letter, for which a retry is asked. */
static retry_letter make_letter(retry_case *c)
{
    semel_message message = {.size = sizeof message, .id = semel_str("m-1")};
    semel_outcome outcome = SEMEL_UNDECIDED;
    retry_letter letter = {0};
    c->answer = SEMEL_EGIVEUP;
    (void)semel_inbox_receive(&outcome, semel_pipeline_find_inbox(c->pipeline, "invoices"),
                              &message, handle, c, &last_error);
    assert_int_equal(outcome, SEMEL_DEAD);
    OK(semel_dead_list(c->store, NULL, keep_letter, &letter, &last_error));
    OK(semel_dead_set_retry(c->store, letter.id, SEMEL_RETRY_NONE, SEMEL_RETRY_ASKED, NULL,
                            &last_error));
    return letter;
}

static void a_retry_that_is_put_off_is_asked_for_again(void **state)
{
    retry_case c = {0};
    retry_end end;
    (void)state;
    open_case(&c);
    retry_letter letter = make_letter(&c);
    c.answer = SEMEL_ESTOPPED;
    OK(retry_run(&end, &c.place, &letter, &last_error));
    assert_int_equal(end, RETRY_END_POSTPONED);
    assert_int_equal(state_of_letter(&c), SEMEL_RETRY_ASKED);
    close_case(&c);
}

/* It stays as begun, and the caller notes it later. */
static void a_retry_that_could_not_be_put_off_is_kept_as_a_failure(void **state)
{
    retry_case c = {0};
    retry_end end;
    (void)state;
    open_case(&c);
    retry_letter letter = make_letter(&c);
    c.answer = SEMEL_ESTOPPED;
    c.is_away = 1;
    OK(retry_run(&end, &c.place, &letter, &last_error));
    assert_int_equal(end, RETRY_END_UNNOTED);
    assert_int_equal(state_of_letter(&c), SEMEL_RETRY_BEGUN);
    OK(retry_note(&end, &c.place, letter.id, "not now", &last_error));
    assert_int_equal(end, RETRY_END_FAILED);
    assert_int_equal(state_of_letter(&c), SEMEL_RETRY_FAILED);
    close_case(&c);
}

/* Neither is it processed if it was asked for again; it is if it is gone. */
static void a_letter_that_is_there_was_not_processed(void **state)
{
    retry_case c = {0};
    retry_end end;
    (void)state;
    open_case(&c);
    retry_letter letter = make_letter(&c);
    OK(retry_note(&end, &c.place, letter.id, "not now", &last_error));
    assert_int_equal(end, RETRY_END_OTHERS);
    assert_int_equal(state_of_letter(&c), SEMEL_RETRY_ASKED);
    OK(semel_dead_discard(c.store, letter.id, SEMEL_DISCARD_KEEP_DEAD, &last_error));
    OK(retry_note(&end, &c.place, letter.id, "not now", &last_error));
    assert_int_equal(end, RETRY_END_PROCESSED);
    close_case(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_retry_that_is_put_off_is_asked_for_again),
        cmocka_unit_test(a_retry_that_could_not_be_put_off_is_kept_as_a_failure),
        cmocka_unit_test(a_letter_that_is_there_was_not_processed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
