/* Substitutions: the input is a text, which is read as one value.
 *
 *  - A text without a dollar sign is itself; one whose dollar signs are doubled is what it was.
 *  - A variable is put in as it is, or percent-encoded behind the // of a URL: then it adds no
 *    character that ends a user, password, host or path.
 *  - Problems do not show what was substituted, unless the text has it, too. */
#include "program/config/interpolate.h"
#include "property.h"

#define VALUE "p@/:?#&%s3cret"

static char *interpolated(const char *text, diagnostics *found)
{
    region memory = {0};
    config_source source = {.name = "--store"};
    interpolation in = {.memory = &memory, .directory = "/nonexistent", .found = found};
    const char *result = interpolate_text(&in, &source, text);
    char *copy = result ? must_copy(result) : NULL;
    HOLDS((result != NULL) == (found->errors == 0));
    region_free(&memory);
    return copy;
}

static void check_problems(const diagnostics *found, const char *text)
{
    for (size_t i = 0; !strstr(text, VALUE) && i < found->count; i++)
        HOLDS_FOR(found->items[i]->text, !strstr(found->items[i]->text, VALUE));
}

static void check_doubled(const char *text)
{
    diagnostics found = {0};
    buffer doubled = {0};
    buffer_text(&doubled, "");
    for (const char *at = text; *at; at++) {
        buffer_add(&doubled, at, 1);
        if (*at == '$')
            buffer_text(&doubled, "$");
    }
    char *result = interpolated(doubled.data, &found);
    HOLDS_FOR(text, result && strcmp(result, text) == 0);
    free(result);
    buffer_free(&doubled);
    diagnostic_free(&found);
}

static size_t count_of(const char *text, char wanted)
{
    size_t count = 0;
    for (; *text; text++)
        count += *text == wanted;
    return count;
}

/* The value in the middle of a URL: its separators are those of the text around it. */
static void check_url(const char *text)
{
    diagnostics found = {0};
    buffer url = {0};
    buffer_printf(&url, "postgres://user:${SECRET}@host/%s", text);
    char *result = interpolated(url.data, &found);
    if (result && !strchr(text, '$')) {
        HOLDS_FOR(result, count_of(result, '@') == count_of(url.data, '@'));
        HOLDS_FOR(result, count_of(result, '/') == count_of(url.data, '/'));
        HOLDS_FOR(result, count_of(result, '?') == count_of(url.data, '?'));
    }
    check_problems(&found, text);
    free(result);
    buffer_free(&url);
    diagnostic_free(&found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)setenv("SECRET", VALUE, 1);
    (void)unsetenv("UNSET");
    char *text = exact_text(data, size);
    diagnostics found = {0};
    char *result = interpolated(text, &found);
    if (!strchr(text, '$'))
        HOLDS_FOR(text, result && strcmp(result, text) == 0);
    check_problems(&found, text);
    check_doubled(text);
    check_url(text);
    free(result);
    free(text);
    diagnostic_free(&found);
    return 0;
}
