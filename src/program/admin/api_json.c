/* See api_json.h. */
#include "program/admin/api_json.h"

#include "program/support/binary.h"
#include "program/support/encoding.h"
#include "program/support/show.h"

#include <math.h>
#include <string.h>

static void lead(buffer *to, const char *name)
{
    char last = to->len ? to->data[to->len - 1] : '{';
    if (last != '{' && last != '[')
        buffer_text(to, ",");
    if (name)
        buffer_printf(to, "\"%s\":", name);
}

void put_open(buffer *to, const char *name, char bracket)
{
    lead(to, name);
    buffer_add(to, &bracket, 1);
}

void put_close(buffer *to, char bracket)
{
    buffer_add(to, &bracket, 1);
}

void put_raw(buffer *to, const char *name, const char *json)
{
    lead(to, name);
    buffer_text(to, json);
}

void put_null(buffer *to, const char *name)
{
    put_raw(to, name, "null");
}

void put_bytes(buffer *to, const char *name, semel_bytes text)
{
    lead(to, name);
    show_json(to, text.len ? text.data : "", text.len);
}

void put_text(buffer *to, const char *name, const char *text)
{
    if (text)
        put_bytes(to, name, semel_str(text));
    else
        put_null(to, name);
}

void put_int(buffer *to, const char *name, int64_t number)
{
    lead(to, name);
    buffer_printf(to, "%lld", (long long)number);
}

void put_known(buffer *to, const char *name, int64_t number)
{
    if (number < 0)
        put_null(to, name);
    else
        put_int(to, name, number);
}

void put_time(buffer *to, const char *name, int64_t ms)
{
    put_known(to, name, ms ? ms : -1);
}

void put_real(buffer *to, const char *name, double number)
{
    lead(to, name);
    if (!isfinite(number) || number < 0)
        buffer_text(to, "null");
    else
        buffer_printf(to, "%.6g", number);
}

void put_ms(buffer *to, const char *name, int64_t ns)
{
    put_real(to, name, ns < 0 ? -1 : (double)ns / 1e6);
}

void put_bool(buffer *to, const char *name, int value)
{
    put_raw(to, name, value ? "true" : "false");
}

static int is_printable(semel_bytes key)
{
    const unsigned char *at = key.data;
    for (size_t i = 0; i < key.len; i++)
        if (at[i] < ' ' || at[i] == 0x7f)
            return 0;
    return encoding_is_text(key.data, key.len);
}

void put_key(buffer *to, const char *name, semel_bytes key)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *at = key.data;
    buffer shown = {0};
    if (!key.len) {
        put_null(to, name);
        return;
    }
    show_stored_key(&shown, key);
    put_open(to, name, '{');
    if (is_printable(key)) {
        put_bytes(to, "text", key);
    } else {
        put_raw(to, "hex", "\"");
        for (size_t i = 0; i < key.len; i++) {
            buffer_add(to, &digits[at[i] >> 4], 1);
            buffer_add(to, &digits[at[i] & 15], 1);
        }
        buffer_text(to, "\"");
    }
    put_bytes(to, "shown", (semel_bytes){shown.data, shown.len});
    put_close(to, '}');
    buffer_free(&shown);
}

void put_body(buffer *to, const char *name, semel_bytes body, size_t len)
{
    put_open(to, name, '{');
    put_raw(to, "base64", "\"");
    if (body.len)
        binary_add_base64(to, body);
    buffer_text(to, "\"");
    put_int(to, "len", (int64_t)(len > body.len ? len : body.len));
    put_int(to, "kept", (int64_t)body.len);
    put_close(to, '}');
}

static void put_headers(buffer *to, const semel_message *m)
{
    put_open(to, "headers", '[');
    for (size_t i = 0; i < m->header_count; i++) {
        put_open(to, NULL, '[');
        put_text(to, NULL, m->headers[i].name);
        put_bytes(to, NULL, m->headers[i].value);
        put_close(to, ']');
    }
    put_close(to, ']');
}

void put_message(buffer *to, const char *name, const semel_message *m, size_t body_len)
{
    buffer id = {0};
    if (!m) {
        put_null(to, name);
        return;
    }
    show_key(&id, m->id);
    put_open(to, name, '{');
    put_text(to, "id", id.data);
    put_text(to, "type", m->type);
    put_text(to, "source", m->source);
    put_text(to, "group", m->group);
    put_text(to, "topic", m->topic);
    put_text(to, "content_type", m->content_type);
    put_time(to, "time", m->time_ms);
    put_headers(to, m);
    put_body(to, "body", m->body, body_len);
    put_close(to, '}');
    buffer_free(&id);
}
