/* Key functions: they are given more room when they ask for it, and a function that fails, or gives
 * no key, makes a missing key. */
#include "core/key.h"
#include "support/fixture/fixture.h"

typedef struct maker {
    size_t len; /* of the key it makes, all 'k' */
    size_t calls;
    size_t capacity; /* it was given last */
    semel_status fails;
    size_t claims; /* says it wrote so many, whatever it did */
} maker;

static semel_status make_key(void *key, size_t capacity, size_t *len, const semel_message *message,
                             void *context, semel_error *err)
{
    maker *self = context;
    (void)message;
    (void)err;
    self->calls++;
    self->capacity = capacity;
    *len = self->claims ? self->claims : self->len;
    if (self->fails)
        return self->fails;
    if (self->len > capacity)
        return SEMEL_ELIMIT;
    memset(key, 'k', self->len);
    return SEMEL_OK;
}

static semel_inbox *inbox_with_maker(fixture *f, maker *self)
{
    semel_inbox_options options = {
        .size = sizeof options, .key_function = make_key, .key_context = self};
    return fixture_inbox(f, "made", &options);
}

static void a_callback_makes_the_key(void **state)
{
    maker self = {.len = 5};
    semel_message message = text_message("1", "a");
    char key[8] = "";
    size_t len;
    OK(semel_inbox_key(key, sizeof key, &len, inbox_with_maker(*state, &self), &message,
                       &last_error));
    assert_int_equal(len, 5);
    assert_string_equal(key, "kkkkk");
    assert_int_equal(self.calls, 1);
}

static void a_callback_that_needs_more_room_is_called_again(void **state)
{
    maker self = {.len = 1000};
    semel_message message = text_message("1", "a");
    char key[8];
    size_t len;
    OK(semel_inbox_key(key, sizeof key, &len, inbox_with_maker(*state, &self), &message,
                       &last_error));
    assert_int_equal(len, 1000);
    assert_int_equal(self.calls, 2);
    assert_int_equal(self.capacity, 1000);
}

static void a_callback_without_end_is_refused(void **state)
{
    maker self = {.len = KEY_COMPUTED_MAX + 1};
    semel_message message = text_message("1", "a");
    scripted_handler w = {0};
    RECEIVES(SEMEL_EREJECTED, SEMEL_MISSING_KEY, inbox_with_maker(*state, &self), &message, &w);
    assert_int_equal(self.calls, 1);
    self = (maker){.fails = SEMEL_ELIMIT, .claims = 10}; /* it had that much room */
    RECEIVES(SEMEL_EREJECTED, SEMEL_MISSING_KEY, inbox_with_maker(*state, &self), &message, &w);
    assert_int_equal(self.calls, 1);
    assert_int_equal(w.runs, 0);
}

static void a_callback_without_a_key_is_a_missing_key(void **state)
{
    maker self = {.len = 0};
    semel_message message = text_message("1", "a");
    scripted_handler w = {0};
    RECEIVES(SEMEL_EREJECTED, SEMEL_MISSING_KEY, inbox_with_maker(*state, &self), &message, &w);
    assert_int_equal(w.runs, 0);
}

/* It need not fill the error: the status is enough, as for handlers. */
static void a_callback_that_fails_is_a_missing_key(void **state)
{
    maker self = {.fails = SEMEL_EHANDLER};
    semel_message message = text_message("1", "a");
    const semel_message *const both[] = {&message, &message};
    semel_inbox *inbox = inbox_with_maker(*state, &self);
    semel_outcome out[2];
    scripted_handler w = {0};
    RECEIVES(SEMEL_EREJECTED, SEMEL_MISSING_KEY, inbox, &message, &w);
    SAYS("the key function failed");
    OK(semel_inbox_receive_batch(out, inbox, both, 2, scripted_handler_run, &w, &last_error));
    OUTCOME(SEMEL_MISSING_KEY, out[0]);
    OUTCOME(SEMEL_MISSING_KEY, out[1]);
    assert_int_equal(w.runs, 0);
}

static void a_callback_without_memory_decides_nothing(void **state)
{
    maker self = {.fails = SEMEL_ENOMEM};
    semel_message message = text_message("1", "a");
    scripted_handler w = {0};
    RECEIVES(SEMEL_ENOMEM, SEMEL_UNDECIDED, inbox_with_maker(*state, &self), &message, &w);
    assert_int_equal(w.runs, 0);
}

static void a_callback_that_lies_about_its_length_is_caught(void **state)
{
    maker self = {.len = 1, .claims = 100000};
    semel_message message = text_message("1", "a");
    scripted_handler w = {0};
    RECEIVES(SEMEL_EREJECTED, SEMEL_MISSING_KEY, inbox_with_maker(*state, &self), &message, &w);
    SAYS("reports 100000 bytes in a room of 255");
}

static void a_callback_and_an_expression_exclude_each_other(void **state)
{
    fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .key = "id", .key_function = make_key};
    semel_inbox *inbox = NULL;
    FAILS(SEMEL_EINVAL, semel_inbox_open(&inbox, f->store, "made", &options, &last_error));
    SAYS("not both");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_MEMORY("a callback makes the key", a_callback_makes_the_key),
        ON_MEMORY("a callback that needs more room is called again",
                  a_callback_that_needs_more_room_is_called_again),
        ON_MEMORY("a callback that asks without end is refused", a_callback_without_end_is_refused),
        ON_MEMORY("a callback without a key is a missing key",
                  a_callback_without_a_key_is_a_missing_key),
        ON_MEMORY("a callback that fails is a missing key", a_callback_that_fails_is_a_missing_key),
        ON_MEMORY("a callback without memory decides nothing",
                  a_callback_without_memory_decides_nothing),
        ON_MEMORY("a callback that lies about its length is caught",
                  a_callback_that_lies_about_its_length_is_caught),
        ON_MEMORY("a callback and an expression exclude each other",
                  a_callback_and_an_expression_exclude_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
