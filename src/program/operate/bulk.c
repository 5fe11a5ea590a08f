/* See bulk.h. */
#include "program/operate/bulk.h"

#include "program/cli.h"
#include "program/support/show.h"

#include <stdarg.h>
#include <stdio.h>

enum { WHAT_SIZE = 4096, SIGNALLED = 128, ROWS_MAX = 100, NS_PER_MS = 1000000 };
enum { STEP_LONG_MS = 500, STEP_SHORT_MS = 100 };

int bulk_begin(bulk *b, tool *t, uint64_t total, const char *format, ...)
{
    char *what = region_alloc(&t->memory, WHAT_SIZE);
    buffer shown = {0};
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(what, WHAT_SIZE, format, arguments);
    va_end(arguments);
    show_text(&shown, what, len < WHAT_SIZE ? (size_t)len : WHAT_SIZE - 1, 0);
    *b = (bulk){.tool = t, .total = total};
    b->entry.what = region_copy(&t->memory, shown.data, shown.len);
    buffer_free(&shown);
    tool_begin_work(t);
    int status = tool_audit(t, &b->entry);
    b->is_open = !status;
    progress_begin(&b->progress, t, total);
    if (status)
        tool_end_work(t);
    return status;
}

int bulk_is_stopped(const bulk *b)
{
    return tool_is_stopped(b->tool);
}

uint32_t bulk_step(bulk *b)
{
    int64_t now = steady_clock_ns();
    int64_t took_ms = (now - b->step_ns) / NS_PER_MS;
    if (!b->rows)
        b->rows = ROWS_MAX;
    else if (took_ms > STEP_LONG_MS && b->rows > 1)
        b->rows /= 2;
    else if (took_ms < STEP_SHORT_MS && b->rows < ROWS_MAX)
        b->rows = b->rows * 2 < ROWS_MAX ? b->rows * 2 : ROWS_MAX;
    b->step_ns = now;
    return b->rows;
}

static int write_entry(bulk *b, const char *format, const char *word)
{
    buffer result = {0};
    tool_count(b->tool, word, b->done);
    show_number(&result, b->done);
    buffer_printf(&result, format, word);
    b->entry.result = result.data;
    b->entry.count = b->done;
    int status = tool_audit(b->tool, &b->entry);
    b->entry.result = "";
    buffer_free(&result);
    return status;
}

int bulk_did(bulk *b, uint64_t changed, const char *word)
{
    b->done += changed;
    int status = write_entry(b, " %s so far", word);
    progress_show(&b->progress, b->done, word);
    return status;
}

/* --json: one object for what was done. */
static void print_result(const bulk *b, const char *word)
{
    (void)printf("{\"audit\":%lld,\"changed\":%llu,\"of\":%llu,\"result\":\"%s\"}\n",
                 (long long)b->entry.id, (unsigned long long)b->done, (unsigned long long)b->total,
                 word);
    (void)fflush(stdout);
}

static void say_count(const bulk *b, const char *before, const char *word)
{
    buffer line = {0};
    buffer_text(&line, before);
    show_number(&line, b->done);
    if (b->done <= b->total) {
        buffer_text(&line, " of ");
        show_number(&line, b->total);
    }
    tool_say(b->tool, "%s %s (audit %lld)", line.data, word, (long long)b->entry.id);
    buffer_free(&line);
}

int bulk_end(bulk *b, int status, const char *word, const char *again)
{
    int stopped = tool_is_stopped(b->tool);
    if (!b->is_open)
        return status;
    progress_end(&b->progress);
    tool_end_work(b->tool);
    int written = write_entry(b, stopped || status ? " %s, then stopped" : " %s", word);
    status = status ? status : written;
    if (b->tool->options->json)
        print_result(b, word);
    if (!stopped && !status) {
        say_count(b, "", word);
        return CLI_OK;
    }
    say_count(b, "stopped; ", word);
    tool_say(b->tool, "to continue: %s", again);
    return stopped && !b->tool->host ? SIGNALLED + stopped : status;
}
