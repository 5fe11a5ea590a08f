/* Keys as applications have them: UUIDs as text, 36 bytes. In time order they are UUIDv7 whose bits
 * below the millisecond are a counter (RFC 9562, 6.2), so each is greater than the one before;
 * random ones are UUIDv4. The random numbers are the same in every run. */
#include "base/uuid.h"
#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS_IN_A_MS = 5 };

const char *order_name(key_order order)
{
    return order == KEYS_RANDOM ? "random keys" : "keys in time order";
}

/* splitmix64 */
uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

void keys_begin(key_source *keys, key_order order)
{
    static int64_t start_ms; /* the same for all: the same keys again, if one begins again */
    if (!start_ms)
        start_ms = raw_now_ms();
    *keys = (key_source){.order = order, .random = 1, .ms = start_ms};
}

void keys_next(key_source *keys, char out[ID_TEXT + 1])
{
    unsigned char noise[16];
    uint64_t random[2] = {next_random(&keys->random), next_random(&keys->random)};
    memcpy(noise, random, sizeof noise);
    if (keys->order == KEYS_RANDOM) {
        int64_t first = (int64_t)(random[0] >> 16);
        uuid_v7(out, first, noise + 6);
        out[14] = '4';
        return;
    }
    noise[0] = 0;
    noise[1] = (unsigned char)keys->in_ms;
    uuid_v7(out, keys->ms, noise);
    if (++keys->in_ms == KEYS_IN_A_MS) {
        keys->in_ms = 0;
        keys->ms++;
    }
}

static void messages_reserve(message_set *set, size_t count)
{
    messages_free(set);
    set->ids = must_alloc(count * sizeof *set->ids);
    set->messages = must_alloc(count * sizeof *set->messages);
    set->pointers = must_alloc(count * sizeof(semel_message *));
    set->capacity = count;
}

void messages_make(message_set *set, key_source *keys, size_t count)
{
    static const char body[BODY_BYTES + 1] =
        "{\"order\":\"12345678\",\"amount\":4200,\"currency\":\"EUR\",\"customer\":\"c-0815\","
        "\"note\":\"the same hundred by\"}";
    if (count > set->capacity)
        messages_reserve(set, count);
    set->count = count;
    for (size_t i = 0; i < count; i++) {
        keys_next(keys, set->ids[i]);
        set->messages[i] = (semel_message){.size = sizeof set->messages[i],
                                           .id = {set->ids[i], ID_TEXT},
                                           .type = "order.paid",
                                           .body = {body, BODY_BYTES}};
        set->pointers[i] = &set->messages[i];
    }
}

void messages_address(message_set *set)
{
    static const char body[BROKER_BODY + 1] =
        "{\"order\":\"12345678\",\"amount\":4200,\"currency\":\"EUR\",\"customer\":\"c-0815\","
        "\"note\":\"two hundred bytes, since a message that travels by a broker has to say for "
        "itself "
        "what the tables of some database know\"}";
    for (size_t i = 0; i < set->count; i++) {
        set->messages[i].topic = BROKER_TOPIC;
        set->messages[i].body = (semel_bytes){body, BROKER_BODY};
        set->messages[i].time_ms = raw_now_ms();
    }
}

void messages_free(message_set *set)
{
    free(set->ids);
    free(set->messages);
    free((void *)set->pointers);
    *set = (message_set){0};
}
