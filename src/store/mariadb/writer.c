/* Statements, written. See writer.h. */
#include "store/mariadb/writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_TEXT = 48, FIRST_STEPS = 16 };

/* --- the whole -------------------------------------------------------------------------------- */

void maria_script_clear(maria_script *s)
{
    s->text.len = 0;
    s->text.failed = 0;
    s->count = 0;
    s->failed = 0;
}

void maria_script_free(maria_script *s)
{
    mem_free(s->text.bytes);
    mem_free(s->steps);
    memset(s, 0, sizeof *s);
}

/* Nothing can be kept of a script that is not whole: it stays failed until it is cleared. */
void maria_script_keep(maria_script *s, size_t count)
{
    if (count >= s->count)
        return;
    s->text.len = count ? maria_script_end(s, count - 1) : 0;
    s->count = count;
}

void maria_script_rotate(maria_script *s)
{
    enum { SHORT = 64 };
    char text[SHORT];
    if (s->count < 2 || s->failed)
        return;
    maria_step last = s->steps[s->count - 1];
    size_t len = s->text.len - last.start;
    if (len >= SHORT)
        return;
    memcpy(text, s->text.bytes + last.start, len);
    memmove(s->text.bytes + len + 1, s->text.bytes, last.start - 1);
    memcpy(s->text.bytes, text, len);
    s->text.bytes[len] = ';';
    for (size_t i = s->count - 1; i > 0; i--) {
        s->steps[i] = s->steps[i - 1];
        s->steps[i].start += len + 1;
    }
    last.start = 0;
    s->steps[0] = last;
}

size_t maria_script_end(const maria_script *s, size_t index)
{
    return index + 1 < s->count ? s->steps[index + 1].start - 1 : s->text.len;
}

/* Stands for a step that there is no memory for. */
static _Thread_local maria_step nowhere;

static maria_step *add_step(maria_script *s)
{
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : FIRST_STEPS;
        maria_step *steps = mem_resize(s->steps, room * sizeof *steps);
        if (!steps) {
            s->failed = 1;
            return &nowhere;
        }
        s->steps = steps;
        s->room = room;
    }
    return &s->steps[s->count++];
}

/* --- values ----------------------------------------------------------------------------------- */

static void append_hex(text_buffer *to, semel_bytes bytes)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *from = bytes.data;
    char *room = text_extend(to, 2 * bytes.len + 3);
    if (!room)
        return;
    *room++ = 'x';
    *room++ = '\'';
    for (size_t i = 0; i < bytes.len; i++) {
        *room++ = digits[from[i] >> 4];
        *room++ = digits[from[i] & 15];
    }
    *room = '\'';
}

static void append_uint(text_buffer *to, uint64_t value)
{
    char digits[NUMBER_TEXT], *at = digits + sizeof digits;
    do
        *--at = (char)('0' + value % 10);
    while (value /= 10);
    text_append(to, at, (size_t)(digits + sizeof digits - at));
}

/* In parentheses: behind a minus of the application's, a second one would begin a comment. */
static void append_int(text_buffer *to, int64_t value)
{
    if (value >= 0) {
        append_uint(to, (uint64_t)value);
        return;
    }
    text_append_z(to, "(-");
    append_uint(to, 0 - (uint64_t)value);
    text_append_z(to, ")");
}

/* With an exponent it is a DOUBLE to the server, and 17 digits are all that it has. printf() asks
 * the locale what a decimal point is. */
static semel_status append_real(text_buffer *to, double value, semel_error *err)
{
    char text[NUMBER_TEXT];
    if (!isfinite(value))
        return semel_fail(err, SEMEL_EINVAL,
                          "queued statement: MariaDB has no number that is infinite or none");
    int len = snprintf(text, sizeof text, "%.16e", value);
    for (char *at = text; *at; at++)
        if (!strchr("0123456789+-e", *at))
            *at = '.';
    text_append_z(to, "(");
    text_append(to, text, (size_t)len);
    text_append_z(to, ")");
    return SEMEL_OK;
}

semel_status maria_value(text_buffer *to, const semel_value *value, semel_error *err)
{
    switch (value->kind) {
    case SEMEL_VALUE_NULL:
        text_append_z(to, "NULL");
        return SEMEL_OK;
    case SEMEL_VALUE_INT:
        append_int(to, value->integer);
        return SEMEL_OK;
    case SEMEL_VALUE_REAL:
        return append_real(to, value->real, err);
    case SEMEL_VALUE_TEXT:
        text_append_z(to, "_utf8mb4 ");
        append_hex(to, value->bytes);
        return SEMEL_OK;
    case SEMEL_VALUE_BYTES:
        append_hex(to, value->bytes);
        return SEMEL_OK;
    }
    return semel_fail(err, SEMEL_EINVAL, "queued statement: there is no kind %d of values",
                      (int)value->kind);
}

