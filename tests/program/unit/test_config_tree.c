/* YAML with places; substitutions; durations and sizes. */
#include "program/config/interpolate.h"
#include "program/support/units.h"

#include <setjmp.h> /* cmocka.h wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct parsed {
    region memory;
    config_source source;
    tree_fault fault;
    size_t twice;
    config_node *root;
} parsed;

static void count_twice(void *context, const config_node *map, place at, const char *name,
                        uint32_t first_line)
{
    size_t *count = context;
    (void)map, (void)at, (void)name, (void)first_line;
    (*count)++;
}

static void parse(parsed *p, const char *text)
{
    *p = (parsed){.source = {.name = "x", .text = text, .len = strlen(text), .first_line = 1}};
    p->root = tree_read(&p->memory, &p->source, count_twice, &p->twice, &p->fault);
}

static void free_parsed(parsed *p)
{
    region_free(&p->memory);
}

/* --- the tree --------------------------------------------------------------------------------- */

static void nodes_know_their_places_and_paths(void **state)
{
    parsed p;
    (void)state;
    parse(&p, "a:\n  \"b.c\": [1, { d: 'x' }]\n\xC3\xA9: z\n");
    const config_node *d = tree_find(tree_find(tree_find(p.root, "a"), "b.c")->items[1], "d");
    assert_string_equal(d->text, "x");
    assert_int_equal(d->at.line, 2);
    assert_int_equal(d->at.column, 19);
    assert_int_equal(d->at.length, 3);
    assert_string_equal(tree_path(&p.memory, d), "a[\"b.c\"][1].d");
    const config_node *z = tree_find(p.root, "\xC3\xA9");
    assert_int_equal(z->at.column, 4); /* characters, not bytes */
    free_parsed(&p);
}

static scalar_type type_of(const char *text)
{
    parsed p;
    parse(&p, text);
    scalar_type type = tree_scalar(p.root);
    free_parsed(&p);
    return type;
}

static void scalars_are_those_of_yaml_1_2(void **state)
{
    (void)state;
    assert_int_equal(type_of("true"), SCALAR_TRUE);
    assert_int_equal(type_of("FALSE"), SCALAR_FALSE);
    assert_int_equal(type_of("no"), SCALAR_STRING);
    assert_int_equal(type_of("on"), SCALAR_STRING);
    assert_int_equal(type_of("'true'"), SCALAR_STRING);
    assert_int_equal(type_of("~"), SCALAR_NULL);
    assert_int_equal(type_of("-12"), SCALAR_INTEGER);
    assert_int_equal(type_of("1_000"), SCALAR_STRING);
    assert_int_equal(type_of("1.5e-3"), SCALAR_NUMBER);
    assert_int_equal(type_of("1:30"), SCALAR_STRING);
    assert_int_equal(type_of("."), SCALAR_STRING);
}

static place part_of(parsed *p, const char *text, const char *part)
{
    parse(p, text);
    const config_node *node = tree_find(p->root, "k");
    const char *at = strstr(node->raw, part);
    return tree_part(node, (size_t)(at - node->raw), strlen(part));
}

static void parts_of_scalars_have_places(void **state)
{
    parsed p;
    (void)state;
    place at = part_of(&p, "k: \xC3\xA9 bad", "bad");
    assert_int_equal(at.column, 6);
    assert_int_equal(at.length, 3);
    free_parsed(&p);
    at = part_of(&p, "k: 'it''s bad'", "bad");
    assert_int_equal(at.column, 11);
    free_parsed(&p);
    at = part_of(&p, "k: \"a \\\" bad\"", "bad");
    assert_int_equal(at.column, 10);
    free_parsed(&p);
    at = part_of(&p, "k: |\n  one\n  two bad\n", "bad");
    assert_int_equal(at.line, 3);
    assert_int_equal(at.column, 7);
    assert_int_equal(at.length, 3);
    free_parsed(&p);
    at = part_of(&p, "k: \"a\\u0020bad\"", "bad"); /* not told exactly: the whole */
    assert_int_equal(at.column, 4);
    assert_int_equal(at.length, 12);
    free_parsed(&p);
}

