/* Foreign publishers put all of AMQP's types into headers; a message's headers are bytes. So
 * numbers become the text that a person would write: floating point in as few digits as give the
 * same number back. */
#include "transport/rabbitmq/envelope_value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rabbit_bytes_are(amqp_bytes_t bytes, const char *text)
{
    return bytes.len == strlen(text) && memcmp(bytes.bytes, text, bytes.len) == 0;
}

const amqp_field_value_t *rabbit_table_find(const amqp_table_t *table, const char *key)
{
    for (int i = 0; i < table->num_entries; i++)
        if (rabbit_bytes_are(table->entries[i].key, key))
            return &table->entries[i].value;
    return NULL;
}

int rabbit_value_bytes(amqp_bytes_t *out, const amqp_field_value_t *value)
{
    if (value->kind != AMQP_FIELD_KIND_UTF8 && value->kind != AMQP_FIELD_KIND_BYTES)
        return 0;
    *out = value->value.bytes;
    return 1;
}

int rabbit_value_integer(int64_t *out, const amqp_field_value_t *value)
{
    switch (value->kind) {
    case AMQP_FIELD_KIND_I8:
        *out = (int)value->value.i8;
        return 1;
    case AMQP_FIELD_KIND_U8:
        *out = value->value.u8;
        return 1;
    case AMQP_FIELD_KIND_I16:
        *out = value->value.i16;
        return 1;
    case AMQP_FIELD_KIND_U16:
        *out = value->value.u16;
        return 1;
    case AMQP_FIELD_KIND_I32:
        *out = value->value.i32;
        return 1;
    case AMQP_FIELD_KIND_U32:
        *out = value->value.u32;
        return 1;
    case AMQP_FIELD_KIND_I64:
        *out = value->value.i64;
        return 1;
    case AMQP_FIELD_KIND_U64:
        *out = value->value.u64 > INT64_MAX ? INT64_MAX : (int64_t)value->value.u64;
        return 1;
    default:
        return 0;
    }
}

/* --- as text ---------------------------------------------------------------------------------- */

/* The locale's decimal point, whatever its bytes, becomes a dot. */
static size_t make_dot(char *text)
{
    size_t len = 0;
    for (const char *at = text; *at; at++) {
        int number = (*at >= '0' && *at <= '9') || *at == '+' || *at == '-' ||
                     (*at >= 'a' && *at <= 'z'); /* e, nan, inf */
        if (number)
            text[len++] = *at;
        else if (len && text[len - 1] != '.')
            text[len++] = '.';
    }
    text[len] = 0;
    return len;
}

static int reads_back(const char *text, double number, int is_single)
{
    double back = strtod(text, NULL);
    return is_single ? (float)back == (float)number : back == number;
}

static size_t print_float(char out[RABBIT_NUMBER_ROOM], double number, int is_single)
{
    const int most = is_single ? 9 : 17;
    int digits = is_single ? 6 : 15;
    do
        (void)snprintf(out, RABBIT_NUMBER_ROOM, "%.*g", digits, number);
    while (++digits <= most && !reads_back(out, number, is_single));
    return make_dot(out);
}

/* 12345 with two decimals is 123.45; 5 with two is 0.05. */
static size_t print_decimal(char out[RABBIT_NUMBER_ROOM], amqp_decimal_t decimal)
{
    char digits[RABBIT_NUMBER_ROOM];
    int len = snprintf(digits, sizeof digits, "%0*" PRIu32, decimal.decimals + 1, decimal.value);
    int whole = len - decimal.decimals;
    len = snprintf(out, RABBIT_NUMBER_ROOM, "%.*s%s%s", whole, digits, decimal.decimals ? "." : "",
                   digits + whole);
    return (size_t)len;
}

size_t rabbit_value_print(char out[RABBIT_NUMBER_ROOM], const amqp_field_value_t *value)
{
    int64_t number;
    switch (value->kind) {
    case AMQP_FIELD_KIND_BOOLEAN:
        return (size_t)snprintf(out, RABBIT_NUMBER_ROOM, "%s",
                                value->value.boolean ? "true" : "false");
    case AMQP_FIELD_KIND_F32:
        return print_float(out, value->value.f32, 1);
    case AMQP_FIELD_KIND_F64:
        return print_float(out, value->value.f64, 0);
    case AMQP_FIELD_KIND_DECIMAL:
        return print_decimal(out, value->value.decimal);
    case AMQP_FIELD_KIND_U64:
    case AMQP_FIELD_KIND_TIMESTAMP:
        return (size_t)snprintf(out, RABBIT_NUMBER_ROOM, "%" PRIu64, value->value.u64);
    default:
        if (!rabbit_value_integer(&number, value))
            return 0;
        return (size_t)snprintf(out, RABBIT_NUMBER_ROOM, "%" PRId64, number);
    }
}
