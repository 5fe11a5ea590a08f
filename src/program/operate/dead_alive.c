/* Which inboxes have a process that would take a letter: by the rows of running processes. A
 * process says at least every few seconds that it is there. */
#include "program/cli.h"
#include "program/operate/dead_retrying.h"
#include "program/support/json_scan.h"
#include "program/support/strict_json.h"

#include <string.h>

enum { SEEN_WITHIN_MS = 30000, JSON_DEPTH = 64, NAMES_MAX = 4096 };

typedef struct looking {
    retrying *r;
    const char **names;
    size_t count;
} looking;

/* Its name, or the object's member "name" or "inbox". */
static const char *name_of(region *memory, semel_bytes value)
{
    size_t len;
    const char *text = scan_text(&len, memory, value);
    if (!text)
        text = scan_text(&len, memory, scan_find(value, "name"));
    return text ? text : scan_text(&len, memory, scan_find(value, "inbox"));
}

static void add_names(looking *l, semel_bytes data)
{
    const char *at = NULL;
    scan_member member;
    semel_bytes inboxes = scan_find(scan_trimmed(data), "inboxes");
    while (inboxes.len && l->count < NAMES_MAX && scan_next(&member, &at, inboxes)) {
        const char *name = name_of(&l->r->memory, member.value);
        if (name)
            l->names[l->count++] = name;
    }
}

static semel_status look_at(const semel_process *process, void *context, semel_error *err)
{
    looking *l = context;
    semel_bytes data = semel_str(process->data);
    (void)err;
    if (l->r->w->tool.now_ms - process->seen_ms > SEEN_WITHIN_MS)
        return SEMEL_OK;
    l->r->any_alive = 1;
    if (strict_json_check(data, JSON_DEPTH, NULL))
        add_names(l, data);
    return SEMEL_OK;
}

int retrying_look_for_processes(retrying *r)
{
    semel_error why = {0};
    looking l = {.r = r, .names = region_alloc(&r->memory, NAMES_MAX * sizeof *l.names)};
    semel_status status = semel_process_list(r->w->tool.store, look_at, &l, &why);
    r->alive = (config_list){.items = l.names, .count = l.count};
    return status && status != SEMEL_EUNSUPPORTED ? tool_failed(&r->w->tool, &why) : CLI_OK;
}

/* What had no route is for any process. */
int retrying_is_alive(const retrying *r, const char *inbox)
{
    for (size_t i = 0; i < r->alive.count; i++)
        if (strcmp(r->alive.items[i], inbox) == 0)
            return 1;
    return r->any_alive && strcmp(inbox, "unrouted") == 0;
}
