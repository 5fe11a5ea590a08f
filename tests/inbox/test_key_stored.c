/* The key as it is stored: two keys that differ anywhere are two keys. */
#include "core/key.h"
#include "support/fixture/fixture.h"

static uint64_t random_state;

static uint32_t next_random(uint32_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % below;
}

enum { KEY_ROOM = 1200 };

typedef struct bytes {
    size_t len;
    unsigned char data[KEY_ROOM];
} bytes;

static void make_random(bytes *out)
{
    static const size_t lengths[] = {1, 2, 31, 32, 33, 34, 64, 254, 255, 256, 257, 512, 1024};
    static const unsigned char firsts[] = {0xff, 0xfe, 0x00, 'a'};
    out->len = lengths[next_random(sizeof lengths / sizeof *lengths)];
    for (size_t i = 0; i < out->len; i++)
        out->data[i] = (unsigned char)next_random(256);
    if (next_random(2))
        out->data[0] = firsts[next_random(sizeof firsts)];
}

static semel_bytes stored(mem_arena *arena, const bytes *key)
{
    semel_bytes out;
    OK(key_stored(&out, arena, (semel_bytes){key->data, key->len}, &last_error));
    assert_in_range(out.len, 1, SEMEL_KEY_MAX);
    return out;
}

/* The neighbours that a careless store would take for the same. */
static void make_neighbour(bytes *out, const bytes *key, mem_arena *arena)
{
    semel_bytes kept;
    *out = *key;
    switch (next_random(6)) {
    case 0:
        out->data[next_random((uint32_t)out->len)] ^= (unsigned char)(1u << next_random(8));
        break;
    case 1: /* a longer one */
        out->data[out->len++] = next_random(2) ? 0 : ' ';
        break;
    case 2: /* a shorter one */
        out->len = out->len > 1 ? out->len - 1 : 2;
        break;
    case 3: /* what it is kept as */
        kept = stored(arena, key);
        memmove(out->data, kept.data, kept.len);
        out->len = kept.len;
        break;
    case 4:
        memmove(out->data + 1, out->data, out->len++);
        out->data[0] = 0xff;
        break;
    default:
        make_random(out);
    }
}

static int are_equal(semel_bytes a, semel_bytes b)
{
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

static void different_keys_are_stored_differently(void **state)
{
    mem_arena arena = {0};
    bytes a = {0}, b = {0};
    (void)state;
    random_state = 20260101;
    for (int i = 0; i < 20000; i++) {
        make_random(&a);
        make_neighbour(&b, &a, &arena);
        int same = are_equal((semel_bytes){a.data, a.len}, (semel_bytes){b.data, b.len});
        if (are_equal(stored(&arena, &a), stored(&arena, &b)) != same)
            fail_msg("pair %d: keys of %zu and %zu bytes", i, a.len, b.len);
        arena_reset(&arena);
    }
    arena_free(&arena);
}

/* Stored keys in users' tables must keep their form; and a digest that was cut would make different
 * messages look like copies. The expected digests come from another implementation: sha256sum. */
static void a_long_key_is_kept_as_its_whole_digest(void **state)
{
    static const unsigned char of_letters[] =
        "\xff\x02\xd7\x16\x0d\x77\xe1\x8c\x64\x47\xbe\x80\xc2\xe3\x55\xc7"
        "\xed\x43\x88\x54\x52\x71\x70\x2c\x50\x25\x3b\x09\x14\xc6\x5c\xe5\xfe";
    static const unsigned char of_mark[] =
        "\xff\xa8\x10\x0a\xe6\xaa\x19\x40\xd0\xb6\x63\xbb\x31\xcd\x46\x61"
        "\x42\xeb\xbd\xbd\x51\x87\x13\x1b\x92\xd9\x38\x18\x98\x78\x32\xeb\x89";
    static const bytes one_ff = {1, {0xff}};
    mem_arena arena = {0};
    bytes letters = {256, {0}};
    (void)state;
    memset(letters.data, 'a', letters.len);
    BYTES_EQUAL(((semel_bytes){of_letters, sizeof of_letters - 1}), stored(&arena, &letters));
    BYTES_EQUAL(((semel_bytes){of_mark, sizeof of_mark - 1}), stored(&arena, &one_ff));
    letters.len = SEMEL_KEY_MAX; /* short enough to be kept as it is */
    BYTES_EQUAL(((semel_bytes){letters.data, letters.len}), stored(&arena, &letters));
    arena_free(&arena);
}

/* The same through the door: a family of keys that differ in one thing each, and each is handled
 * once. */
static void each_of_a_family_of_keys_is_handled_once(void **state)
{
    static unsigned char base[1024];
    semel_inbox *inbox = fixture_inbox(*state, "family", NULL);
    scripted_handler w = {0};
    size_t count = 0;
    memset(base, 'k', sizeof base);
    for (int first = 0; first < 2; first++, base[0] = 0xff)
        for (size_t len = 250; len <= 260; len++)
            for (int last = 0; last < 4; last++, count++) {
                semel_message message = {.size = sizeof message, .id = {base, len}};
                base[len - 1] = (unsigned char)"kK \0"[last];
                RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &w);
                RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &w);
                base[len - 1] = 'k';
            }
    assert_int_equal(w.runs, count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"different keys are stored differently", different_keys_are_stored_differently, NULL, NULL,
         NULL},
        {"a long key is kept as its whole digest", a_long_key_is_kept_as_its_whole_digest, NULL,
         NULL, NULL},
        ON_BOTH("each of a family of keys is handled once",
                each_of_a_family_of_keys_is_handled_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
