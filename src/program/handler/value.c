/* Values: from the message to what a database or JSON takes. See value.h.
 *
 * json-c has room for integers of -2^63 to 2^64-1 and cuts others to the nearest of these, without
 * a word. So the body is searched for such an integer when it is parsed, and then a value that has
 * one of the two limits in it is refused: it may be another number. */
#include "program/handler/value.h"

#include "program/support/encoding.h"
#include "program/support/strict_json.h"

#include <json-c/json.h>
#include <json-c/json_pointer.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PLAIN = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE };

static const char cut_high[] = "18446744073709551615", cut_low[] = "-9223372036854775808";

void value_source_free(value_source *source)
{
    json_object_put(source->body);
    region_free(&source->memory);
    *source = (value_source){0};
}

/* --- the body --------------------------------------------------------------------------------- */

static void read_body(value_source *source)
{
    semel_bytes text = source->message->body;
    int is_json =
        text.len && strict_json_parse(&source->body, text, VALUE_DEPTH_MAX, &source->may_be_cut);
    source->state = is_json ? BODY_JSON : BODY_NOT_JSON;
}

static int body_is_json(value_source *source)
{
    if (source->state == BODY_UNREAD)
        read_body(source);
    return source->state == BODY_JSON;
}

static semel_status check_cut(const value_name *of, const value_source *source,
                              struct json_object *found, semel_error *err)
{
    if (!source->may_be_cut || !found || json_object_is_type(found, json_type_string))
        return SEMEL_OK;
    const char *text = json_object_to_json_string_ext(found, PLAIN);
    if (!strstr(text, cut_high) && !strstr(text, cut_low))
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EGIVEUP,
                      "%s: an integer of more than 64 bits would be changed; send it as a string",
                      of->written);
}

/* *out belongs to the source; NULL if it is null or not there. */
static semel_status find_json(struct json_object **out, const value_name *of, value_source *source,
                              semel_error *err)
{
    *out = NULL;
    if (!body_is_json(source))
        return semel_fail(err, SEMEL_EGIVEUP, "%s: the body of the message is not JSON",
                          of->written);
    if (source->body && json_pointer_get(source->body, of->argument, out) != 0)
        *out = NULL;
    return check_cut(of, source, *out, err);
}

/* --- what is not JSON ------------------------------------------------------------------------- */

static semel_bytes write_time(value_source *source, int64_t time_ms)
{
    time_t seconds = (time_t)(time_ms / 1000);
    struct tm parts;
    if (time_ms <= 0 || !gmtime_r(&seconds, &parts))
        return (semel_bytes){NULL, 0};
    return semel_str(region_printf(&source->memory, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
                                   parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                                   parts.tm_hour, parts.tm_min, parts.tm_sec,
                                   (int)(time_ms % 1000)));
}

