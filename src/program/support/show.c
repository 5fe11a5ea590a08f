/* See show.h. */
#include "program/support/show.h"

#include "program/support/encoding.h"

#include <string.h>
#include <time.h>

enum { NS_PER_MS = 1000000, MS_PER_S = 1000 };

/* --- texts of others -------------------------------------------------------------------------- */

/* Of a sequence that is UTF-8. */
static uint32_t code_of(const unsigned char *at, size_t len)
{
    uint32_t code = len == 1 ? at[0] : at[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++)
        code = code << 6 | (at[i] & 0x3fu);
    return code;
}

/* C0, DEL, and the C1 controls, which some terminals obey; what ends a line for some readers
 * (U+2028, U+2029); and what changes the direction of the text behind it, so that a line shows
 * something else than it says. */
static int is_control(const unsigned char *at, size_t len)
{
    uint32_t code = code_of(at, len);
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

static void show_escaped(buffer *to, const unsigned char *at, size_t len)
{
    if (len == 1 && *at == '\n')
        buffer_text(to, "\\n");
    else
        for (size_t i = 0; i < len; i++)
            buffer_printf(to, "\\x%02x", at[i]);
}

void show_text(buffer *to, const void *text, size_t len, size_t most)
{
    const unsigned char *at = text;
    size_t end = most && len > most ? most : len;
    buffer_add(to, "", 0);
    for (size_t i = 0, step; i < end; i += step) {
        size_t sequence = encoding_sequence(at + i, len - i);
        step = sequence ? sequence : 1;
        if (i + step > end)
            break;
        if (!sequence || is_control(at + i, step))
            show_escaped(to, at + i, step);
        else
            buffer_add(to, at + i, step);
    }
    if (end < len)
        buffer_text(to, "...");
}

/* --- keys ------------------------------------------------------------------------------------- */

static int is_printable(const unsigned char *at, size_t len)
{
    for (size_t i = 0, step; i < len; i += step) {
        step = encoding_sequence(at + i, len - i);
        if (!step || is_control(at + i, step))
            return 0;
    }
    return len && at[0] != ' ' && at[len - 1] != ' ';
}

/* The words that introduce another form of a key. */
static int has_prefix(const char *at, size_t len)
{
    static const char *const prefixes[] = {"hex:", "base64:", "text:", "sha256:"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t prefix = strlen(prefixes[i]);
        if (len >= prefix && memcmp(at, prefixes[i], prefix) == 0)
            return 1;
    }
    return 0;
}

void show_key(buffer *to, semel_bytes key)
{
    const unsigned char *at = key.data;
    if (is_printable(at, key.len)) {
        if (has_prefix(key.data, key.len))
            buffer_text(to, "text:");
        buffer_add(to, key.data, key.len);
        return;
    }
    buffer_text(to, "hex:");
    for (size_t i = 0; i < key.len; i++)
        buffer_printf(to, "%02x", at[i]);
}

void show_stored_key(buffer *to, semel_bytes key)
{
    enum { DIGEST_MARK = 0xff, DIGEST_SIZE = 32 };
    const unsigned char *at = key.data;
    if (key.len != 1 + DIGEST_SIZE || at[0] != DIGEST_MARK) {
        show_key(to, key);
        return;
    }
    buffer_text(to, "sha256:");
    for (size_t i = 1; i < key.len; i++)
        buffer_printf(to, "%02x", at[i]);
}

void show_argument(buffer *to, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./:=@%+,";
    buffer shown = {0};
    show_text(&shown, text, strlen(text), 0);
    if (shown.len && strspn(shown.data, plain) == shown.len) {
        buffer_add(to, shown.data, shown.len);
    } else {
        buffer_text(to, "'");
        for (size_t i = 0; i < shown.len; i++)
            buffer_text(to, shown.data[i] == '\'' ? "'\\''" : (char[]){shown.data[i], 0});
        buffer_text(to, "'");
    }
    buffer_free(&shown);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void show_json_character(buffer *to, const unsigned char *at, size_t len)
{
    if (!len)
        buffer_text(to, "\xef\xbf\xbd");
    else if (*at == '"' || *at == '\\')
        buffer_printf(to, "\\%c", *at);
    else if (*at == '\n')
        buffer_text(to, "\\n");
    else if (is_control(at, len))
        buffer_printf(to, "\\u%04x", code_of(at, len));
    else
        buffer_add(to, at, len);
}

void show_json(buffer *to, const void *text, size_t len)
{
    const unsigned char *at = text;
    buffer_text(to, "\"");
    for (size_t i = 0; i < len;) {
        size_t sequence = encoding_sequence(at + i, len - i);
        show_json_character(to, at + i, sequence);
        i += sequence ? sequence : 1;
    }
    buffer_text(to, "\"");
}

/* --- numbers and times ------------------------------------------------------------------------ */

void show_number(buffer *to, uint64_t number)
{
    if (number >= 1000) {
        show_number(to, number / 1000);
        buffer_printf(to, ",%03u", (unsigned)(number % 1000));
    } else {
        buffer_printf(to, "%u", (unsigned)number);
    }
}

void show_duration(buffer *to, int64_t ns)
{
    int64_t ms = ns / NS_PER_MS, s = ms / MS_PER_S;
    if (ns < NS_PER_MS / 10)
        buffer_printf(to, "%.2f ms", (double)ns / NS_PER_MS);
    else if (ms < 10)
        buffer_printf(to, "%.1f ms", (double)ns / NS_PER_MS);
    else if (ms < MS_PER_S)
        buffer_printf(to, "%d ms", (int)ms);
    else if (s < 60)
        buffer_printf(to, "%.1f s", (double)ms / MS_PER_S);
    else if (s < 3600)
        buffer_printf(to, "%dm %ds", (int)(s / 60), (int)(s % 60));
    else if (s < 86400)
        buffer_printf(to, "%dh %dm", (int)(s / 3600), (int)(s / 60 % 60));
    else
        buffer_printf(to, "%lldd %dh", (long long)(s / 86400), (int)(s / 3600 % 24));
}

static struct tm broken_down(int64_t wall_ms, int local)
{
    struct tm parts = {0};
    time_t seconds = (time_t)(wall_ms / MS_PER_S);
    (void)(local ? localtime_r(&seconds, &parts) : gmtime_r(&seconds, &parts));
    return parts;
}

void show_clock(buffer *to, int64_t wall_ms)
{
    struct tm at = broken_down(wall_ms, 1);
    buffer_printf(to, "%02d:%02d:%02d.%03d", at.tm_hour, at.tm_min, at.tm_sec,
                  (int)(wall_ms % MS_PER_S));
}

static void show_date_and_time(buffer *to, struct tm at)
{
    buffer_printf(to, "%04d-%02d-%02d %02d:%02d:%02d", at.tm_year + 1900, at.tm_mon + 1, at.tm_mday,
                  at.tm_hour, at.tm_min, at.tm_sec);
}

void show_moment(buffer *to, int64_t wall_ms)
{
    show_date_and_time(to, broken_down(wall_ms, 1));
}

void show_moment_utc(buffer *to, int64_t wall_ms)
{
    show_date_and_time(to, broken_down(wall_ms, 0));
}

void show_rfc3339(buffer *to, int64_t wall_ms)
{
    struct tm at = broken_down(wall_ms, 0);
    buffer_printf(to, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", at.tm_year + 1900, at.tm_mon + 1,
                  at.tm_mday, at.tm_hour, at.tm_min, at.tm_sec, (int)(wall_ms % MS_PER_S));
}

int64_t wall_clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * MS_PER_S + now.tv_nsec / NS_PER_MS;
}

int64_t steady_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_MS * MS_PER_S + now.tv_nsec;
}
