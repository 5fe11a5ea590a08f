/* Configurations: the input is a file of YAML.
 *
 *  - Whatever it is, there is a configuration or an error; each problem has a code, a text in one
 *    line and a place.
 *  - A configuration, dumped, is a configuration again, and its dump is the same but for its
 *    comments. (What was hidden in the first dump is ****** in both.)
 *  - What a variable holds is in no problem, no dump and no explanation. It is looked for where the
 *    input does not hold it itself. */
#include "program/config/dump.h"
#include "program/config/explain.h"
#include "program/config/load.h"
#include "property.h"

#define CANARY "canary-5e7"

static char *print_all(diagnostics *found, int json)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    HOLDS(out);
    diagnostic_print(out, found, "input", (diagnostic_form){.json = json, .all = 1});
    HOLDS(fclose(out) == 0);
    return text;
}

static void check_problems(diagnostics *found, const char *input)
{
    for (int json = 0; json < 2; json++) {
        char *text = print_all(found, json);
        HOLDS_FOR(text, strstr(input, CANARY) || !strstr(text, CANARY));
        free(text);
    }
    HOLDS(found->errors + found->warnings == found->count);
    for (size_t i = 0; i < found->count; i++) {
        const diagnostic *d = found->items[i];
        HOLDS(*d->text && *d->code && d->at.source);
        HOLDS_FOR(d->text, !strpbrk(d->text, "\n\r"));
    }
}

static config *load(const char *text, size_t len, const char *input)
{
    diagnostics found = {0};
    config *all = NULL;
    const load_options options = {
        .path = "/nonexistent/semel.yaml", .text = text, .len = len, .first_line = 1};
    int done = config_load(&all, &options, &found);
    HOLDS(done == (found.errors == 0) && done == (all != NULL));
    check_problems(&found, input);
    diagnostic_free(&found);
    return all;
}

/* The dump without its comments: they name places, which differ. Quoted texts may hold a #. */
static void strip(buffer *dump)
{
    size_t to = 0;
    int quoted = 0;
    for (size_t i = 0; i < dump->len; i++) {
        char c = dump->data[i];
        if (c == '\\' && quoted)
            dump->data[to++] = dump->data[i++];
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && c == '#' && i && dump->data[i - 1] == ' ') {
            while (i < dump->len && dump->data[i] != '\n')
                i++;
            while (to && dump->data[to - 1] == ' ')
                to--;
        }
        dump->data[to++] = dump->data[i];
    }
    dump->len = to;
    dump->data[to] = 0;
}

static void check_dump(const config *all, const char *input)
{
    buffer first = {0}, second = {0};
    dump_config(&first, all);
    HOLDS_FOR(first.data, strstr(input, CANARY) || !strstr(first.data, CANARY));
    config *again = load(first.data, first.len, first.data);
    HOLDS_FOR(first.data, again);
    dump_config(&second, again);
    strip(&first);
    strip(&second);
    HOLDS_FOR(second.data, strcmp(first.data, second.data) == 0);
    buffer_free(&first);
    buffer_free(&second);
    config_free(again);
}

static void check_explain(const config *all)
{
    for (size_t i = 0; i < all->root->count; i++) {
        buffer out = {0};
        region memory = {0};
        (void)explain_path(&out, all, tree_path(&memory, all->root->items[i]));
        HOLDS_FOR(out.data, out.data && !strstr(out.data, CANARY));
        buffer_free(&out);
        region_free(&memory);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)setenv("SECRET", CANARY, 1);
    char *text = exact_copy(data, size);
    char *with_nul = exact_text(data, size);
    config *all = load(text, size, with_nul);
    if (all && !strstr(with_nul, CANARY)) {
        check_dump(all, with_nul);
        check_explain(all);
    }
    config_free(all);
    free(with_nul);
    free(text);
    return 0;
}
