/* The application's queued statements: prepared when seen for the first time and kept by their
 * text, the least recently used giving way. Values go as text, whose type the server infers from
 * where they stand, but for bytes, which go as they are. */
#include "store/postgres/connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void name_of_kept(char name[24], unsigned number)
{
    (void)snprintf(name, 24, "semel_q%u", number);
}

static pg_kept_statement *find_kept(pg_connection *on, const char *text)
{
    for (int i = 0; i < KEPT_STATEMENTS; i++)
        if (on->kept[i].text && strcmp(on->kept[i].text, text) == 0)
            return &on->kept[i];
    return NULL;
}

static pg_kept_statement *least_used(pg_connection *on)
{
    pg_kept_statement *least = &on->kept[0];
    for (int i = 1; i < KEPT_STATEMENTS; i++)
        if (on->kept[i].used < least->used)
            least = &on->kept[i];
    return least;
}

void pg_queued_forget(pg_connection *on, unsigned number)
{
    for (int i = 0; i < KEPT_STATEMENTS; i++)
        if (on->kept[i].text && on->kept[i].number == number) {
            mem_free(on->kept[i].text);
            on->kept[i] = (pg_kept_statement){0};
        }
}

void pg_queued_distrust(pg_connection *on, unsigned number)
{
    for (int i = 0; i < KEPT_STATEMENTS; i++)
        if (on->kept[i].text && on->kept[i].number == number)
            on->kept[i].distrusted = 1;
}

static void deallocate(pg_connection *on, const pg_kept_statement *old)
{
    char text[48];
    (void)snprintf(text, sizeof text, "DEALLOCATE semel_q%u", old->number);
    pg_connection_add_step(on, &(pg_step){.kind = STEP_PLAIN, .which = ST_APPLICATIONS},
                           PQsendQueryParams(on->pg, text, 0, NULL, NULL, NULL, NULL, 1));
}

/* The place where it is kept, prepared by a step on its way; NULL if it is not worth keeping. */
static pg_kept_statement *prepare_kept(pg_connection *on, const char *text,
                                       pg_kept_statement *place)
{
    char name[24];
    size_t len = strlen(text);
    char *copy = on->named && len <= KEPT_TEXT_MAX ? mem_alloc(len + 1) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, text, len + 1);
    if (place->text)
        deallocate(on, place);
    mem_free(place->text);
    *place = (pg_kept_statement){.text = copy, .number = ++on->kept_numbers};
    name_of_kept(name, place->number);
    pg_connection_add_step(
        on, &(pg_step){.kind = STEP_PREPARE, .which = ST_APPLICATIONS, .number = place->number},
        PQsendPrepare(on->pg, name, text, 0, NULL));
    return place;
}

/* The shortest text that is this number and no other: a NUMERIC keeps what it is given, and is to
 * keep 12.34, not 12.339999999999999. With a point, whatever the locale has. */
static void print_real(char *out, size_t room, double real)
{
    int digits = 15;
    do
        (void)snprintf(out, room, "%.*g", digits, real);
    while (strtod(out, NULL) != real && ++digits <= 17);
    char *comma = strchr(out, ',');
    if (comma)
        *comma = '.';
}

static int has_nul(const semel_value values[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (values[i].kind == SEMEL_VALUE_TEXT && values[i].bytes.len &&
            memchr(values[i].bytes.data, 0, values[i].bytes.len))
            return 1;
    return 0;
}

typedef struct bound_values {
    const char **values;
    int *lengths;
    int *formats;
} bound_values;

static int bind_values(bound_values *out, const semel_value values[], size_t count,
                       mem_arena *arena)
{
    enum { NUMBER_TEXT = 32 };
    out->values = arena_alloc(arena, (count + 1) * sizeof *out->values);
    out->lengths = arena_alloc(arena, (count + 1) * sizeof *out->lengths);
    out->formats = arena_alloc(arena, (count + 1) * sizeof *out->formats);
    if (!out->values || !out->lengths || !out->formats)
        return 0;
    for (size_t i = 0; i < count; i++) {
        const semel_value *value = &values[i];
        char *text = NULL;
        if (value->kind == SEMEL_VALUE_INT || value->kind == SEMEL_VALUE_REAL)
            text = arena_alloc(arena, NUMBER_TEXT);
        else if (value->kind != SEMEL_VALUE_NULL)
            text = arena_copy(arena, value->bytes.data, value->bytes.len);
        if (!text && value->kind != SEMEL_VALUE_NULL)
            return 0;
        if (value->kind == SEMEL_VALUE_INT)
            (void)snprintf(text, NUMBER_TEXT, "%lld", (long long)value->integer);
        else if (value->kind == SEMEL_VALUE_REAL)
            print_real(text, NUMBER_TEXT, value->real);
        out->values[i] = text;
        out->lengths[i] = (int)value->bytes.len;
        out->formats[i] = value->kind == SEMEL_VALUE_BYTES;
    }
    return 1;
}

semel_status pg_enqueue_queued(pg_connection *on, const char *text, const semel_value values[],
                               size_t count, mem_arena *arena, semel_error *err)
{
    char name[24];
    bound_values b;
    if (has_nul(values, count))
        return semel_fail(err, SEMEL_EINVAL,
                          "a queued statement has a text with a NUL in it, which PostgreSQL does "
                          "not take: give it as bytes");
    if (!bind_values(&b, values, count, arena))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a queued statement");
    if (!pg_connection_enter_pipeline(on))
        return SEMEL_OK; /* the next flush reports it */
    pg_kept_statement *kept = find_kept(on, text);
    int reused = kept && !kept->distrusted;
    if (!reused)
        kept = prepare_kept(on, text, kept ? kept : least_used(on));
    if (kept) {
        kept->used = ++on->kept_uses;
        name_of_kept(name, kept->number);
    }
    int sent =
        kept ? PQsendQueryPrepared(on->pg, name, (int)count, b.values, b.lengths, b.formats, 1)
             : PQsendQueryParams(on->pg, text, (int)count, NULL, b.values, b.lengths, b.formats, 1);
    pg_connection_add_step(on,
                           &(pg_step){.kind = STEP_QUEUED,
                                      .which = ST_APPLICATIONS,
                                      .number = kept ? kept->number : 0,
                                      .reused = reused},
                           sent);
    return SEMEL_OK;
}

/* Under the name that is the empty text: the next statement without a name replaces it. */
void pg_enqueue_check(pg_connection *on, const char *text)
{
    if (pg_connection_enter_pipeline(on))
        pg_connection_add_step(on, &(pg_step){.kind = STEP_CHECK, .which = ST_APPLICATIONS},
                               PQsendPrepare(on->pg, "", text, 0, NULL));
}