static semel_status write_digest(semel_bytes *out, value_source *source, semel_error *err)
{
    unsigned char digest[SEMEL_DIGEST_SIZE];
    semel_status status = semel_message_digest(digest, source->message, err);
    if (status)
        return status;
    char *text = region_alloc(&source->memory, 2 * sizeof digest + 1);
    for (size_t i = 0; i < sizeof digest; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", digest[i]);
    *out = semel_str(text);
    return SEMEL_OK;
}

static int64_t attempt_of(const value_source *source)
{
    uint32_t attempt = source->unit ? semel_unit_attempt(source->unit) : 0;
    return attempt ? attempt : 1;
}

static semel_bytes key_of(const value_source *source)
{
    return source->unit ? semel_unit_key(source->unit) : (semel_bytes){NULL, 0};
}

/* The bytes of every word but json and attempt; {NULL, 0} if the message has none. */
static semel_status find_bytes(semel_bytes *out, const value_name *of, value_source *source,
                               semel_error *err)
{
    const semel_message *m = source->message;
    switch (of->word) {
    case VALUE_DIGEST:
        return write_digest(out, source, err);
    case VALUE_HEADER:
        *out = semel_message_header(m, of->argument);
        return SEMEL_OK;
    case VALUE_TIME:
        *out = write_time(source, m->time_ms);
        return SEMEL_OK;
    case VALUE_KEY:
        *out = key_of(source);
        return SEMEL_OK;
    case VALUE_ID:
    case VALUE_CORRELATION_ID:
    case VALUE_BODY:
        *out = of->word == VALUE_ID ? m->id : of->word == VALUE_BODY ? m->body : m->correlation_id;
        break;
    case VALUE_SOURCE:
        *out = semel_str(m->source);
        break;
    case VALUE_TYPE:
        *out = semel_str(m->type);
        break;
    case VALUE_TOPIC:
        *out = semel_str(m->topic);
        break;
    case VALUE_GROUP:
        *out = semel_str(m->group);
        break;
    default:
        *out = semel_str(source->inbox);
        break;
    }
    if (!out->len) /* absent and empty are the same in a message */
        *out = (semel_bytes){NULL, 0};
    return SEMEL_OK;
}

static semel_status find_text(semel_bytes *out, const value_name *of, value_source *source,
                              semel_error *err)
{
    semel_status status = find_bytes(out, of, source, err);
    if (status || encoding_is_text(out->data, out->len))
        return status;
    return semel_fail(err, SEMEL_EGIVEUP, "%s: it is not UTF-8 text", of->written);
}

/* --- for statements --------------------------------------------------------------------------- */

static semel_value text_value(semel_bytes bytes)
{
    semel_value out = {SEMEL_VALUE_TEXT, 0, 0, bytes};
    return out;
}

static semel_status real_value(semel_value *out, const value_name *of, double real,
                               semel_error *err)
{
    *out = semel_real(real);
    return isfinite(real) ? SEMEL_OK
                          : semel_fail(err, SEMEL_EGIVEUP,
                                       "%s: the number is too large for a database", of->written);
}

static semel_bytes json_string(struct json_object *string)
{
    return (semel_bytes){json_object_get_string(string),
                         (size_t)json_object_get_string_len(string)};
}

static semel_status scalar_of(semel_value *out, const value_name *of, struct json_object *found,
                              semel_error *err)
{
    switch (json_object_get_type(found)) {
    case json_type_null:
        *out = semel_null();
        return SEMEL_OK;
    case json_type_boolean:
        *out = semel_int(json_object_get_boolean(found) != 0);
        return SEMEL_OK;
    case json_type_string:
        *out = text_value(json_string(found));
        return SEMEL_OK;
    case json_type_double:
        return real_value(out, of, json_object_get_double(found), err);
    case json_type_int:
        if (json_object_get_uint64(found) <= INT64_MAX || json_object_get_int64(found) < 0) {
            *out = semel_int(json_object_get_int64(found));
            return SEMEL_OK;
        }
        break; /* as its digits */
    case json_type_object:
    case json_type_array:
        break;
    }
    *out = text_value(semel_str(json_object_to_json_string_ext(found, PLAIN)));
    return SEMEL_OK;
}

semel_status value_get(semel_value *out, const value_name *of, value_source *source,
                       semel_error *err)
{
    struct json_object *found = NULL;
    semel_bytes bytes = {NULL, 0};
    semel_status status;
    if (of->word == VALUE_ATTEMPT) {
        *out = semel_int(attempt_of(source));
        return SEMEL_OK;
    }
    if (of->word == VALUE_JSON) {
        status = find_json(&found, of, source, err);
        return status ? status : scalar_of(out, of, found, err);
    }
    status = find_bytes(&bytes, of, source, err);
    if (status)
        return status;
    *out = !bytes.data                               ? semel_null()
           : encoding_is_text(bytes.data, bytes.len) ? text_value(bytes)
                                                     : semel_blob(bytes);
    return SEMEL_OK;
}

/* --- for JSON and for text fields ------------------------------------------------------------- */

static struct json_object *new_string(semel_bytes text)
{
    return text.data ? json_object_new_string_len(text.data, (int)text.len) : NULL;
}

semel_status value_get_json(struct json_object **out, const value_name *of, value_source *source,
                            semel_error *err)
{
    semel_bytes text = {NULL, 0};
    if (of->word == VALUE_ATTEMPT) {
        *out = json_object_new_int64(attempt_of(source));
        return SEMEL_OK;
    }
    if (of->word == VALUE_JSON || (of->word == VALUE_BODY && body_is_json(source))) {
        struct json_object *found = NULL;
        value_name whole = {VALUE_JSON, "", of->written};
        semel_status status = find_json(&found, of->word == VALUE_BODY ? &whole : of, source, err);
        *out = status ? NULL : json_object_get(found);
        return status;
    }
    semel_status status = find_text(&text, of, source, err);
    *out = status ? NULL : new_string(text);
    return status;
}

semel_status value_get_text(semel_bytes *out, const value_name *of, value_source *source,
                            semel_error *err)
{
    struct json_object *found = NULL;
    semel_status status;
    *out = (semel_bytes){NULL, 0};
    if (of->word == VALUE_ATTEMPT) {
        *out = semel_str(region_printf(&source->memory, "%lld", (long long)attempt_of(source)));
        return SEMEL_OK;
    }
    if (of->word != VALUE_JSON) {
        status = find_text(out, of, source, err);
        if (!status && out->data)
            out->data = region_copy(&source->memory, out->data, out->len);
        return status;
    }
    status = find_json(&found, of, source, err);
    if (status || !found)
        return status;
    *out = json_object_is_type(found, json_type_string)
               ? json_string(found)
               : semel_str(json_object_to_json_string_ext(found, PLAIN));
    return encoding_is_text(out->data, out->len)
               ? SEMEL_OK
               : semel_fail(err, SEMEL_EGIVEUP, "%s: it has a NUL in it", of->written);
}
