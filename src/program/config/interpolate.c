/* See interpolate.h. A value that is put into a URL behind its scheme is percent-encoded, so that
 * an @ in a password cannot move the host; one at the beginning is the URL, or its beginning. Paths
 * of sqlite: files are no authorities and are left as they are. */
#include "program/config/interpolate.h"
#include "program/config/readable.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One ${...}: what is between the braces, in the raw text. */
typedef struct substitution {
    const config_node *node;
    size_t from; /* of the $ */
    size_t len;  /* with the braces */
    const char *inside;
    size_t inside_len;
} substitution;

typedef enum url_part { NOT_A_URL, URL_AUTHORITY, URL_PATH, URL_QUERY } url_part;

static diagnostic *complain(const interpolation *in, const substitution *s, const char *code,
                            const char *text)
{
    return diagnostic_add(in->found, LEVEL_ERROR, code, tree_part(s->node, s->from, s->len),
                          tree_path(&in->found->memory, s->node), "%s", text);
}

/* --- values ----------------------------------------------------------------------------------- */

static int is_name(const char *name, size_t len)
{
    if (!len || isdigit((unsigned char)*name))
        return 0;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_')
            return 0;
    return 1;
}

static int holds_line_break(const char *value, size_t len)
{
    return memchr(value, '\n', len) || memchr(value, '\r', len) || memchr(value, 0, len);
}

static int read_file(const interpolation *in, const substitution *s, const char *path, buffer *out)
{
    readable_problem problem = {""};
    char *full = path[0] == '/' ? must_copy(path) : NULL;
    if (!full && asprintf(&full, "%s/%s", in->directory, path) < 0)
        return 0;
    int done = readable_secret(out, full, path, INTERPOLATE_FILE_MAX, &problem);
    if (!done && in->is_example && access(full, F_OK) != 0) {
        free(full);
        buffer_text(out, INTERPOLATE_EXAMPLE);
        return 1;
    }
    free(full);
    if (!done) {
        complain(in, s, "file", problem.text);
        return 0;
    }
    if (out->len && out->data[out->len - 1] == '\n')
        out->len--;
    if (out->len && out->data[out->len - 1] == '\r')
        out->len--;
    if (out->len && holds_line_break(out->data, out->len)) {
        complain(in, s, "line-break",
                 region_printf(&in->found->memory, "%s has more than one line", path));
        return 0;
    }
    return 1;
}

static int value_of_file(const interpolation *in, const substitution *s, buffer *out)
{
    static const char prefix[] = "file:";
    const size_t skip = sizeof prefix - 1;
    char *path = region_copy(in->memory, s->inside + skip, s->inside_len - skip);
    if (!*path) {
        complain(in, s, "substitution", "${file:PATH} needs a path");
        return 0;
    }
    if (!read_file(in, s, path, out))
        return 0;
    secret_remember(&in->found->hidden, out->data ? out->data : "", out->len);
    return 1;
}

static void complain_unset(const interpolation *in, const substitution *s, const char *name,
                           const char *message)
{
    region *memory = &in->found->memory;
    if (message) {
        (void)complain(
            in, s, "unset",
            region_printf(memory, "environment variable %s is not set: %s", name, message));
        return;
    }
    diagnostic *d =
        complain(in, s, "unset", region_printf(memory, "environment variable %s is not set", name));
    diagnostic_help(in->found, d, "set it, or use ${%s:-default} or ${file:PATH}", name);
}

static int value_of_variable(const interpolation *in, const substitution *s, buffer *out)
{
    const char *colon = memchr(s->inside, ':', s->inside_len);
    size_t name_len = colon ? (size_t)(colon - s->inside) : s->inside_len;
    size_t left = s->inside_len - name_len;
    if (!is_name(s->inside, name_len) || (colon && (left < 2 || !strchr("-?", colon[1])))) {
        complain(in, s, "substitution",
                 "not a substitution; use ${NAME}, ${NAME:-default}, ${NAME:?message} or "
                 "${file:PATH}, and $$ for a dollar sign");
        return 0;
    }
    const char *name = region_copy(in->memory, s->inside, name_len);
    const char *rest = colon ? region_copy(in->memory, colon + 2, left - 2) : "";
    const char *value = getenv(name);
    if (!value && in->is_example && (!colon || colon[1] == '?'))
        value = INTERPOLATE_EXAMPLE;
    if (!value || (colon && !*value)) {
        if (!colon || colon[1] == '?') {
            complain_unset(in, s, name, colon && *rest ? rest : NULL);
            return 0;
        }
        buffer_text(out, rest);
        return 1;
    }
    if (holds_line_break(value, strlen(value))) {
        complain(in, s, "line-break",
                 region_printf(&in->found->memory, "the value of %s has more than one line", name));
        return 0;
    }
    secret_remember(&in->found->hidden, value, strlen(value));
    buffer_text(out, value);
    return 1;
}

