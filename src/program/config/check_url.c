/* The URLs of queues: each is read by its own transport, which contacts nothing.
 *
 * A transport shows no password, but other pieces of the URL, each between double quotes. What a
 * substitution put there is not shown at all: it is looked for in what was substituted, in parts,
 * too, because a URL divides a value that holds an & or a ?. */
#include "program/config/check.h"
#include "program/config/interpolate.h"
#include "program/config/read.h"

#include <string.h>

/* --- pieces ----------------------------------------------------------------------------------- */

typedef struct piece {
    const char *text; /* NULL: there is none */
    size_t len;
} piece;

/* What is between the next two double quotes. */
static piece next_quoted(const char *text)
{
    const char *open = strchr(text, '"');
    const char *close = open ? strchr(open + 1, '"') : NULL;
    return close ? (piece){open + 1, (size_t)(close - open - 1)} : (piece){NULL, 0};
}

static int is_substituted(const secrets *hidden, piece of)
{
    for (size_t i = 0; of.len && i < hidden->count; i++)
        if (memmem(hidden->items[i], strlen(hidden->items[i]), of.text, of.len))
            return 1;
    return 0;
}

static const char *hide(region *memory, const secrets *hidden, const char *text)
{
    buffer shown = {0};
    for (piece next; (next = next_quoted(text)).text; text = next.text + next.len + 1) {
        buffer_add(&shown, text, (size_t)(next.text - text));
        if (is_substituted(hidden, next))
            buffer_text(&shown, SECRET_MASK);
        else
            buffer_add(&shown, next.text, next.len);
        buffer_text(&shown, "\"");
    }
    buffer_text(&shown, text);
    const char *kept = region_copy(memory, shown.data, shown.len);
    buffer_free(&shown);
    return kept;
}

/* The scheme, or the name or the value of a parameter. NULL: it is not there, or more than once. */
static const char *find_piece(const char *raw, piece of)
{
    const char *found = NULL;
    for (const char *at = raw; of.len && (at = memmem(at, strlen(at), of.text, of.len)); at++) {
        if (at != raw && !strchr("?&=", at[-1]))
            continue;
        if (found)
            return NULL;
        found = at;
    }
    return found;
}

static place place_of(const config_node *node, const char *text)
{
    piece wrong = next_quoted(text);
    const char *at = wrong.text ? find_piece(node->raw, wrong) : NULL;
    return at ? tree_part(node, (size_t)(at - node->raw), wrong.len) : node->at;
}

/* --- queues ----------------------------------------------------------------------------------- */

static const char *reader_of(const config *all, const queue_config *queue)
{
    for (size_t i = 0; i < all->inbox_count; i++)
        if (all->inboxes[i].from && strcmp(all->inboxes[i].from, queue->name) == 0)
            return all->inboxes[i].name;
    return "";
}

static void report(const checking *c, const queue_config *queue, const config_node *node,
                   const semel_error *why)
{
    static const char prefix[] = "URL: ";
    const size_t skip = strncmp(why->text, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : 0;
    const char *text = why->text + skip;
    if (interpolate_is_needed(node->raw))
        text = strchr(queue->url, '"') ? "it has a double quote, which a URL writes %22"
                                       : hide(&c->found->memory, &c->found->hidden, text);
    diagnostic *d = diagnostic_add(c->found, LEVEL_ERROR, "url", place_of(node, text),
                                   tree_path(&c->found->memory, node), "%s", text);
    if (why->status == SEMEL_EMISUSE)
        diagnostic_help(c->found, d, "inbox \"%s\" reads from this queue",
                        reader_of(c->all, queue));
}

/* In an example the values that are put in are no part of it, and the reader's program may have
 * other backends. */
static void check_queue_url(const checking *c, const queue_config *queue, int is_example)
{
    const config_node *node = read_find(&section_queue, queue->at, option_main(&section_queue));
    semel_error why = {0};
    if (!queue->url || !node || node->is_unset ||
        (is_example && interpolate_is_needed(node->raw)) ||
        !semel_transport_check_url(queue->url, queue->is_read, &why))
        return;
    if (why.status != SEMEL_EUNSUPPORTED || !is_example)
        report(c, queue, node, &why);
}

void config_check_urls(const config *all, diagnostics *found, int is_example)
{
    checking c = {all, found};
    for (size_t i = 0; i < all->queue_count; i++)
        check_queue_url(&c, &all->queues[i], is_example);
}
