/* See outcome_line.h. */
#include "program/watch/outcome_line.h"

#include "program/support/encoding.h"
#include "program/support/json_scan.h"
#include "program/support/show.h"
#include "program/support/strict_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEPTH_MAX = 2, NS_PER_US = 1000, OUTCOME_WIDTH = 9, TOOK_WIDTH = 6, MS_PER_S = 1000 };

/* --- writing ---------------------------------------------------------------------------------- */

/* In a column that is as wide as the widest one so far. */
static void add_padded(buffer *to, const char *text, size_t *width)
{
    buffer shown = {0};
    show_text(&shown, text, strlen(text), 0);
    size_t wide = shown.data ? encoding_characters(shown.data, shown.len) : 0;
    *width = wide > *width ? wide : *width;
    buffer_printf(to, "%s%*s  ", shown.data ? shown.data : "", (int)(*width - wide), "");
    buffer_free(&shown);
}

static int is_today(int64_t at_ms)
{
    struct tm then, now;
    time_t then_s = (time_t)(at_ms / MS_PER_S), now_s = (time_t)(wall_clock_ms() / MS_PER_S);
    (void)localtime_r(&then_s, &then);
    (void)localtime_r(&now_s, &now);
    return then.tm_year == now.tm_year && then.tm_yday == now.tm_yday;
}

static void add_reason(buffer *to, const outcome_line *line)
{
    if (line->attempt)
        buffer_printf(to, "attempt %u", line->attempt);
    if (line->attempt && line->attempts_max)
        buffer_printf(to, " of %u", line->attempts_max);
    if (line->attempt)
        buffer_text(to, ": ");
    show_text(to, line->error, strlen(line->error), 0);
}

void outcome_line_write(buffer *to, const outcome_line *line, outcome_widths *widths)
{
    buffer took = {0};
    if (is_today(line->at_ms))
        show_clock(to, line->at_ms);
    else
        show_moment(to, line->at_ms);
    buffer_text(to, "  ");
    add_padded(to, line->inbox, &widths->inbox);
    add_padded(to, line->key, &widths->key);
    if (line->took_us)
        show_duration(&took, line->took_us * NS_PER_US);
    const char *shown = took.data ? took.data : "";
    if (line->error)
        buffer_printf(to, "%-*s  %-*s  ", OUTCOME_WIDTH, line->outcome, TOOK_WIDTH, shown);
    else if (*shown)
        buffer_printf(to, "%-*s  %s", OUTCOME_WIDTH, line->outcome, shown);
    else
        buffer_text(to, line->outcome);
    if (line->error)
        add_reason(to, line);
    buffer_text(to, "\n");
    buffer_free(&took);
}

/* --- reading ---------------------------------------------------------------------------------- */

static const char *text_of(semel_bytes line, const char *name, region *memory)
{
    size_t len;
    semel_bytes value = scan_find(line, name);
    return value.data ? scan_text(&len, memory, value) : NULL;
}

static int64_t number_of(semel_bytes line, const char *name)
{
    semel_bytes value = scan_find(line, name);
    return value.data ? strtoll(value.data, NULL, 10) : 0;
}

/* 2026-03-14T01:41:15.402Z */
static int64_t time_of(const char *text)
{
    struct tm at = {0};
    int ms = 0;
    if (!text || sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ", &at.tm_year, &at.tm_mon, &at.tm_mday,
                        &at.tm_hour, &at.tm_min, &at.tm_sec, &ms) != 7)
        return 0;
    at.tm_year -= 1900;
    at.tm_mon -= 1;
    return (int64_t)timegm(&at) * MS_PER_S + ms;
}

int outcome_line_read(outcome_line *out, const char *json, size_t len, region *memory)
{
    semel_bytes line = {json, len};
    if (!strict_json_check(line, DEPTH_MAX, NULL))
        return 0;
    *out = (outcome_line){.at_ms = time_of(text_of(line, "at", memory)),
                          .inbox = text_of(line, "inbox", memory),
                          .key = text_of(line, "key", memory),
                          .outcome = text_of(line, "outcome", memory),
                          .took_us = number_of(line, "took_us"),
                          .attempt = (uint32_t)number_of(line, "attempt"),
                          .attempts_max = (uint32_t)number_of(line, "attempts_max"),
                          .error = text_of(line, "error", memory)};
    return out->at_ms && out->inbox && out->key && out->outcome;
}

uint64_t outcome_line_lost(const char *json, size_t len)
{
    semel_bytes line = {json, len};
    int64_t lost = strict_json_check(line, DEPTH_MAX, NULL) ? number_of(line, "lost") : 0;
    return lost > 0 ? (uint64_t)lost : 0;
}
