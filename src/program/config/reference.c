/* See reference.h. */
#include "program/config/reference.h"

#include "program/config/describe.h"
#include "program/support/roff.h"

#include <string.h>

typedef void visitor(buffer *out, region *memory, const section *of);

/* A section, then those inside it, each once. */
static void visit(buffer *out, region *memory, const section *of, visitor *each,
                  const section **seen, size_t *count)
{
    for (size_t i = 0; i < *count; i++)
        if (seen[i] == of)
            return;
    seen[(*count)++] = of;
    each(out, memory, of);
    for (size_t i = 0; i < of->count; i++)
        if (of->options[i].inner)
            visit(out, memory, of->options[i].inner, each, seen, count);
}

static void visit_all(buffer *out, visitor *each)
{
    const section *seen[64] = {NULL};
    size_t count = 0;
    region memory = {0};
    visit(out, &memory, &section_config, each, seen, &count);
    region_free(&memory);
}

/* --- help ------------------------------------------------------------------------------------- */

static void help_section(buffer *out, region *memory, const section *of)
{
    buffer_printf(out, "\n%s%s%s\n", of->title, *of->text ? ": " : "", of->text);
    for (size_t i = 0; i < of->count; i++) {
        const option *next = &of->options[i];
        const char *fallback = describe_default(next);
        buffer_printf(out, "  %-18s %s\n", next->name, next->text);
        buffer_printf(out, "  %-18s %s%s%s\n", "", describe_values(memory, next),
                      !*fallback                      ? ""
                      : next->flags & OPTION_REQUIRED ? "; "
                                                      : "; default: ",
                      fallback);
    }
}

void reference_help(buffer *out)
{
    visit_all(out, help_section);
}

/* --- the page --------------------------------------------------------------------------------- */

static void add_cell(buffer *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            buffer_text(out, "\\");
        buffer_add(out, text, 1);
    }
    buffer_text(out, " | ");
}

static void markdown_option(buffer *out, region *memory, const option *of)
{
    buffer_printf(out, "| `%s` | ", of->name);
    add_cell(out, describe_values(memory, of));
    add_cell(out, describe_default(of));
    buffer text = {0};
    buffer_text(&text, of->text);
    if (of->flags & OPTION_MAIN)
        buffer_text(&text, "; may be written as the value of the section alone");
    if (of->example)
        buffer_printf(&text, "; `%s: %s`", of->name, of->example);
    add_cell(out, text.data);
    buffer_free(&text);
    if (of->c_name)
        buffer_printf(out, "`%s` ", of->c_name);
    buffer_text(out, "|\n");
}

/* Words in lines of at most 120 columns. */
static void add_wrapped(buffer *out, const char *text)
{
    enum { WIDTH = 120 };
    size_t used = 0;
    while (*text) {
        size_t len = strcspn(text, " ");
        if (used && used + 1 + len > WIDTH) {
            buffer_text(out, "\n");
            used = 0;
        }
        buffer_printf(out, "%s%.*s", used ? " " : "", (int)len, text);
        used += len + (used > 0);
        text += len + (text[len] == ' ');
    }
    buffer_text(out, "\n\n");
}

static void markdown_section(buffer *out, region *memory, const section *of)
{
    buffer_printf(out, "\n## %s\n\n", of->title);
    if (*of->text)
        add_wrapped(out, of->text);
    buffer_text(out, "| option | values | default | meaning | in C |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < of->count; i++)
        markdown_option(out, memory, &of->options[i]);
}

void reference_markdown(buffer *out)
{
    buffer_text(out,
                "# The configuration\n\n"
                "Made by `semel config reference` from the table of options; a test compares them. "
                "`semel config explain PATH`\n"
                "says the same about one option, and where its value comes from; `semel schema` "
                "is a JSON Schema for editors.\n\n"
                "- A section with one main option (`url`, `command`) can be written as that "
                "option's value alone; a list with one\n"
                "  item needs no brackets; paths are relative to the config file.\n"
                "- Durations have a unit: `200ms`, `5s`, `1h30m`, `14d`, `2w`. So do sizes: "
                "`64KiB`. Booleans are `true` and `false`.\n"
                "- Substitutions in values: `${NAME}`, `${NAME:-default}`, `${NAME:?message}`, "
                "`${file:PATH}`, and `$$` for a dollar\n"
                "  sign. Behind the `//` of a URL, what is substituted is percent-encoded.\n"
                "- `--set PATH=VALUE` overrides the file, with paths such as "
                "`inboxes[\"mail.receipt\"].timeout`.\n");
    visit_all(out, markdown_section);
}

/* --- the manual page -------------------------------------------------------------------------- */

static void manual_option(buffer *out, region *memory, const option *of)
{
    const char *fallback = describe_default(of);
    const char *between = !*fallback ? "" : of->flags & OPTION_REQUIRED ? "; " : "; default: ";
    roff_item(out, of->name);
    roff_line(out, region_printf(memory, "%s; %s%s%s", of->text, describe_values(memory, of),
                                 between, fallback));
    if (of->flags & OPTION_MAIN)
        roff_line(out, "(may be written as the value of the section alone)");
    if (of->example)
        roff_example(out, region_printf(memory, "%s: %s", of->name, of->example));
}

static void manual_section(buffer *out, region *memory, const section *of)
{
    roff_heading(out, of->title);
    if (*of->text)
        roff_line(out, of->text);
    for (size_t i = 0; i < of->count; i++)
        manual_option(out, memory, &of->options[i]);
}

void reference_manual(buffer *out)
{
    visit_all(out, manual_section);
}