static void names_are_unique_and_files_are_limited(void **state)
{
    parsed p;
    (void)state;
    parse(&p, "a: 1\nb: 2\na: 3\n");
    assert_int_equal(p.twice, 1);
    assert_string_equal(tree_find(p.root, "a")->text, "1");
    free_parsed(&p);
    buffer large = {0};
    for (int i = 0; i <= TREE_NODES_MAX; i++)
        buffer_text(&large, "- 1\n");
    parse(&p, large.data);
    assert_null(p.root);
    assert_string_equal(p.fault.code, "nodes");
    free_parsed(&p);
    while (large.len <= TREE_BYTES_MAX)
        buffer_text(&large, "# a comment of some length, which is not read at all\n");
    parse(&p, large.data);
    assert_null(p.root);
    assert_string_equal(p.fault.code, "size");
    free_parsed(&p);
    buffer_free(&large);
}

/* --- substitutions ---------------------------------------------------------------------------- */

typedef struct substituted {
    region memory;
    diagnostics found;
    const char *text; /* NULL: a problem */
} substituted;

static substituted substitute(const char *text, const char *directory)
{
    static const config_source source = {.name = "--store"};
    substituted s = {0};
    interpolation in = {&s.memory, directory, &s.found, 0};
    s.text = interpolate_text(&in, &source, text);
    return s;
}

static void expect(const char *text, const char *wanted)
{
    substituted s = substitute(text, ".");
    if (wanted) {
        assert_non_null(s.text);
        assert_string_equal(s.text, wanted);
    } else {
        assert_null(s.text);
        assert_true(s.found.errors > 0);
    }
    diagnostic_free(&s.found);
    region_free(&s.memory);
}

static void variables_are_substituted(void **state)
{
    (void)state;
    assert_int_equal(setenv("SEMEL_T", "v@/ l", 1), 0);
    assert_int_equal(setenv("SEMEL_EMPTY", "", 1), 0);
    assert_int_equal(setenv("SEMEL_LINES", "a\nb", 1), 0);
    (void)unsetenv("SEMEL_UNSET");
    expect("a${SEMEL_T}b", "av@/ lb");
    expect("${SEMEL_EMPTY}", "");
    expect("${SEMEL_EMPTY:-x}", "x");
    expect("${SEMEL_UNSET:-}", "");
    expect("${SEMEL_T:-x}", "v@/ l");
    expect("${SEMEL_T:?no}", "v@/ l");
    expect("$$ $x $$${SEMEL_T} $", "$ $x $v@/ l $");
    expect("${SEMEL_UNSET}", NULL);
    expect("${SEMEL_EMPTY:?no}", NULL);
    expect("${SEMEL_LINES}", NULL);
    expect("${1A}", NULL);
    expect("${A", NULL);
    expect("${A:x}", NULL);
}

static void values_in_urls_are_encoded(void **state)
{
    (void)state;
    assert_int_equal(setenv("SEMEL_T", "p@/:?#%", 1), 0);
    expect("postgres://u:${SEMEL_T}@h/d", "postgres://u:p%40%2F%3A%3F%23%25@h/d");
    expect("http://h/${SEMEL_T}", "http://h/p%40/%3A%3F%23%25");
    expect("http://h/?q=${SEMEL_T}", "http://h/?q=p%40%2F%3A%3F%23%25");
    expect("store:postgres://u:${SEMEL_T}@h/d#q", "store:postgres://u:p%40%2F%3A%3F%23%25@h/d#q");
    expect("${SEMEL_T}", "p@/:?#%");
    expect("sqlite:${SEMEL_T}/x.db", "sqlite:p@/:?#%/x.db");
    expect("INSERT '${SEMEL_T}'", "INSERT 'p@/:?#%'");
}