/* --- URLs ------------------------------------------------------------------------------------- */

/* Where in a URL the byte `at` of the raw text is. */
static url_part part_of(const char *raw, size_t at)
{
    size_t scheme = strspn(raw, "abcdefghijklmnopqrstuvwxyz0123456789+.-:");
    if (scheme < 2 || raw[scheme - 1] != ':' || strncmp(raw + scheme, "//", 2) != 0 ||
        at < scheme + 2 || strncmp(raw, "sqlite", 6) == 0 || strncmp(raw, "store:sqlite", 12) == 0)
        return NOT_A_URL;
    url_part part = URL_AUTHORITY;
    for (size_t i = scheme + 2; i < at; i++) {
        if (raw[i] == '$' && raw[i + 1] == '{')
            i += strcspn(raw + i, "}");
        else if (raw[i] == '?')
            part = URL_QUERY;
        else if (raw[i] == '/' && part == URL_AUTHORITY)
            part = URL_PATH;
    }
    return part;
}

static void add_value(buffer *out, url_part part, const char *value, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)value[i];
        if (part == NOT_A_URL || isalnum(c) || strchr("-._~", c) || (c == '/' && part == URL_PATH))
            buffer_add(out, &c, 1);
        else
            buffer_printf(out, "%%%02X", c);
    }
    if (part != NOT_A_URL && out->data)
        out->data[out->len] = 0;
}

/* --- texts ------------------------------------------------------------------------------------ */

static int substitute(const interpolation *in, const substitution *s, buffer *out)
{
    buffer value = {0};
    int is_file = s->inside_len >= 5 && strncmp(s->inside, "file:", 5) == 0;
    int done = is_file ? value_of_file(in, s, &value) : value_of_variable(in, s, &value);
    url_part part = part_of(s->node->raw, s->from);
    if (done && value.len) {
        size_t start = out->len;
        add_value(out, part, value.data, value.len);
        if (part != NOT_A_URL) /* its encoded form is as secret */
            secret_remember(&in->found->hidden, out->data + start, out->len - start);
    }
    buffer_free(&value);
    return done;
}

/* The raw text from a $ on; returns how much of it was used, 0 after a problem. */
static size_t take_dollar(const interpolation *in, const config_node *node, size_t at, buffer *out)
{
    const char *raw = node->raw + at;
    if (raw[1] != '{') {
        buffer_text(out, "$");
        return raw[1] == '$' ? 2 : 1;
    }
    size_t len = strcspn(raw, "}");
    substitution s = {node, at, len + 1, raw + 2, len - 2};
    if (!raw[len]) {
        s.len = 2;
        complain(in, &s, "substitution", "${ is not closed with }; write $$ for a dollar sign");
        return 0;
    }
    return substitute(in, &s, out) ? len + 1 : 0;
}

int interpolate_is_needed(const char *text)
{
    return strstr(text, "${") || strstr(text, "$$");
}

/* All problems of the text are reported. */
static int interpolate_scalar(const interpolation *in, config_node *node)
{
    buffer out = {0};
    int failed = 0;
    if (!interpolate_is_needed(node->raw))
        return 1;
    for (size_t i = 0; node->raw[i];) {
        size_t plain = strcspn(node->raw + i, "$"), used;
        buffer_add(&out, node->raw + i, plain);
        i += plain;
        if (!node->raw[i])
            break;
        used = take_dollar(in, node, i, &out);
        failed |= !used;
        i += used ? used : strcspn(node->raw + i + 1, "$") + 1;
    }
    node->text = region_copy(in->memory, out.data ? out.data : "", out.len);
    node->len = out.len;
    node->is_unset = failed;
    buffer_free(&out);
    return !failed;
}

void interpolate_tree(const interpolation *in, config_node *root)
{
    if (root->kind == NODE_SCALAR)
        (void)interpolate_scalar(in, root);
    for (size_t i = 0; i < root->count; i++)
        interpolate_tree(in, root->items[i]);
}

const char *interpolate_text(const interpolation *in, const config_source *source, const char *text)
{
    config_node *node = tree_scalar_new(in->memory, (place){source, 0, 0, 0}, text);
    return interpolate_scalar(in, node) ? node->text : NULL;
}
