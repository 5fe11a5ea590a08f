/* Key expressions and fingerprints, validated by the library itself: an inbox is opened on a store
 * in memory, which is closed again. The error says at which character the mistake is; that only
 * chooses what is underlined: if it does not, the whole expression is. */
#include "program/config/check.h"
#include "program/support/nearest.h"

#include <stdlib.h>
#include <string.h>

/* What the library says: "key expression, at character 16: unknown word (known: id, ...)". */
typedef struct key_mistake {
    size_t character; /* from 1; 0: not said */
    char what[256];
    char known[256];
} key_mistake;

static void copy_part(char *out, size_t room, const char *from, size_t len)
{
    if (len >= room)
        len = room - 1;
    memcpy(out, from, len);
    out[len] = 0;
}

static key_mistake split(const char *text)
{
    static const char at[] = ", at character ", known[] = " (known: ";
    key_mistake m = {0};
    const char *place_text = strstr(text, at), *list = strstr(text, known), *what = text;
    char *end = NULL;
    if (place_text) {
        m.character = strtoul(place_text + sizeof at - 1, &end, 10);
        what = strncmp(end, ": ", 2) == 0 ? end + 2 : end;
    }
    copy_part(m.what, sizeof m.what, what,
              list && list > what ? (size_t)(list - what) : strlen(what));
    if (list) {
        copy_part(m.known, sizeof m.known, list + sizeof known - 1, strlen(list));
        m.known[strcspn(m.known, ")")] = 0;
    }
    return m;
}

/* The known word that is nearest: "header:NAME" is known as header. */
static const char *nearest_word(region *memory, const char *typed, const char *known)
{
    nearest best = {.typed = typed};
    for (const char *at = known; *at;) {
        size_t len = strcspn(at, ",;:");
        nearest_offer(&best, region_copy(memory, at, len));
        at += strcspn(at, ",;");
        at += strspn(at, ",; ");
    }
    return best.name;
}

/* Bytes of the character; the text is UTF-8, and positions of the library count bytes. */
static size_t word_at(const char *text, size_t from)
{
    size_t len = strcspn(text + from, ":+");
    return len ? len : 1;
}

static void report_at(const checking *c, const config_node *node, const key_mistake *m)
{
    region *memory = &c->found->memory;
    size_t from = m->character - 1, len = word_at(node->raw, from);
    const char *word = region_copy(memory, node->raw + from, len);
    const char *meant = nearest_word(memory, word, m->known);
    int is_word = strcmp(m->what, "unknown word") == 0; /* only chooses the wording */
    const char *text = is_word
                           ? region_printf(memory, "unknown word \"%s\" at character %zu%s%s%s",
                                           word, m->character, meant ? "; did you mean \"" : "",
                                           meant ? meant : "", meant ? "\"?" : "")
                           : region_printf(memory, "%s, at character %zu", m->what, m->character);
    diagnostic *d = diagnostic_add(c->found, LEVEL_ERROR, "key", tree_part(node, from, len),
                                   tree_path(memory, node), "%s", text);
    if (*m->known)
        diagnostic_help(c->found, d, "valid: %s", m->known);
}

static void report(const checking *c, const config_node *node, const semel_error *err)
{
    key_mistake m = split(err->text);
    if (m.character && m.character <= strlen(node->raw) && strcmp(node->raw, node->text) == 0) {
        report_at(c, node, &m);
        return;
    }
    diagnostic *d = diagnostic_at(c->found, "key", node, "%s", m.what);
    if (*m.known)
        diagnostic_help(c->found, d, "valid: %s", m.known);
}

static void check_expression(const checking *c, semel_store *store, const config_node *node,
                             const semel_inbox_options *options)
{
    semel_inbox *inbox = NULL;
    semel_error err = {0};
    if (semel_inbox_open(&inbox, store, "check", options, &err))
        report(c, node, &err);
    semel_inbox_close(inbox);
}

static void check_node(const checking *c, semel_store *store, const config_node *node)
{
    semel_inbox_options options = {.size = sizeof options, .accept_changes = 1};
    if (!node || node->kind != NODE_SCALAR || node->is_unset || !node->len)
        return;
    if (strcmp(node->key->text, "key") == 0)
        options.key = node->text;
    else
        options.fingerprint = node->text;
    check_expression(c, store, node, &options);
}

void check_keys(const checking *c)
{
    const config_node *map = tree_find(c->all->root, "inboxes");
    semel_store *store = NULL;
    semel_error err = {0};
    if (semel_store_open(&store, "memory:", NULL, &err) || semel_store_migrate(store, &err)) {
        semel_store_close(store);
        return;
    }
    for (size_t i = 0; i < c->all->gateway.route_count; i++)
        check_node(c, store, tree_find(c->all->gateway.routes[i].at, "key"));
    for (size_t i = 0; map && i < map->count; i++) {
        check_node(c, store, tree_find(map->items[i], "key"));
        check_node(c, store, tree_find(map->items[i], "fingerprint"));
    }
    semel_store_close(store);
}
