/* Spaces, numbers, versions and tokens: what the files of the layer make keys of.
 *
 * A number is the store's time in milliseconds, shifted by 20 bits that are random, or one more
 * than the last one of this process, whichever is larger. Two processes may make the same one;
 * whoever writes a record with it expects that there is none, and takes another number if there
 * is. */
#include "store/keyed/keyed.h"

#include <string.h>
#include <unistd.h>

enum { NUMBER_SHIFT = 20, HEX_DIGITS = 16 };

keyed_space keyed_space_of(char kind, int64_t scope)
{
    static const char digits[] = "0123456789abcdef";
    keyed_space space = {.text = {kind, '/'}, .len = 2 + HEX_DIGITS};
    for (int i = 0; i < HEX_DIGITS; i++)
        space.text[2 + i] = digits[(uint64_t)scope >> (4 * (HEX_DIGITS - 1 - i)) & 15U];
    return space;
}

keyed_space keyed_space_plain(char kind)
{
    return (keyed_space){.text = {kind}, .len = 1};
}

semel_bytes keyed_space_bytes(const keyed_space *space)
{
    return (semel_bytes){space->text, space->len};
}

void keyed_number_write(unsigned char out[KEYED_NUMBER_LEN], int64_t number)
{
    for (int i = 0; i < KEYED_NUMBER_LEN; i++)
        out[i] = (unsigned char)((uint64_t)number >> (8 * (KEYED_NUMBER_LEN - 1 - i)));
}

int64_t keyed_number_read(const unsigned char in[KEYED_NUMBER_LEN])
{
    uint64_t number = 0;
    for (int i = 0; i < KEYED_NUMBER_LEN; i++)
        number = number << 8 | in[i];
    return (int64_t)number;
}

static atomic_int_least64_t no_skew;
atomic_int_least64_t *keyed_skew_ms = &no_skew;

/* Of the driver or, where it is this process alone that uses the database, of the process. */
static semel_status read_clock(const keyed_store *store, int64_t *out_ms, uint32_t *error_ms,
                               semel_error *err)
{
    if (store->driver->now)
        return store->driver->now(store->state, out_ms, error_ms, err);
    *out_ms = seam_steady_ms(store->seam) + store->offset_ms;
    *error_ms = 0;
    return SEMEL_OK;
}

semel_status keyed_now(keyed_store *store, int64_t *out_ms, uint32_t *error_ms, semel_error *err)
{
    uint32_t ignored = 0;
    int64_t now_ms = 0;
    semel_status status = read_clock(store, &now_ms, error_ms ? error_ms : &ignored, err);
    if (!status)
        *out_ms = now_ms + atomic_load_explicit(keyed_skew_ms, memory_order_relaxed);
    return status;
}

semel_status keyed_number(keyed_store *store, int64_t least, int64_t *out, semel_error *err)
{
    int64_t now_ms;
    semel_status status = keyed_now(store, &now_ms, NULL, err);
    if (status)
        return status;
    uint64_t by_time = (uint64_t)(now_ms > 0 ? now_ms : 1) << NUMBER_SHIFT;
    uint64_t spread = seam_random_below(store->seam, (uint64_t)1 << (NUMBER_SHIFT - 1));
    uint_least64_t last = atomic_load(&store->last_number);
    uint64_t number;
    do {
        number = last >= by_time ? last + 1 : by_time + spread;
        if (least > 0 && number < (uint64_t)least)
            number = (uint64_t)least;
    } while (!atomic_compare_exchange_weak(&store->last_number, &last, number));
    *out = (int64_t)number;
    return SEMEL_OK;
}

void keyed_new_version(keyed_store *store, unsigned char version[SEMEL_KEYED_VERSION_LEN])
{
    store->seam->random(store->seam->context, version, SEMEL_KEYED_VERSION_LEN);
}

/* Databases keep it as a signed number, so it is positive. */
uint64_t keyed_new_token(keyed_store *store)
{
    uint64_t token;
    do {
        token = seam_random(store->seam) >> 1;
    } while (!token);
    return token;
}

int keyed_is_over(int64_t until_ms, int64_t now_ms, uint32_t error_ms)
{
    return now_ms - (int64_t)error_ms >= until_ms;
}

int keyed_same(semel_bytes a, semel_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

semel_status keyed_check_process(const keyed_store *store, semel_error *err)
{
    if (store->pid == getpid())
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EMISUSE,
                      "this store was opened before fork(); open one in the child");
}
