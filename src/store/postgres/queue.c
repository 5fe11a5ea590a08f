/* The application's queued statements: prepared when seen for the first time and kept by their text, the least
 * recently used giving way. Values go as text, whose type the server infers from where they stand, but for bytes,
 * which go as they are. */
#include "store/postgres/connection.h"

#include <stdio.h>
#include <string.h>

static void name_of(char name[24], unsigned number)
{
    (void)snprintf(name, 24, "semel_q%u", number);
}

static kept_statement *find(connection *on, const char *text)
{
    for (int i = 0; i < KEPT_STATEMENTS; i++)
        if (on->kept[i].text && strcmp(on->kept[i].text, text) == 0)
            return &on->kept[i];
    return NULL;
}

static kept_statement *least_used(connection *on)
{
    kept_statement *least = &on->kept[0];
    for (int i = 1; i < KEPT_STATEMENTS; i++)
        if (on->kept[i].used < least->used)
            least = &on->kept[i];
    return least;
}

void application_forget(connection *on, unsigned number)
{
    for (int i = 0; i < KEPT_STATEMENTS; i++)
        if (on->kept[i].text && on->kept[i].number == number) {
            mem_free(on->kept[i].text);
            on->kept[i] = (kept_statement){0};
        }
}

void application_distrust(connection *on, unsigned number)
{
    for (int i = 0; i < KEPT_STATEMENTS; i++)
        if (on->kept[i].text && on->kept[i].number == number)
            on->kept[i].distrusted = 1;
}

static void deallocate(connection *on, const kept_statement *old)
{
    char text[48];
    (void)snprintf(text, sizeof text, "DEALLOCATE semel_q%u", old->number);
    connection_step(on, &(step){.kind = STEP_PLAIN, .which = ST_APPLICATIONS},
                    PQsendQueryParams(on->pg, text, 0, NULL, NULL, NULL, NULL, 1));
}

/* The place where it is kept, prepared by a step on its way; NULL if it is not worth keeping. */
static kept_statement *keep(connection *on, const char *text, kept_statement *place)
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
    *place = (kept_statement){.text = copy, .number = ++on->kept_numbers};
    name_of(name, place->number);
    connection_step(
        on, &(step){.kind = STEP_PREPARE, .which = ST_APPLICATIONS, .number = place->number},
        PQsendPrepare(on->pg, name, text, 0, NULL));
    return place;
}

/* With a point, whatever the locale has. */
static void print_real(char *out, size_t room, double real)
{
    (void)snprintf(out, room, "%.17g", real);
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

typedef struct bound {
    const char **values;
    int *lengths;
    int *formats;
} bound;

static int bind(bound *out, const semel_value values[], size_t count, mem_arena *arena)
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

semel_status application_send(connection *on, const char *text, const semel_value values[],
                              size_t count, mem_arena *arena, semel_error *err)
{
    char name[24];
    bound b;
    if (has_nul(values, count))
        return semel_fail(err, SEMEL_EINVAL,
                          "a queued statement has a text with a NUL in it, which PostgreSQL does "
                          "not take: give it as bytes");
    if (!bind(&b, values, count, arena))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a queued statement");
    if (!connection_pipe(on))
        return SEMEL_OK; /* told by the next wait */
    kept_statement *kept = find(on, text);
    int reused = kept && !kept->distrusted;
    if (!reused)
        kept = keep(on, text, kept ? kept : least_used(on));
    if (kept) {
        kept->used = ++on->kept_uses;
        name_of(name, kept->number);
    }
    int sent =
        kept ? PQsendQueryPrepared(on->pg, name, (int)count, b.values, b.lengths, b.formats, 1)
             : PQsendQueryParams(on->pg, text, (int)count, NULL, b.values, b.lengths, b.formats, 1);
    connection_step(on,
                    &(step){.kind = STEP_QUEUED,
                            .which = ST_APPLICATIONS,
                            .number = kept ? kept->number : 0,
                            .reused = reused},
                    sent);
    return SEMEL_OK;
}
