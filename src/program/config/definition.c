/* See definition.h. The library alone knows how it writes a definition and what is left out of the
 * configuration stands for: so the inboxes are opened on a store in memory, and both stores are
 * asked. */
#include "program/config/definition.h"

#include "program/config/tree.h"

#include <semel/operate.h>
#include <string.h>

enum { OPTIONS = 3 };
static const char *const options[OPTIONS] = {"key", "mode", "fingerprint"};

typedef struct comparison {
    region memory;
    const config *all;
    const char **now; /* by the number of the inbox; NULL: not known */
    definition_visitor *visitor;
    void *context;
} comparison;

/* --- the parts of a definition ---------------------------------------------------------------- */

/* The last occurrence: a key may contain anything. */
static const char *find_last(const char *text, const char *part)
{
    const char *found = NULL;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
        found = at;
    return found;
}

/* "key=id mode=claim fingerprint=none"; 0 if it is no such text. */
static int split(const char *parts[OPTIONS], region *memory, const char *definition)
{
    static const char first[] = "key=", second[] = " mode=", third[] = " fingerprint=";
    const char *mode = find_last(definition, second), *print = find_last(definition, third);
    if (strncmp(definition, first, sizeof first - 1) != 0 || !mode || !print || print < mode)
        return 0;
    const char *key = definition + sizeof first - 1, *value = mode + sizeof second - 1;
    parts[0] = region_copy(memory, key, (size_t)(mode - key));
    parts[1] = region_copy(memory, value, (size_t)(print - value));
    parts[2] = print + sizeof third - 1;
    return 1;
}

/* --- two stores ------------------------------------------------------------------------------- */

/* Queued mode counts as transaction mode, and a store in memory has only that. An inbox that cannot
 * be opened is not compared: opening the pipeline says why. */
static void define(semel_store *store, const inbox_config *inbox)
{
    semel_inbox *opened = NULL;
    int claims = inbox->options.mode == SEMEL_CLAIM;
    semel_inbox_options as = {.size = sizeof as,
                              .key = inbox->options.key,
                              .mode = claims ? SEMEL_CLAIM : SEMEL_TRANSACTION,
                              .fingerprint = inbox->options.fingerprint,
                              .remember = inbox->options.remember};
    if (!semel_inbox_open(&opened, store, inbox->name, &as, NULL))
        semel_inbox_close(opened);
}

static size_t number_of(const config *all, const char *name)
{
    size_t i = 0;
    while (i < all->inbox_count && strcmp(all->inboxes[i].name, name) != 0)
        i++;
    return i;
}

static semel_status keep_now(const semel_name *name, void *context, semel_error *err)
{
    comparison *c = context;
    size_t i = number_of(c->all, name->name);
    (void)err;
    if (i < c->all->inbox_count)
        c->now[i] = region_copy(&c->memory, name->definition, strlen(name->definition));
    return SEMEL_OK;
}

static semel_status compare(const semel_name *name, void *context, semel_error *err)
{
    comparison *c = context;
    const char *before[OPTIONS], *now[OPTIONS];
    size_t i = number_of(c->all, name->name), part = 0;
    (void)err;
    if (i == c->all->inbox_count || !c->now[i] || !split(before, &c->memory, name->definition) ||
        !split(now, &c->memory, c->now[i]))
        return SEMEL_OK;
    while (part < OPTIONS && strcmp(before[part], now[part]) == 0)
        part++;
    if (part < OPTIONS)
        c->visitor(c->context, &(definition_change){&c->all->inboxes[i], options[part],
                                                    before[part], now[part]});
    return SEMEL_OK;
}

semel_status definition_compare(const config *all, semel_store *store, definition_visitor *visitor,
                                void *context, semel_error *err)
{
    comparison c = {.all = all, .visitor = visitor, .context = context};
    semel_store *memory = NULL;
    c.now = region_alloc(&c.memory, (all->inbox_count + 1) * sizeof *c.now);
    semel_status status = semel_store_open(&memory, "memory:", NULL, err);
    if (!status)
        status = semel_store_migrate(memory, err);
    for (size_t i = 0; !status && i < all->inbox_count; i++)
        define(memory, &all->inboxes[i]);
    if (!status)
        status = semel_store_names(memory, SEMEL_NAME_INBOX, keep_now, &c, err);
    if (!status)
        status = semel_store_names(store, SEMEL_NAME_INBOX, compare, &c, err);
    semel_store_close(memory);
    region_free(&c.memory);
    return status;
}

/* --- accepting -------------------------------------------------------------------------------- */

int definition_is_named(const inbox_config *inbox, const char *path)
{
    region memory = {0};
    const char *own = tree_path(&memory, inbox->at);
    const char *quoted = region_printf(&memory, "inboxes[\"%s\"]", inbox->name);
    const char *rest = strncmp(path, own, strlen(own)) == 0         ? path + strlen(own)
                       : strncmp(path, quoted, strlen(quoted)) == 0 ? path + strlen(quoted)
                                                                    : NULL;
    int found = rest && !*rest;
    for (size_t i = 0; rest && *rest == '.' && i < OPTIONS; i++)
        found |= strcmp(rest + 1, options[i]) == 0;
    region_free(&memory);
    return found;
}

const char *definition_fix(region *memory, const inbox_config *inbox)
{
    return region_printf(memory,
                         "restore it, or use a new inbox name; if the change is intended: semel "
                         "run --accept %s",
                         tree_path(memory, inbox->at));
}
