/* See message_show.h. */
#include "program/operate/message_show.h"

#include "program/support/binary.h"
#include "program/support/encoding.h"
#include "program/support/show.h"
#include "program/support/strict_json.h"

#include <stdio.h>
#include <string.h>

enum { BODY_SHOWN = 8192, JSON_DEPTH = 64 };

/* --- for people ------------------------------------------------------------------------------- */

void message_show_line(const char *title, const char *text)
{
    (void)printf("%-8s  %s\n", title, text && *text ? text : "-");
}

void message_show_headers(const semel_message *m)
{
    for (size_t i = 0; i < m->header_count; i++) {
        buffer line = {0};
        const semel_header *h = &m->headers[i];
        show_text(&line, h->name, strlen(h->name), 0);
        buffer_text(&line, ": ");
        show_text(&line, h->value.data, h->value.len, 0);
        message_show_line(i ? "" : "headers", line.data);
        buffer_free(&line);
    }
}

/* Each line of a text is one of the output. */
static void print_lines(const char *title, const char *text, size_t len)
{
    for (const char *at = text, *end = text + len; at < end;) {
        buffer line = {0};
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline ? newline : end) - at);
        show_text(&line, at, length, 0);
        (void)(title ? printf("%-8s  %s\n", at == text ? title : "", line.data)
                     : printf("%s\n", line.data));
        buffer_free(&line);
        at += length + (newline != NULL);
    }
}

void message_show_body(semel_bytes body, const char *how)
{
    if (!body.len) {
        message_show_line("body", "empty");
    } else if (!encoding_is_text(body.data, body.len)) {
        buffer line = {0};
        show_number(&line, body.len);
        buffer_printf(&line, " bytes, not text: %s >FILE", how);
        message_show_line("body", line.data);
        buffer_free(&line);
    } else {
        int is_long = body.len > BODY_SHOWN;
        print_lines("body", body.data,
                    is_long ? encoding_bytes(body.data, body.len, BODY_SHOWN) : body.len);
        if (is_long)
            (void)printf("%-8s  ... all of it: %s\n", "", how);
    }
}

void message_show_raw(semel_bytes body, int on_terminal)
{
    if (on_terminal)
        print_lines(NULL, body.data, body.len);
    else if (body.len)
        (void)fwrite(body.data, 1, body.len, stdout);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void add_member(buffer *to, const char *name, const void *text, size_t len)
{
    if (!len)
        return;
    buffer_printf(to, "%s\"%s\":", to->data[to->len - 1] == '{' ? "" : ",", name);
    show_json(to, text, len);
}

static void add_text(buffer *to, const char *name, const char *text)
{
    add_member(to, name, text, text ? strlen(text) : 0);
}

static void add_headers(buffer *to, const semel_message *m)
{
    buffer_printf(to, "%s\"headers\":[", to->data[to->len - 1] == '{' ? "" : ",");
    for (size_t i = 0; i < m->header_count; i++) {
        const semel_header *h = &m->headers[i];
        buffer_text(to, i ? ",{\"name\":" : "{\"name\":");
        show_json(to, h->name, strlen(h->name));
        buffer_text(to, ",\"value\":");
        show_json(to, h->value.data, h->value.len);
        buffer_text(to, "}");
    }
    buffer_text(to, "]");
}

/* Each object is one line, and no terminal obeys it: other JSON is a text. */
static int is_json_line(semel_bytes body)
{
    buffer shown = {0};
    show_text(&shown, body.data, body.len, 0);
    int same = shown.len == body.len;
    buffer_free(&shown);
    return same && strict_json_check(body, JSON_DEPTH, NULL);
}

static void add_body(buffer *to, semel_bytes body)
{
    if (!body.len)
        return;
    if (is_json_line(body)) {
        buffer_text(to, ",\"body\":");
        buffer_add(to, body.data, body.len);
    } else if (encoding_is_text(body.data, body.len)) {
        add_member(to, "body_text", body.data, body.len);
    } else {
        buffer_text(to, ",\"body_base64\":\"");
        binary_add_base64(to, body);
        buffer_text(to, "\"");
    }
}

void message_show_json(buffer *to, const semel_message *m)
{
    buffer time = {0};
    buffer_text(to, "{");
    add_member(to, "id", m->id.data, m->id.len);
    add_text(to, "type", m->type);
    add_text(to, "source", m->source);
    add_text(to, "topic", m->topic);
    add_text(to, "group", m->group);
    add_member(to, "correlation_id", m->correlation_id.data, m->correlation_id.len);
    add_text(to, "content_type", m->content_type);
    if (m->time_ms) {
        show_rfc3339(&time, m->time_ms);
        add_text(to, "time", time.data);
    }
    add_headers(to, m);
    add_body(to, m->body);
    buffer_text(to, "}");
    buffer_free(&time);
}
