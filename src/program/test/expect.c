/* See expect.h. */
#include "program/test/expect.h"

#include "program/config/tree.h"

#include <string.h>

enum { LABEL_WIDTH = 8 };

static void add_label(buffer *to, const char *label)
{
    buffer_printf(to, "      %-*s  ", LABEL_WIDTH, label);
}

/* --- inboxes ---------------------------------------------------------------------------------- */

static const inbox_config *find_inbox(const config *all, const char *name, size_t *index)
{
    for (size_t i = 0; i < all->inbox_count; i++)
        if (strcmp(all->inboxes[i].name, name) == 0) {
            *index = i;
            return &all->inboxes[i];
        }
    return NULL;
}

static int outcomes_match(const world_inbox *got, const config_list *words)
{
    if (got->count != words->count || got->count > WORLD_OUTCOMES_MAX)
        return 0;
    for (size_t i = 0; i < got->count; i++)
        if (strcmp(semel_outcome_name(got->outcomes[i]), words->items[i]) != 0)
            return 0;
    return 1;
}

static void add_words(buffer *to, const config_list *words)
{
    for (size_t i = 0; i < words->count; i++)
        buffer_printf(to, "%s%s", i ? ", " : "", words->items[i]);
    if (!words->count)
        buffer_text(to, "nothing");
}

static void add_outcomes(buffer *to, const world_inbox *got)
{
    for (size_t i = 0; i < got->count && i < WORLD_OUTCOMES_MAX; i++)
        buffer_printf(to, "%s%s", i ? ", " : "", semel_outcome_name(got->outcomes[i]));
    if (got->count > WORLD_OUTCOMES_MAX)
        buffer_text(to, ", ...");
}

/* The most common mistake: no message of the test is one that the inbox takes. */
static void add_reason(buffer *to, const inbox_config *inbox, const test_config *test)
{
    for (size_t i = 0; i < test->given_count; i++)
        if (!inbox->from || strcmp(test->given[i].to, inbox->from) != 0)
            continue;
        else if (inbox->types.count && test->given[i].type) {
            buffer_printf(to, ": inbox accepts %s, not %s", inbox->types.items[0],
                          test->given[i].type);
            return;
        }
}

static void expect_inbox(buffer *to, const world *w, const config *all, const test_config *test,
                         const test_words *expected)
{
    size_t index = 0;
    const inbox_config *inbox = find_inbox(all, expected->inbox, &index);
    const world_inbox *got = inbox ? world_outcomes(w, index) : NULL;
    if (!got || outcomes_match(got, &expected->words))
        return;
    add_label(to, expected->inbox);
    buffer_text(to, "expected ");
    add_words(to, &expected->words);
    buffer_text(to, "; got ");
    add_outcomes(to, got);
    if (!got->count) {
        buffer_text(to, "nothing");
        add_reason(to, inbox, test);
    }
    buffer_text(to, "\n");
}

/* --- the rest --------------------------------------------------------------------------------- */

static void expect_sent(buffer *to, const world *w, const test_number *expected)
{
    buffer got = {0};
    buffer_printf(&got, "%llu", (unsigned long long)world_sent(w, expected->name));
    if (strcmp(got.data, expected->value->text) != 0) {
        add_label(to, "sent");
        buffer_printf(to, "to %s: expected %s, got %s\n", expected->name, expected->value->text,
                      got.data);
    }
    buffer_free(&got);
}

static void expect_sql(buffer *to, const world *w, const test_number *expected)
{
    buffer got = {0};
    semel_error why;
    if (world_query(w, &got, expected->name, &why)) {
        add_label(to, "sql");
        buffer_printf(to, "%s: %s\n", expected->name, why.text);
    } else if (strcmp(got.data, expected->value->text) != 0) {
        add_label(to, "sql");
        buffer_printf(to, "%s: expected %s, got %s\n", expected->name, expected->value->text,
                      *got.data ? got.data : "nothing");
    }
    buffer_free(&got);
}

semel_status expect_lasting(buffer *differences, const world *w, const test_config *test,
                            semel_error *err)
{
    uint64_t dead = 0;
    for (size_t i = 0; i < test->sql_count; i++)
        expect_sql(differences, w, &test->sql[i]);
    if (test->dead < 0)
        return SEMEL_OK;
    semel_status status = world_dead(w, &dead, err);
    if (!status && dead != (uint64_t)test->dead) {
        add_label(differences, "dead");
        buffer_printf(differences, "expected %lld dead letters, got %llu\n", (long long)test->dead,
                      (unsigned long long)dead);
    }
    return status;
}

semel_status expect_all(buffer *differences, const world *w, const config *all,
                        const test_config *test, semel_error *err)
{
    for (size_t i = 0; i < test->inbox_count; i++)
        expect_inbox(differences, w, all, test, &test->inboxes[i]);
    for (size_t i = 0; i < test->sent_count; i++)
        expect_sent(differences, w, &test->sent[i]);
    return expect_lasting(differences, w, test, err);
}

/* --- summary ---------------------------------------------------------------------------------- */

static int is_named(const test_config *test, const char *inbox)
{
    for (size_t i = 0; i < test->inbox_count; i++)
        if (strcmp(test->inboxes[i].inbox, inbox) == 0)
            return 1;
    return !test->inbox_count;
}

static size_t count_outcome(const world *w, const config *all, const test_config *test,
                            semel_outcome wanted)
{
    size_t count = 0;
    for (size_t i = 0; i < all->inbox_count; i++) {
        const world_inbox *got = world_outcomes(w, i);
        for (size_t j = 0; is_named(test, all->inboxes[i].name) && j < got->count; j++)
            count += j < WORLD_OUTCOMES_MAX && got->outcomes[j] == wanted;
    }
    return count;
}

void expect_summary(buffer *to, const world *w, const config *all, const test_config *test)
{
    static const struct {
        semel_outcome outcome;
        const char *one, *many;
    } words[] = {{SEMEL_PROCESSED, "processed", "processed"},
                 {SEMEL_DUPLICATE, "duplicate", "duplicates"},
                 {SEMEL_FAILED, "failed", "failed"},
                 {SEMEL_DEAD, "dead", "dead"}};
    int any = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t count = count_outcome(w, all, test, words[i].outcome);
        if (count)
            buffer_printf(to, "%s%zu %s", any++ ? ", " : "", count,
                          count == 1 ? words[i].one : words[i].many);
    }
    if (!any)
        buffer_text(to, "nothing handled");
}
