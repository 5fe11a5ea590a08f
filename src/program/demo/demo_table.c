/* The table: one row per number, one column per shop. Boxes of lines on a terminal that shows
 * UTF-8, of ASCII elsewhere. */
#include "program/demo/demo_table.h"

#include <stdio.h>
#include <string.h>

enum { LABEL_WIDTH = 33, CELL_WIDTH = 15, CELL_TEXT = 48 };

typedef struct glyphs {
    const char *line, *side;
    const char *top[3], *middle[3], *bottom[3]; /* left, between columns, right */
} glyphs;

static const glyphs boxes = {"─", "│", {"╭", "┬", "╮"}, {"├", "┼", "┤"}, {"╰", "┴", "╯"}};
static const glyphs ascii = {"-", "|", {"+", "+", "+"}, {"+", "+", "+"}, {"+", "+", "+"}};

typedef struct table {
    const screen *on;
    const glyphs *with;
} table;

static void rule(const table *t, const char *const corners[3])
{
    const char *dim = screen_ink(t->on, INK_DIM), *plain = screen_ink(t->on, INK_PLAIN);
    (void)printf("%s%s", dim, corners[0]);
    for (uint32_t column = 0; column <= SHOPS; column++) {
        for (int i = 0; i < (column ? CELL_WIDTH : LABEL_WIDTH); i++)
            (void)fputs(t->with->line, stdout);
        (void)fputs(corners[column == SHOPS ? 2 : 1], stdout);
    }
    (void)printf("%s\n", plain);
}

static void side(const table *t)
{
    (void)printf("%s%s%s", screen_ink(t->on, INK_DIM), t->with->side, screen_ink(t->on, INK_PLAIN));
}

static void row(const table *t, const char *label, char cells[SHOPS][CELL_TEXT],
                const ink inks[SHOPS])
{
    side(t);
    (void)printf(" %-*s", LABEL_WIDTH - 1, label);
    for (uint32_t shop = 0; shop < SHOPS; shop++) {
        side(t);
        (void)printf("%*s%s%s%s ", CELL_WIDTH - 1 - text_width(cells[shop]), "",
                     screen_ink(t->on, inks[shop]), cells[shop], screen_ink(t->on, INK_PLAIN));
    }
    side(t);
    (void)putchar('\n');
}

/* --- kinds of rows ---------------------------------------------------------------------------- */

static void heading(const table *t)
{
    char cells[SHOPS][CELL_TEXT];
    for (uint32_t shop = 0; shop < SHOPS; shop++)
        (void)snprintf(cells[shop], CELL_TEXT, "%s", shop_names[shop]);
    row(t, "", cells, (const ink[SHOPS]){INK_BOLD, INK_BOLD});
}

static void count(const table *t, const char *label, int64_t naive, int64_t semel)
{
    char cells[SHOPS][CELL_TEXT];
    text_number(cells[0], CELL_TEXT, naive);
    text_number(cells[1], CELL_TEXT, semel);
    row(t, label, cells, (const ink[SHOPS]){INK_PLAIN, INK_PLAIN});
}

static ink mistake_ink(int64_t mistakes)
{
    return mistakes ? INK_BAD : INK_GOOD;
}

/* Numbers that should be zero. */
static void mistakes(const table *t, const char *label, int64_t naive, int64_t semel)
{
    char cells[SHOPS][CELL_TEXT];
    text_number(cells[0], CELL_TEXT, naive);
    text_number(cells[1], CELL_TEXT, semel);
    row(t, label, cells, (const ink[SHOPS]){mistake_ink(naive), mistake_ink(semel)});
}

/* Unexpected errors are shown only if there are any. */
static void surprises(const table *t, const char *label, int64_t naive, int64_t semel)
{
    if (naive || semel)
        mistakes(t, label, naive, semel);
}

