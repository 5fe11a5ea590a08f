/* Progress. The bars are redrawn in place a few times a second; each time the ledgers are looked
 * at, as an auditor could while the shops are open, so what is wrong is seen as it happens. */
#include "program/demo/demo_show.h"

#include "program/demo/demo_check.h"

#include <stdio.h>
#include <unistd.h>

enum { REDRAW_US = 150000, BAR_MIN = 8, BAR_MAX = 28, BESIDE_BAR = 66, QUARTERS = 4 };

/* Lines that are too long are cut meanwhile, not wrapped: a wrapped one could not be redrawn. */
#define DRAWING_BEGINS "\033[?25l\033[?7l"
#define DRAWING_ENDS   "\033[?7h\033[?25h"
#define LINE_CLEAR     "\033[K"
#define LINES_UP       "\033[2A"

/* --- before ----------------------------------------------------------------------------------- */

static void introduce(const show *self)
{
    const plan *due = self->supervisors[0].plan;
    const char *bold = screen_ink(&self->screen, INK_BOLD);
    const char *plain = screen_ink(&self->screen, INK_PLAIN);
    char payments[32], copies[32], kills[32];
    (void)fprintf(stderr,
                  "A payment provider sends %s charges to two shops, %s of them a second time.\n"
                  "Each shop is killed (SIGKILL) %s times at random moments and started again;\n"
                  "what it had not acknowledged is delivered again.\n\n"
                  "  %snaive%s  looks the payment up, charges, remembers it, publishes an event\n"
                  "  %ssemel%s  marker, charge and event in one transaction; a relay publishes\n\n",
                  text_number(payments, sizeof payments, due->payment_count),
                  text_number(copies, sizeof copies, due->delivery_count - due->payment_count),
                  text_number(kills, sizeof kills, due->kill_count), bold, plain, bold, plain);
}

void show_begin(show *out, const supervisor *supervisors)
{
    *out = (show){.screen = screen_look(STDERR_FILENO), .supervisors = supervisors};
    introduce(out);
    if (out->screen.live)
        (void)fputs(DRAWING_BEGINS, stderr);
}

/* --- during ----------------------------------------------------------------------------------- */

/* Opened when the shop has made the file: the look must not be what creates it. */
static void read_ledger(show *self, uint32_t shop)
{
    const supervisor *sup = &self->supervisors[shop];
    if (!self->ledgers[shop] && (sup->ready || sup->acknowledged) &&
        sqlite3_open_v2(sup->database, &self->ledgers[shop], SQLITE_OPEN_READWRITE, NULL)) {
        sqlite3_close(self->ledgers[shop]);
        self->ledgers[shop] = NULL;
    }
    if (self->ledgers[shop])
        check_glance(&self->twice[shop], &self->over_cents[shop], self->ledgers[shop]);
}

static void draw_bar(const show *self, const supervisor *sup)
{
    int room = self->screen.columns - BESIDE_BAR;
    int width = room < BAR_MIN ? BAR_MIN : room > BAR_MAX ? BAR_MAX : room;
    int full = (int)((uint64_t)width * sup->acknowledged / sup->plan->delivery_count);
    for (int i = 0; i < width; i++) {
        if (i == full)
            (void)fputs(screen_ink(&self->screen, INK_DIM), stderr);
        if (self->screen.utf8)
            (void)fputs(i < full ? "━" : "─", stderr);
        else
            (void)fputc(i < full ? '#' : '.', stderr);
    }
    (void)fputs(screen_ink(&self->screen, INK_PLAIN), stderr);
}

static void write_findings(const show *self, uint32_t shop)
{
    char twice[32], money[48];
    ink colour = self->twice[shop] ? INK_BAD : INK_GOOD;
    (void)fputs(screen_ink(&self->screen, colour), stderr);
    if (self->twice[shop])
        (void)fprintf(stderr, "%s charged twice: %s",
                      text_number(twice, sizeof twice, self->twice[shop]),
                      text_money(money, sizeof money, self->over_cents[shop], &self->screen));
    else
        (void)fputs("no customer charged twice", stderr);
    (void)fputs(screen_ink(&self->screen, INK_PLAIN), stderr);
}

static void draw_bars(show *self)
{
    if (self->drawn)
        (void)fputs(LINES_UP, stderr);
    self->drawn = 1;
    for (uint32_t shop = 0; shop < SHOPS; shop++) {
        const supervisor *sup = &self->supervisors[shop];
        (void)fprintf(stderr, "\r  %s  ", shop_names[shop]);
        draw_bar(self, sup);
        (void)fprintf(stderr, " %3u %%  killed %u times  ",
                      (unsigned)((uint64_t)100 * sup->acknowledged / sup->plan->delivery_count),
                      sup->kills);
        write_findings(self, shop);
        (void)fputs(LINE_CLEAR "\n", stderr);
    }
    (void)fflush(stderr);
}

static uint32_t quarters_done(const show *self)
{
    uint32_t least = QUARTERS;
    for (uint32_t shop = 0; shop < SHOPS; shop++) {
        const supervisor *sup = &self->supervisors[shop];
        uint32_t quarters =
            (uint32_t)((uint64_t)QUARTERS * sup->acknowledged / sup->plan->delivery_count);
        least = quarters < least ? quarters : least;
    }
    return least;
}

static void print_progress(show *self)
{
    uint32_t quarters = quarters_done(self);
    if (quarters <= self->quarters)
        return;
    self->quarters = quarters;
    (void)fprintf(stderr, "%3u %%", quarters * 100 / QUARTERS);
    for (uint32_t shop = 0; shop < SHOPS; shop++) {
        (void)fprintf(stderr, "   %s: killed %u times, ", shop_names[shop],
                      self->supervisors[shop].kills);
        write_findings(self, shop);
    }
    (void)fputc('\n', stderr);
}

int64_t show_update(show *self)
{
    int64_t now = now_us();
    if (now < self->next_look_us)
        return self->next_look_us;
    for (uint32_t shop = 0; shop < SHOPS; shop++)
        read_ledger(self, shop);
    if (self->screen.live)
        draw_bars(self);
    else
        print_progress(self);
    self->next_look_us = now_us() + REDRAW_US;
    return self->next_look_us;
}

void show_end(show *self)
{
    self->next_look_us = 0;
    (void)show_update(self);
    for (uint32_t shop = 0; shop < SHOPS; shop++)
        sqlite3_close(self->ledgers[shop]);
    if (self->screen.live)
        (void)fputs(DRAWING_ENDS, stderr);
    (void)fflush(stderr);
}
