/* The application's own writes: a PartiQL statement with a question mark for each value, or an item
 * of TransactItems in JSON, in which ? or the string "?" stands for a value, in the order of the
 * text:
 *
 *     UPDATE stock SET n = n - ? WHERE id = ?
 *     {"Update":{"TableName":"stock","Key":{"id":"?"},"UpdateExpression":"ADD n :n",
 *      "ExpressionAttributeValues":{":n":"?"}}}
 *
 * What can be seen in the text is checked when it is queued; DynamoDB finds the rest. */
#include "base/utf8.h"
#include "store/dynamodb/dynamodb.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

int dynamo_is_json(const char *statement)
{
    return statement[strspn(statement, " \t\r\n")] == '{';
}

/* --- values ----------------------------------------------------------------------------------- */

static semel_status check_value(const semel_value *value, size_t number, semel_error *err)
{
    if (value->kind == SEMEL_VALUE_REAL && !isfinite(value->real))
        return semel_fail(err, SEMEL_EINVAL,
                          "value %zu is not a finite number; DynamoDB has no other", number);
    if (value->kind == SEMEL_VALUE_TEXT && !utf8_valid(value->bytes.data, value->bytes.len))
        return semel_fail(err, SEMEL_EINVAL, "value %zu is not UTF-8", number);
    return SEMEL_OK;
}

static void write_value(text_buffer *to, const semel_value *value)
{
    char text[64];
    switch (value->kind) {
    case SEMEL_VALUE_INT:
        dynamo_write_number(to, value->integer);
        break;
    case SEMEL_VALUE_REAL:
        (void)snprintf(text, sizeof text, "{\"N\":\"%.17g\"}", value->real);
        text_append_z(to, text);
        break;
    case SEMEL_VALUE_TEXT:
        text_append_z(to, "{\"S\":");
        text_append_json(to, value->bytes.data, value->bytes.len);
        text_append_z(to, "}");
        break;
    case SEMEL_VALUE_BYTES:
        dynamo_write_bytes(to, value->bytes);
        break;
    case SEMEL_VALUE_NULL:
    default:
        text_append_z(to, "{\"NULL\":true}");
        break;
    }
}

static semel_status wrong_count(size_t marks, size_t count, semel_error *err)
{
    return semel_fail(err, SEMEL_EINVAL, "the statement has %zu question marks, and %zu values",
                      marks, count);
}

/* --- PartiQL ---------------------------------------------------------------------------------- */

/* Question marks outside of '...' and "...", and where a second statement begins (0: nowhere). */
static size_t count_marks(const char *text, size_t *second)
{
    size_t marks = 0;
    char quote = 0;
    *second = 0;
    for (const char *at = text; *at; at++) {
        if (quote) {
            quote = *at == quote ? 0 : quote; /* a doubled one ends and begins */
        } else if (*at == '\'' || *at == '"') {
            quote = *at;
        } else if (*at == '?') {
            marks++;
        } else if (*at == ';' && at[1 + strspn(at + 1, " \t\r\n;")]) {
            *second = (size_t)(at - text) + 1;
        }
    }
    return marks;
}

static semel_status check_partiql(const char *text, size_t count, semel_error *err)
{
    static const char *const verbs[] = {"INSERT", "UPDATE", "DELETE", "EXISTS"};
    size_t second, marks = count_marks(text, &second);
    const char *first = text + strspn(text, " \t\r\n");
    int known = 0;
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        size_t len = strlen(verbs[i]);
        known |= strncasecmp(first, verbs[i], len) == 0 && !isalnum((unsigned char)first[len]);
    }
    if (!known)
        return semel_fail(err, SEMEL_EINVAL,
                          "a queued write on DynamoDB is a PartiQL statement that begins with "
                          "INSERT, UPDATE, DELETE or EXISTS, or an item of TransactItems in JSON");
    if (second)
        return semel_fail(err, SEMEL_EINVAL, "one statement at a time: another begins at byte %zu",
                          second + 1);
    return marks == count ? SEMEL_OK : wrong_count(marks, count, err);
}