static void encoded_values_are_hidden_too(void **state)
{
    (void)state;
    assert_int_equal(setenv("SEMEL_T", "p@ss", 1), 0);
    substituted s = substitute("postgres://u:${SEMEL_T}@h/d", ".");
    buffer shown = {0};
    secret_add_masked(&shown, &s.found.hidden, "refused: p%40ss, p@ss");
    assert_string_equal(shown.data, "refused: ******, ******");
    buffer_free(&shown);
    diagnostic_free(&s.found);
    region_free(&s.memory);
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void files_are_read_if_others_cannot(void **state)
{
    char directory[] = "/tmp/semel-config-XXXXXX", path[64];
    (void)state;
    assert_non_null(mkdtemp(directory));
    (void)snprintf(path, sizeof path, "%s/secret", directory);
    write_file(path, "s3cret\n", 0600);
    substituted s = substitute("a${file:secret}b", directory);
    assert_string_equal(s.text, "as3cretb");
    buffer shown = {0};
    secret_add_masked(&shown, &s.found.hidden, "it was s3cret, really");
    assert_string_equal(shown.data, "it was ******, really");
    buffer_free(&shown);
    diagnostic_free(&s.found);
    region_free(&s.memory);
    write_file(path, "two\nlines\n", 0600);
    s = substitute("${file:secret}", directory);
    assert_null(s.text);
    diagnostic_free(&s.found);
    region_free(&s.memory);
    write_file(path, "s3cret\n", 0604);
    s = substitute("${file:secret}", directory);
    assert_null(s.text);
    assert_string_equal(s.found.items[0]->text,
                        "other users can read secret (mode 0604); fix: chmod 600 secret");
    diagnostic_free(&s.found);
    region_free(&s.memory);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0);
}

/* --- units ------------------------------------------------------------------------------------ */

static void check_duration(const char *text, units_result wanted, uint64_t ms, const char *meant)
{
    uint64_t got = 0;
    units_meant guess;
    assert_int_equal(units_duration(&got, text, "s", &guess), wanted);
    assert_true(got == ms);
    assert_string_equal(guess.text, meant);
}

static void durations_have_units(void **state)
{
    (void)state;
    check_duration("200ms", UNITS_OK, 200, "");
    check_duration("1h30m", UNITS_OK, 5400000, "");
    check_duration("2w", UNITS_OK, 1209600000, "");
    check_duration("99999999999999999999w", UNITS_OK, UINT64_MAX, "");
    check_duration("30", UNITS_MISSING, 0, "30s");
    check_duration("2 weeks", UNITS_WRONG, 0, "2w");
    check_duration("10S", UNITS_WRONG, 0, "10s");
    check_duration("30m1h", UNITS_WRONG, 0, "");
    check_duration("1h30", UNITS_WRONG, 0, "");
    check_duration("", UNITS_WRONG, 0, "");
    check_duration("-1s", UNITS_WRONG, 0, "");
    check_duration("x", UNITS_WRONG, 0, "");
    assert_string_equal(units_show_duration(9300000).text, "2h35m");
    assert_string_equal(units_show_duration(1209600000).text, "14d");
    assert_string_equal(units_show_duration(0).text, "0s");
    assert_string_equal(units_show_duration(1500).text, "1s500ms");
}

static void sizes_have_units(void **state)
{
    uint64_t bytes = 0;
    units_meant meant;
    (void)state;
    assert_int_equal(units_size(&bytes, "64KiB", NULL), UNITS_OK);
    assert_true(bytes == 65536);
    assert_int_equal(units_size(&bytes, "256MB", &meant), UNITS_WRONG);
    assert_string_equal(meant.text, "256MiB");
    assert_int_equal(units_size(&bytes, "100", &meant), UNITS_MISSING);
    assert_string_equal(meant.text, "100B");
    assert_string_equal(units_show_size(65536).text, "64KiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_know_their_places_and_paths),
        cmocka_unit_test(scalars_are_those_of_yaml_1_2),
        cmocka_unit_test(parts_of_scalars_have_places),
        cmocka_unit_test(names_are_unique_and_files_are_limited),
        cmocka_unit_test(variables_are_substituted),
        cmocka_unit_test(values_in_urls_are_encoded),
        cmocka_unit_test(encoded_values_are_hidden_too),
        cmocka_unit_test(files_are_read_if_others_cannot),
        cmocka_unit_test(durations_have_units),
        cmocka_unit_test(sizes_have_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