/* --- a statement ------------------------------------------------------------------------------ */

static void append_bound(text_buffer *to, maria_bound limit)
{
    char text[96];
    switch (limit.kind) {
    case PATIENT:
        return;
    case IMPATIENT:
        text_append_z(to, "SET STATEMENT innodb_lock_wait_timeout = 0 FOR ");
        return;
    case UNLOCKED:
        text_append_z(to, "SET STATEMENT lock_wait_timeout = 0 FOR ");
        return;
    case FOR_SECONDS:
        (void)snprintf(text, sizeof text, "SET STATEMENT innodb_lock_wait_timeout = %u FOR ",
                       limit.amount);
        break;
    case FOR_MS:
        (void)snprintf(text, sizeof text, "SET STATEMENT max_statement_time = %u.%03u FOR ",
                       limit.amount / 1000, limit.amount % 1000);
        break;
    }
    text_append_z(to, text);
}

maria_query maria_start(maria_script *to, const char *text, maria_bound limit)
{
    if (to->count)
        text_append_z(&to->text, ";");
    size_t start = to->text.len;
    maria_step *s = add_step(to);
    *s = (maria_step){.start = start};
    append_bound(&to->text, limit);
    return (maria_query){to, text, NULL};
}

/* Up to one of the marks, which is left out, or to the end. */
static void copy_to(maria_query *q, const char *marks)
{
    size_t len = strcspn(q->at, marks);
    text_append(&q->to->text, q->at, len);
    q->at += len;
    q->at += *q->at != 0;
}

void maria_int(maria_query *q, int64_t value)
{
    copy_to(q, "?");
    append_int(&q->to->text, value);
}

void maria_uint(maria_query *q, uint64_t value)
{
    copy_to(q, "?");
    append_uint(&q->to->text, value);
}

void maria_int_or_null(maria_query *q, int64_t value)
{
    if (value)
        maria_int(q, value);
    else
        maria_sql(q, "NULL");
}

void maria_uint_or_null(maria_query *q, uint64_t value)
{
    if (value)
        maria_uint(q, value);
    else
        maria_sql(q, "NULL");
}

void maria_bytes(maria_query *q, semel_bytes value)
{
    if (!value.data) {
        maria_sql(q, "NULL");
        return;
    }
    copy_to(q, "?");
    append_hex(&q->to->text, value);
}

void maria_text(maria_query *q, const char *value)
{
    maria_bytes(q, semel_str(value));
}

void maria_sql(maria_query *q, const char *sql)
{
    copy_to(q, "?");
    text_append_z(&q->to->text, sql);
}

void maria_ints(maria_query *q, const int64_t values[], size_t count)
{
    copy_to(q, "?");
    for (size_t i = 0; i < count; i++) {
        if (i)
            text_append_z(&q->to->text, ",");
        append_int(&q->to->text, values[i]);
    }
}

void maria_more(maria_query *q, const char *pattern)
{
    copy_to(q, "~");
    if (!q->tail)
        q->tail = q->at;
    text_append_z(&q->to->text, ", ");
    q->at = pattern;
}

void maria_rest(maria_query *q)
{
    copy_to(q, "~");
    if (q->tail)
        q->at = q->tail;
    q->tail = NULL;
}

void maria_tail(maria_query *q, const char *sql)
{
    text_append_z(&q->to->text, q->at);
    text_append_z(&q->to->text, sql);
    q->at = "";
}

void maria_chain(maria_query *q, const char *between, const char *text)
{
    maria_tail(q, between);
    q->at = text;
}

maria_step *maria_end(maria_query *q)
{
    maria_script *s = q->to;
    copy_to(q, "~");
    text_append_z(&s->text, q->tail ? q->tail : q->at);
    s->failed |= s->text.failed;
    return s->count && !s->failed ? &s->steps[s->count - 1] : &nowhere;
}

/* --- rows ------------------------------------------------------------------------------------- */

int64_t maria_column_int(const maria_row *r, unsigned column)
{
    return r->columns[column] ? strtoll(r->columns[column], NULL, 10) : 0;
}

uint64_t maria_column_uint(const maria_row *r, unsigned column)
{
    return r->columns[column] ? strtoull(r->columns[column], NULL, 10) : 0;
}

semel_bytes maria_column_bytes(const maria_row *r, unsigned column)
{
    return (semel_bytes){r->columns[column], r->columns[column] ? r->lengths[column] : 0};
}

const char *maria_column_text(const maria_row *r, unsigned column)
{
    return r->columns[column];
}
