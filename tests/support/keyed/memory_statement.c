/* Statements of the application in the memory adapter: counters that grow and shrink. */
#include "support/keyed/memory_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum verb { ADD, TAKE, FAIL } verb;

typedef struct parsed {
    verb verb;
    char name[MEMORY_NAME_MAX];
    int64_t number;
} parsed;

static semel_status name_of(parsed *out, const semel_value *value, semel_error *err)
{
    if (value->kind != SEMEL_VALUE_TEXT || value->bytes.len >= sizeof out->name)
        return semel_fail(err, SEMEL_EINVAL, "the name of a counter is a short text");
    memcpy(out->name, value->bytes.data, value->bytes.len);
    out->name[value->bytes.len] = '\0';
    return SEMEL_OK;
}

static semel_status parse(parsed *out, const char *statement, const semel_value values[],
                          size_t count, semel_error *err)
{
    char word[8] = "", name[MEMORY_NAME_MAX] = "", number[4] = "", more[2] = "";
    *out = (parsed){.verb = FAIL};
    int words = sscanf(statement, "%7s %63s %3s %1s", word, name, number, more);
    if (words == 1 && !strcmp(word, "fail"))
        return count ? semel_fail(err, SEMEL_EINVAL, "\"fail\" takes no value") : SEMEL_OK;
    if (words != 3 || (strcmp(word, "add") && strcmp(word, "take")) || strcmp(number, "?"))
        return semel_fail(err, SEMEL_EINVAL, "no statement of this database: %s", statement);
    int named = strcmp(name, "?");
    if (count != (named ? 1u : 2u))
        return semel_fail(err, SEMEL_EINVAL, "the statement does not take %zu values", count);
    out->verb = strcmp(word, "add") ? TAKE : ADD;
    if (named)
        (void)snprintf(out->name, sizeof out->name, "%s", name);
    else if (name_of(out, &values[0], err))
        return SEMEL_EINVAL;
    if (values[count - 1].kind != SEMEL_VALUE_INT)
        return semel_fail(err, SEMEL_EINVAL, "a counter takes an integer");
    out->number = values[count - 1].integer;
    return SEMEL_OK;
}

semel_status memory_queue(void *store, const char *statement, const semel_value values[],
                          size_t count, semel_error *err)
{
    parsed ignored;
    (void)store;
    return parse(&ignored, statement, values, count, err);
}

static memory_counter *counter_of(keyed_memory *memory, const char *name)
{
    for (memory_counter *at = memory->counters; at; at = at->next)
        if (!strcmp(at->name, name))
            return at;
    return NULL;
}

/* Statements are run one after the other, so one that takes sees what those before it added. */
static int64_t number_before(keyed_memory *memory, const semel_keyed_change changes[], size_t end,
                             const char *name)
{
    const memory_counter *counter = counter_of(memory, name);
    int64_t number = counter ? counter->number : 0;
    for (size_t i = 0; i < end; i++) {
        parsed p;
        if (changes[i].kind == SEMEL_KEYED_FOREIGN &&
            !parse(&p, changes[i].statement, changes[i].values, changes[i].count, NULL) &&
            !strcmp(p.name, name))
            number += p.verb == ADD ? p.number : -p.number;
    }
    return number;
}

semel_status memory_statement_try(keyed_memory *memory, const semel_keyed_change changes[],
                                  size_t count, semel_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const semel_keyed_change *change = &changes[i];
        parsed p;
        if (change->kind != SEMEL_KEYED_FOREIGN)
            continue;
        if (parse(&p, change->statement, change->values, change->count, err))
            return semel_fail(err, SEMEL_EHANDLER, "not a statement: %s", change->statement);
        if (p.verb == FAIL)
            return semel_fail(err, SEMEL_EHANDLER, "the statement \"fail\" failed");
        if (p.verb == TAKE && number_before(memory, changes, i, p.name) < p.number)
            return semel_fail(err, SEMEL_EHANDLER, "the counter %s would fall below 0", p.name);
    }
    return SEMEL_OK;
}

void memory_statement_run(keyed_memory *memory, const semel_keyed_change *change)
{
    parsed p;
    if (parse(&p, change->statement, change->values, change->count, NULL) || p.verb == FAIL)
        abort(); /* they were tried before */
    memory_counter *counter = counter_of(memory, p.name);
    if (!counter) {
        counter = memory_must(calloc(1, sizeof *counter));
        memcpy(counter->name, p.name, sizeof p.name);
        counter->next = memory->counters;
        memory->counters = counter;
    }
    counter->number += p.verb == ADD ? p.number : -p.number;
}

int64_t keyed_memory_counter(keyed_memory *memory, const char *name)
{
    (void)pthread_mutex_lock(&memory->lock);
    const memory_counter *counter = counter_of(memory, name);
    int64_t number = counter ? counter->number : 0;
    (void)pthread_mutex_unlock(&memory->lock);
    return number;
}
