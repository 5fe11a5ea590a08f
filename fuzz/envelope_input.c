/* Lines, split in place. A value may have NULs in it; where a number is wanted it ends at what is
 * none. */
#include "envelope_input.h"

#include "pieces.h"

#define PROPERTY(property) offsetof(amqp_basic_properties_t, property)

static amqp_bytes_t as_bytes(piece p)
{
    return (amqp_bytes_t){p.len, p.at};
}

/* --- properties ------------------------------------------------------------------------------- */

static int read_text_property(envelope_input *out, const char *name, piece value)
{
    static const struct {
        const char *name;
        amqp_flags_t flag;
        size_t offset;
    } texts[] = {{"message-id", AMQP_BASIC_MESSAGE_ID_FLAG, PROPERTY(message_id)},
                 {"content-type", AMQP_BASIC_CONTENT_TYPE_FLAG, PROPERTY(content_type)},
                 {"type", AMQP_BASIC_TYPE_FLAG, PROPERTY(type)},
                 {"app-id", AMQP_BASIC_APP_ID_FLAG, PROPERTY(app_id)},
                 {"correlation-id", AMQP_BASIC_CORRELATION_ID_FLAG, PROPERTY(correlation_id)}};
    amqp_bytes_t bytes = {value.len > 255 ? 255 : value.len, value.at}; /* AMQP has no more */
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(texts[i].name, name) == 0) {
            memcpy((char *)&out->properties + texts[i].offset, &bytes, sizeof bytes);
            out->properties._flags |= texts[i].flag;
            return 1;
        }
    return 0;
}

static void read_property(envelope_input *out, const char *name, piece value)
{
    if (read_text_property(out, name, value))
        return;
    if (strcmp(name, "redelivered") == 0) {
        out->redelivered = 1;
    } else if (strcmp(name, "counted") == 0) {
        out->counted = 1;
    } else if (strcmp(name, "routing-key") == 0) {
        out->routing_key = (amqp_bytes_t){value.len > 255 ? 255 : value.len, value.at};
    } else if (strcmp(name, "timestamp") == 0) {
        out->properties.timestamp = strtoull(value.at, NULL, 10);
        out->properties._flags |= AMQP_BASIC_TIMESTAMP_FLAG;
    }
}

/* --- headers ---------------------------------------------------------------------------------- */

static amqp_field_value_t text_value(piece text)
{
    amqp_field_value_t value = {.kind = AMQP_FIELD_KIND_UTF8};
    value.value.bytes = as_bytes(text);
    return value;
}

static amqp_field_value_t integer_value(piece text)
{
    amqp_field_value_t value = {.kind = AMQP_FIELD_KIND_I64};
    value.value.i64 = strtoll(text.at, NULL, 10);
    return value;
}

static amqp_field_value_t array_value(envelope_input *out, piece text)
{
    amqp_field_value_t value = {.kind = AMQP_FIELD_KIND_ARRAY};
    int count = 0;
    for (; text.len && count < INPUT_DEATHS_MAX; count++) {
        piece death = take_until(&text, ';');
        amqp_table_entry_t *entries = out->death_entries[count];
        entries[0] =
            (amqp_table_entry_t){amqp_cstring_bytes("queue"), text_value(take_until(&death, ','))};
        entries[1] =
            (amqp_table_entry_t){amqp_cstring_bytes("reason"), text_value(take_until(&death, ','))};
        entries[2] = (amqp_table_entry_t){amqp_cstring_bytes("count"), integer_value(death)};
        out->deaths[count].kind = AMQP_FIELD_KIND_TABLE;
        out->deaths[count].value.table = (amqp_table_t){3, entries};
    }
    value.value.array = (amqp_array_t){count, out->deaths};
    return value;
}

/* The letters are AMQP's, as RabbitMQ has them. 0 if it is none of them. */
static int read_value(amqp_field_value_t *out, envelope_input *input, char kind, piece text)
{
    int64_t number = strtoll(text.at, NULL, 10);
    *out = (amqp_field_value_t){.kind = (uint8_t)kind};
    switch (kind) {
    case AMQP_FIELD_KIND_UTF8:
    case AMQP_FIELD_KIND_BYTES:
        out->value.bytes = as_bytes(text);
        return 1;
    case AMQP_FIELD_KIND_BOOLEAN:
        out->value.boolean = number != 0;
        return 1;
    case AMQP_FIELD_KIND_I8:
    case AMQP_FIELD_KIND_U8:
        out->value.u8 = (uint8_t)number;
        return 1;
    case AMQP_FIELD_KIND_I16:
    case AMQP_FIELD_KIND_U16:
        out->value.u16 = (uint16_t)number;
        return 1;
    case AMQP_FIELD_KIND_I32:
    case AMQP_FIELD_KIND_U32:
        out->value.u32 = (uint32_t)number;
        return 1;
    case AMQP_FIELD_KIND_I64:
        out->value.i64 = number;
        return 1;
    case AMQP_FIELD_KIND_U64:
    case AMQP_FIELD_KIND_TIMESTAMP:
        out->value.u64 = strtoull(text.at, NULL, 10);
        return 1;
    case AMQP_FIELD_KIND_F32:
        out->value.f32 = strtof(text.at, NULL);
        return 1;
    case AMQP_FIELD_KIND_F64:
        out->value.f64 = strtod(text.at, NULL);
        return 1;
    case AMQP_FIELD_KIND_DECIMAL: /* 12345e2 is 123.45 */
        out->value.decimal.value = (uint32_t)number;
        out->value.decimal.decimals =
            (uint8_t)strtoul(text.at + strcspn(text.at, "e") + 1, NULL, 10);
        return 1;
    case AMQP_FIELD_KIND_VOID:
    case AMQP_FIELD_KIND_TABLE:
        return 1;
    case AMQP_FIELD_KIND_ARRAY:
        *out = array_value(input, text);
        return 1;
    default:
        return 0;
    }
}

static void read_header(envelope_input *out, char kind, piece name, piece value)
{
    amqp_table_t *headers = &out->properties.headers;
    amqp_bytes_t key = {name.len > 255 ? 255 : name.len, name.at};
    amqp_field_value_t read;
    if (headers->num_entries == INPUT_HEADERS_MAX || !read_value(&read, out, kind, value))
        return;
    out->properties._flags |= AMQP_BASIC_HEADERS_FLAG;
    headers->entries = out->entries;
    out->entries[headers->num_entries++] = (amqp_table_entry_t){key, read};
}

/* --- all of it -------------------------------------------------------------------------------- */

void envelope_input_read(envelope_input *out, const void *data, size_t size)
{
    memset(out, 0, sizeof *out);
    piece rest = pieces_of(data, size), name, value;
    out->text = rest.at;
    out->routing_key = (amqp_bytes_t){0, out->text};
    while (take_line(&name, &value, &rest))
        if (name.len > 1 && name.at[1] == ':')
            read_header(out, name.at[0], (piece){name.at + 2, name.len - 2}, value);
        else
            read_property(out, name.at, value);
    out->body = (semel_bytes){rest.at, rest.len};
}

void envelope_input_free(envelope_input *input)
{
    free(input->text);
}
