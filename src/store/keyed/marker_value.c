/* The encoding of markers. */
#include "store/keyed/marker.h"

enum {
    FIELD_STATE = 1,
    FIELD_HELD,
    FIELD_ATTEMPTS,
    FIELD_FINGERPRINT,
    FIELD_CHANGED,
    FIELD_FIRST,
    FIELD_TYPE,
    FIELD_SOURCE,
    FIELD_RECEIVED,
    FIELD_WHY,
    FIELD_RESULT,
    FIELD_LETTER_GONE,
    FIELD_UNPROVEN
};

static void take_field(keyed_marker *out, const fields_reader *at)
{
    switch (at->field) {
    case FIELD_STATE:
        out->state = (keyed_marker_state)fields_int_of(at);
        break;
    case FIELD_HELD:
        out->held = (keyed_held)fields_int_of(at);
        break;
    case FIELD_ATTEMPTS:
        out->attempts = (uint32_t)fields_int_of(at);
        break;
    case FIELD_FINGERPRINT:
        out->fingerprint = (uint64_t)fields_int_of(at);
        break;
    case FIELD_CHANGED:
        out->changed_ms = fields_int_of(at);
        break;
    case FIELD_FIRST:
        out->first_ms = fields_int_of(at);
        break;
    case FIELD_TYPE:
        out->type = fields_int_of(at);
        break;
    case FIELD_SOURCE:
        out->source = fields_int_of(at);
        break;
    case FIELD_RECEIVED:
        out->received_ms = fields_int_of(at);
        break;
    case FIELD_WHY:
        out->why = at->bytes;
        break;
    case FIELD_RESULT:
        out->has_result = fields_int_of(at) != 0;
        break;
    case FIELD_LETTER_GONE:
        out->letter_gone = fields_int_of(at) != 0;
        break;
    case FIELD_UNPROVEN:
        out->unproven = fields_int_of(at) != 0;
        break;
    default:
        break; /* of a newer version */
    }
}

int keyed_marker_read(keyed_marker *out, semel_bytes value)
{
    fields_reader reader = {.rest = value};
    *out = (keyed_marker){.state = KEYED_OPEN};
    while (fields_next(&reader))
        take_field(out, &reader);
    return !reader.damaged && out->state >= KEYED_OPEN && out->state <= KEYED_DEAD;
}

int keyed_marker_write(semel_bytes *out, mem_arena *arena, const keyed_marker *marker)
{
    fields_writer to = {.arena = arena};
    fields_int(&to, FIELD_STATE, marker->state);
    fields_int(&to, FIELD_HELD, marker->held);
    fields_int(&to, FIELD_ATTEMPTS, marker->attempts);
    fields_int(&to, FIELD_FINGERPRINT, (int64_t)marker->fingerprint);
    fields_int(&to, FIELD_CHANGED, marker->changed_ms);
    fields_int(&to, FIELD_FIRST, marker->first_ms);
    fields_int(&to, FIELD_TYPE, marker->type);
    fields_int(&to, FIELD_SOURCE, marker->source);
    fields_int(&to, FIELD_RECEIVED, marker->received_ms);
    fields_bytes(&to, FIELD_WHY, marker->why);
    fields_int(&to, FIELD_RESULT, marker->has_result);
    fields_int(&to, FIELD_LETTER_GONE, marker->letter_gone);
    fields_int(&to, FIELD_UNPROVEN, marker->unproven);
    return fields_end(out, &to);
}

int keyed_marker_known(const semel_keyed_record *record)
{
    keyed_marker marker;
    if (!record)
        return 0;
    (void)keyed_marker_read(&marker, record->value);
    return marker.held != KEYED_HELD_NEW;
}