static void write_partiql(text_buffer *to, const semel_keyed_change *change)
{
    size_t len = strlen(change->statement);
    while (len && strchr("; \t\r\n", change->statement[len - 1]))
        len--;
    text_append_z(to, "{\"Statement\":");
    text_append_json(to, change->statement, len);
    for (size_t i = 0; i < change->count; i++) {
        text_append_z(to, i ? "," : ",\"Parameters\":[");
        write_value(to, &change->values[i]);
    }
    text_append_z(to, change->count ? "]}" : "}");
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* Writes it with a value in place of each "?"; `values` NULL: counts them only. */
static size_t write_with_values(text_buffer *to, json_object *json, const semel_value values[],
                                size_t count, size_t used)
{
    const char *comma = "";
    if (json_object_is_type(json, json_type_object)) {
        text_append_z(to, "{");
        json_object_object_foreach(json, name, member)
        {
            text_append_z(to, comma);
            text_append_json(to, name, strlen(name));
            text_append_z(to, ":");
            used = write_with_values(to, member, values, count, used);
            comma = ",";
        }
        text_append_z(to, "}");
    } else if (json_object_is_type(json, json_type_array)) {
        text_append_z(to, "[");
        for (size_t i = 0; i < json_object_array_length(json); i++) {
            text_append_z(to, i ? "," : "");
            used = write_with_values(to, json_object_array_get_idx(json, i), values, count, used);
        }
        text_append_z(to, "]");
    } else if (json_object_is_type(json, json_type_string) &&
               strcmp(json_object_get_string(json), "?") == 0) {
        if (values && used < count)
            write_value(to, &values[used]);
        used++;
    } else {
        text_append_z(to, json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN));
    }
    return used;
}

/* A question mark outside of strings becomes a string, and so the text becomes JSON. */
static void quote_marks(text_buffer *to, const char *text)
{
    int inside = 0;
    for (; *text; text++) {
        if (inside && *text == '\\' && text[1])
            text_append(to, text++, 1);
        else if (*text == '"')
            inside = !inside;
        if (!inside && *text == '?')
            text_append_z(to, "\"?\"");
        else
            text_append(to, text, 1);
    }
    text_append(to, "", 1);
}

static json_object *parse_json(const char *text)
{
    text_buffer quoted = {0};
    json_object *out = NULL;
    json_tokener *reader = json_tokener_new_ex(DYNAMO_JSON_DEPTH);
    quote_marks(&quoted, text);
    if (reader && !quoted.failed) {
        json_tokener_set_flags(reader, JSON_TOKENER_STRICT);
        out = json_tokener_parse_ex(reader, quoted.bytes, (int)quoted.len);
    }
    if (reader)
        json_tokener_free(reader);
    mem_free(quoted.bytes);
    return out;
}

static semel_status parse_item(json_object **out, const char *text, semel_error *err)
{
    static const char *const actions[] = {"Put", "Update", "Delete", "ConditionCheck"};
    *out = parse_json(text);
    int fine = *out && json_object_is_type(*out, json_type_object) &&
               json_object_object_length(*out) == 1,
        known = 0;
    for (size_t i = 0; fine && i < sizeof actions / sizeof *actions; i++)
        known |= dynamo_member(dynamo_member(*out, actions[i], json_type_object), "TableName",
                               json_type_string) != NULL;
    if (known)
        return SEMEL_OK;
    json_object_put(*out);
    *out = NULL;
    return semel_fail(err, SEMEL_EINVAL,
                      "a queued write in JSON is one item of TransactItems: an object with a Put, "
                      "Update, Delete or ConditionCheck that has a TableName");
}

static semel_status check_json(const dynamo_store *store, const char *text, size_t count,
                               semel_error *err)
{
    json_object *item;
    text_buffer none = {0};
    semel_status status = parse_item(&item, text, err);
    if (status)
        return status;
    size_t marks = write_with_values(&none, item, NULL, 0, 0);
    json_object_object_foreach(item, name, action)
    {
        (void)name;
        json_object *table = dynamo_member(action, "TableName", json_type_string);
        if (strcmp(json_object_get_string(table), store->at.table) == 0)
            status =
                semel_fail(err, SEMEL_EINVAL, "a queued write is not for semel's own table \"%s\"",
                           store->at.table);
    }
    if (!status && none.failed)
        status = dynamo_no_memory(err);
    mem_free(none.bytes);
    json_object_put(item);
    return status || marks == count ? status : wrong_count(marks, count, err);
}

/* --- both ------------------------------------------------------------------------------------- */

semel_status dynamo_queue(void *state, const char *statement, const semel_value values[],
                          size_t count, semel_error *err)
{
    size_t len = statement ? strlen(statement) : 0;
    semel_status status = SEMEL_OK;
    if (!len || !utf8_valid(statement, len))
        return semel_fail(err, SEMEL_EINVAL, "a queued write is a text in UTF-8, and not empty");
    for (size_t i = 0; !status && values && i < count; i++)
        status = check_value(&values[i], i + 1, err);
    if (status)
        return status;
    return dynamo_is_json(statement) ? check_json(state, statement, count, err)
                                     : check_partiql(statement, count, err);
}

semel_status dynamo_write_foreign(text_buffer *to, const semel_keyed_change *change,
                                  semel_error *err)
{
    json_object *item;
    if (!dynamo_is_json(change->statement)) {
        write_partiql(to, change);
        return SEMEL_OK;
    }
    semel_status status = parse_item(&item, change->statement, err);
    if (status)
        return status;
    size_t used = write_with_values(to, item, change->values, change->count, 0);
    json_object_put(item);
    return used == change->count ? SEMEL_OK : wrong_count(used, change->count, err);
}