static void money(const table *t, const char *label, int64_t naive, int64_t semel)
{
    char cells[SHOPS][CELL_TEXT];
    text_money(cells[0], CELL_TEXT, naive, t->on);
    text_money(cells[1], CELL_TEXT, semel, t->on);
    row(t, label, cells, (const ink[SHOPS]){mistake_ink(naive), mistake_ink(semel)});
}

static void duration(const table *t, const char *label, const supervisor supervisors[SHOPS])
{
    char cells[SHOPS][CELL_TEXT];
    for (uint32_t shop = 0; shop < SHOPS; shop++)
        (void)snprintf(cells[shop], CELL_TEXT, "%.1f s",
                       (double)(supervisors[shop].ended_us - supervisors[shop].started_us) / 1e6);
    row(t, label, cells, (const ink[SHOPS]){INK_PLAIN, INK_PLAIN});
}

void demo_table_print(const screen *on, const supervisor supervisors[SHOPS],
                      const verdict verdicts[SHOPS])
{
    const table t = {on, on->utf8 ? &boxes : &ascii};
    const verdict *n = &verdicts[0], *s = &verdicts[1];
    rule(&t, t.with->top);
    heading(&t);
    rule(&t, t.with->middle);
    count(&t, "charges due", n->due, s->due);
    count(&t, "charges made", n->made, s->made);
    mistakes(&t, "double charges", n->twice, s->twice);
    mistakes(&t, "charges missing", n->never, s->never);
    surprises(&t, "wrong charges", n->wrong, s->wrong);
    money(&t, "over-billed", n->over_cents, s->over_cents);
    rule(&t, t.with->middle);
    count(&t, "events due", n->due, s->due);
    count(&t, "events received", n->received, s->received);
    mistakes(&t, "events missing", n->events_lost, s->events_lost);
    mistakes(&t, "events doubled", n->events_doubled, s->events_doubled);
    surprises(&t, "wrong events", n->events_wrong, s->events_wrong);
    surprises(&t, "events unsent", n->unsent, s->unsent);
    surprises(&t, "dead letters", n->dead, s->dead);
    rule(&t, t.with->middle);
    count(&t, "deliveries, with redeliveries", supervisors[0].deliveries_sent,
          supervisors[1].deliveries_sent);
    count(&t, "duplicates suppressed", supervisors[0].duplicates, supervisors[1].duplicates);
    count(&t, "events sent again, recognised", supervisors[0].events_again,
          supervisors[1].events_again);
    count(&t, "kills survived", supervisors[0].kills, supervisors[1].kills);
    duration(&t, "time", supervisors);
    rule(&t, t.with->bottom);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void conclude_naive(const screen *on, const verdict *v)
{
    char twice[32], over[48], lost[32];
    if (verdict_is_exact(v)) {
        (void)puts("naive got away with it this time: no kill fell between its steps.\n"
                   "Kill it more often and it will not: semel demo --kills 200");
        return;
    }
    (void)printf("naive made %s charges too many, %s in all, and left %s unannounced.\n",
                 text_number(twice, sizeof twice, v->twice),
                 text_money(over, sizeof over, v->over_cents, on),
                 text_number(lost, sizeof lost, v->events_lost));
}

static void conclude_semel(const supervisor *sup, const verdict *v)
{
    char due[32], kills[32], what[128];
    text_number(due, sizeof due, v->due);
    text_number(kills, sizeof kills, sup->kills);
    if (verdict_is_exact(v)) {
        (void)printf("semel, killed %s times, made %s charges: each once, each announced once.\n",
                     kills, due);
        return;
    }
    (void)puts("semel is NOT exact:");
    for (size_t i = 0; verdict_complaint(what, sizeof what, v, i); i++)
        (void)printf("  %s\n", what);
}

void table_conclude(const screen *on, const supervisor supervisors[SHOPS],
                    const verdict verdicts[SHOPS])
{
    conclude_naive(on, &verdicts[0]);
    conclude_semel(&supervisors[1], &verdicts[1]);
}
