/* See summary.h. */
#include "program/config/summary.h"

#include "program/config/complete.h"
#include "program/config/inboxes.h"

#include <json-c/json.h>
#include <string.h>

semel_grade summary_grade(const config *all, const inbox_config *inbox)
{
    const char *url = all->store_url;
    if (strncmp(url, "memory:", 7) == 0)
        return SEMEL_GRADE_AT_LEAST_ONCE;
    if (inbox->options.mode == SEMEL_CLAIM)
        return SEMEL_GRADE_EFFECTIVELY_ONCE;
    int is_weaker = strncmp(url, "sqlite:", 7) == 0 && strstr(url, "synchronous=") &&
                    !strstr(url, "synchronous=full") && !strstr(url, "synchronous=extra");
    return is_weaker ? SEMEL_GRADE_EXCEPT_POWER_LOSS : SEMEL_GRADE_EXACTLY_ONCE_EFFECTS;
}

/* An option as it was written, or its default. */
static const char *written(region *memory, const config *all, const inbox_config *inbox,
                           const char *name)
{
    const config_node *node = inboxes_find(memory, all, inbox->name, name);
    return node && node->kind == NODE_SCALAR ? node->raw
                                             : option_find(&section_inbox, name)->fallback;
}

/* --- text ------------------------------------------------------------------------------------- */

enum { COLUMNS = 4 };

typedef struct route_line {
    const char *column[COLUMNS];
} route_line;

static const char *describe_memory(region *memory, const config *all, const inbox_config *inbox)
{
    if (inbox->options.remember == SEMEL_REMEMBER_POSITIONS)
        return "once per position";
    return region_printf(memory, "once per %s, retention %s", written(memory, all, inbox, "key"),
                         written(memory, all, inbox, "retention"));
}

static route_line line_of(region *memory, const config *all, const inbox_config *inbox)
{
    return (route_line){
        {region_printf(memory, "%s -> %s", config_inbox_from(all, inbox), inbox->name),
         config_handler_name(inbox), describe_memory(memory, all, inbox),
         semel_grade_name(summary_grade(all, inbox))}};
}

static void print_lines(FILE *out, const route_line *lines, size_t count)
{
    int width[COLUMNS] = {0};
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j + 1 < COLUMNS; j++)
            if ((int)strlen(lines[i].column[j]) > width[j])
                width[j] = (int)strlen(lines[i].column[j]);
    for (size_t i = 0; i < count; i++)
        (void)fprintf(out, "%-*s  %-*s  %-*s  %s\n", width[0], lines[i].column[0], width[1],
                      lines[i].column[1], width[2], lines[i].column[2], lines[i].column[3]);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void put(json_object *object, const char *name, const char *text)
{
    (void)json_object_object_add(object, name, json_object_new_string(text));
}

static void print_json(FILE *out, region *memory, const config *all, const inbox_config *inbox)
{
    json_object *object = json_object_new_object();
    put(object, "inbox", inbox->name);
    put(object, "from", config_inbox_from(all, inbox));
    put(object, "handler", config_handler_name(inbox));
    put(object, "key", written(memory, all, inbox, "key"));
    (void)json_object_object_add(object, "retention_ms",
                                 inbox->options.retention_ms == SEMEL_RETENTION_FOREVER
                                     ? NULL
                                     : json_object_new_uint64(inbox->options.retention_ms));
    put(object, "grade", semel_grade_name(summary_grade(all, inbox)));
    (void)fprintf(out, "%s\n",
                  json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN |
                                                             JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(object);
}

/* --- all -------------------------------------------------------------------------------------- */

void summary_routes(FILE *out, const config *all, int json)
{
    region memory = {0};
    route_line *lines = region_alloc(&memory, (all->inbox_count + 1) * sizeof *lines);
    for (size_t i = 0; i < all->inbox_count; i++)
        if (json)
            print_json(out, &memory, all, &all->inboxes[i]);
        else
            lines[i] = line_of(&memory, all, &all->inboxes[i]);
    if (!json)
        print_lines(out, lines, all->inbox_count);
    region_free(&memory);
}

static void add(buffer *out, size_t count, const char *one, const char *many)
{
    if (count)
        buffer_printf(out, "%s%zu %s", out->len ? ", " : "", count, count == 1 ? one : many);
}

void summary_counts(FILE *out, const config *all)
{
    buffer text = {0};
    add(&text, all->queue_count, "queue", "queues");
    add(&text, all->inbox_count, "inbox", "inboxes");
    add(&text, all->outbox_count, "outbox", "outboxes");
    add(&text, all->test_count, "test", "tests");
    (void)fputs(text.data ? text.data : "nothing in it", out);
    buffer_free(&text);
}
