/* The URLs of the store and of queues: each is read by its own driver, which contacts nothing.
 *
 * A driver shows no password, but other pieces of the URL, each between double quotes. What a
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

/* --- URLs ------------------------------------------------------------------------------------- */

static const char *reader_of(const config *all, const queue_config *queue)
{
    for (size_t i = 0; i < all->inbox_count; i++)
        if (all->inboxes[i].from && strcmp(all->inboxes[i].from, queue->name) == 0)
            return all->inboxes[i].name;
    return "";
}

static const char *shown_text(const checking *c, const config_node *node, const char *url,
                              const char *text)
{
    static const char prefix[] = "URL: ";
    if (strncmp(text, prefix, sizeof prefix - 1) == 0)
        text += sizeof prefix - 1;
    if (!interpolate_is_needed(node->raw))
        return text;
    return strchr(url, '"') ? "it has a double quote, which a URL writes %22"
                            : hide(&c->found->memory, &c->found->hidden, text);
}

static diagnostic *report(const checking *c, const config_node *node, const char *url,
                          const semel_error *why)
{
    const char *text = shown_text(c, node, url, why->text);
    return diagnostic_add(c->found, LEVEL_ERROR, "url", place_of(node, text),
                          tree_path(&c->found->memory, node), "%s", text);
}

/* In an example the values that are put in are no part of it. */
static int can_be_checked(const checking *c, const char *url, const config_node *node)
{
    return url && node && !node->is_unset && !(c->is_example && interpolate_is_needed(node->raw));
}

/* The reader of an example may have other backends. */
static int is_wrong(const checking *c, semel_status status)
{
    return status && !(c->is_example && status == SEMEL_EUNSUPPORTED);
}

static void check_queue_url(const checking *c, const queue_config *queue)
{
    const config_node *node = read_find(&section_queue, queue->at, option_main(&section_queue));
    semel_error why = {0};
    if (!can_be_checked(c, queue->url, node) ||
        !is_wrong(c, semel_transport_check_url(queue->url, queue->is_read, &why)))
        return;
    diagnostic *d = report(c, node, queue->url, &why);
    if (why.status == SEMEL_EMISUSE)
        diagnostic_help(c->found, d, "inbox \"%s\" reads from this queue",
                        reader_of(c->all, queue));
}

static void check_store_url(const checking *c)
{
    const char *url = c->all->store_url;
    const config_node *node =
        read_find(&section_store, tree_find(c->all->root, "store"), option_main(&section_store));
    semel_error why = {0};
    if (can_be_checked(c, url, node) && is_wrong(c, semel_store_check_url(url, &why)))
        (void)report(c, node, url, &why);
}

void config_check_urls(const config *all, diagnostics *found, int is_example)
{
    checking c = {all, found, is_example};
    check_store_url(&c);
    for (size_t i = 0; i < all->queue_count; i++)
        check_queue_url(&c, &all->queues[i]);
}
