/* What became of letters that a running process was asked to retry. A letter that is there says it:
 * asked, begun, failed. One that is gone was handled, was a duplicate, or was discarded: the marker
 * of its key tells which. */
#include "program/cli.h"
#include "program/operate/dead_retrying.h"
#include "program/support/show.h"

#include <string.h>

enum { SPAN = 1000 }; /* of ids that one look covers */

void retrying_end(retried *one, retried_state state)
{
    one->state = state;
    one->took_ns = steady_clock_ns() - one->asked_ns;
}

/* --- keys ------------------------------------------------------------------------------------- */

static const inbox_config *inbox_of(const retrying *r, const char *name)
{
    const config *all = r->w->tool.all;
    for (size_t i = 0; all && i < all->inbox_count; i++)
        if (strcmp(all->inboxes[i].name, name) == 0)
            return &all->inboxes[i];
    return NULL;
}

static semel_inbox *open_inbox(retrying *r, const char *name)
{
    for (size_t i = 0; i < r->inbox_count; i++)
        if (strcmp(r->inboxes[i].name, name) == 0)
            return r->inboxes[i].inbox;
    const inbox_config *from = inbox_of(r, name);
    opened_inbox opened = {.name = region_copy(&r->memory, name, strlen(name))};
    if (from)
        (void)semel_inbox_open(&opened.inbox, r->w->tool.store, from->name, &from->options, NULL);
    r->inboxes = must_realloc(r->inboxes, (r->inbox_count + 1) * sizeof *r->inboxes);
    r->inboxes[r->inbox_count++] = opened;
    return opened.inbox;
}

void retrying_close_inboxes(retrying *r)
{
    for (size_t i = 0; i < r->inbox_count; i++)
        semel_inbox_close(r->inboxes[i].inbox);
    r->inboxes = must_realloc(r->inboxes, sizeof *r->inboxes);
}

/* A letter without a marker, of a message that was refused, is only known to be gone: then it was
 * handled, as far as this command can tell. */
static retried_state state_of_gone(retrying *r, const retried *one)
{
    semel_marker *marker = NULL;
    semel_inbox *inbox = open_inbox(r, one->letter->name);
    retried_state state = RETRIED_PROCESSED;
    if (!inbox || !one->letter->key.len ||
        semel_inbox_look_key(&marker, inbox, one->letter->key, NULL))
        return state;
    if (marker->state == SEMEL_MARKER_DEAD)
        state = RETRIED_GONE;
    else if (marker->state == SEMEL_MARKER_DONE && marker->last_ms < one->asked_ms)
        state = RETRIED_DUPLICATE;
    semel_marker_free(marker);
    return state;
}

/* --- letters ---------------------------------------------------------------------------------- */

typedef struct seen_letters {
    retrying *r;
    size_t at;                     /* the next one of the step that may come */
    unsigned char seen[DEAD_STEP]; /* the letter is there */
} seen_letters;

/* Both are in the order of their ids. */
static semel_status note_letter(const semel_dead *dead, void *context, semel_error *err)
{
    seen_letters *s = context;
    retrying *r = s->r;
    (void)err;
    while (s->at < r->count && r->items[s->at].letter->id < dead->id)
        s->at++;
    if (s->at == r->count || r->items[s->at].letter->id != dead->id)
        return SEMEL_OK;
    retried *one = &r->items[s->at];
    s->seen[s->at] = 1;
    if (one->state == RETRIED_PENDING && dead->retry == SEMEL_RETRY_FAILED) {
        one->error = region_copy(&r->step, dead->error, strlen(dead->error));
        retrying_end(one, RETRIED_FAILED);
    }
    return SEMEL_OK;
}

/* From the letter `from` on; returns where the next look begins. */
static size_t look_from(retrying *r, size_t from, int *status)
{
    seen_letters s = {.r = r, .at = from};
    semel_error why = {0};
    int64_t first = r->items[from].letter->id, last = first + SPAN - 1;
    semel_dead_filter filter = {
        .size = sizeof filter, .after_id = first - 1, .last_id = last, .limit = SPAN, .brief = 1};
    if (semel_dead_list(r->w->tool.store, &filter, note_letter, &s, &why)) {
        *status = tool_failed(&r->w->tool, &why);
        return r->count;
    }
    size_t i = from;
    for (; i < r->count && r->items[i].letter->id <= last; i++)
        if (r->items[i].state == RETRIED_PENDING && !s.seen[i])
            retrying_end(&r->items[i], state_of_gone(r, &r->items[i]));
    return i;
}

int retrying_look(retrying *r, size_t *left)
{
    int status = CLI_OK;
    for (size_t i = 0; !status && i < r->count;)
        i = r->items[i].state == RETRIED_PENDING ? look_from(r, i, &status) : i + 1;
    *left = 0;
    for (size_t i = 0; i < r->count; i++)
        *left += r->items[i].state == RETRIED_PENDING;
    return status;
}
