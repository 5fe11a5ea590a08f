/* Each change is a small one, and several are made in a row. Nothing is known of what the bytes
 * mean but by the words of the dictionary and by a list of characters at which formats tend to
 * break. */
#include "mutate.h"

#include <string.h>

enum { CHANGES_MAX = 6, PIECE_MAX = 64 };

typedef struct text {
    unsigned char *bytes;
    size_t len;
    size_t room;
} text;

/* SplitMix64, by Sebastiano Vigna: a few lines, and good enough for this. */
static uint64_t next(mutator *m)
{
    uint64_t z = m->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* 0 to limit - 1; 0 if the limit is 0. */
static size_t below(mutator *m, size_t limit)
{
    return limit ? (size_t)(next(m) % limit) : 0;
}

static unsigned char tricky(mutator *m)
{
    static const char known[] = "'\"`\\?%&=@:/#;[]{}()$-*+.,!~_ \t\r\n019aeEZ\x7f\x80\xbf\xc3\xff";
    return below(m, 8) ? (unsigned char)known[below(m, sizeof known)] : (unsigned char)next(m);
}

/* --- changes ---------------------------------------------------------------------------------- */

static void cut(text *t, size_t at, size_t len)
{
    memmove(t->bytes + at, t->bytes + at + len, t->len - at - len);
    t->len -= len;
}

static void insert(text *t, size_t at, const unsigned char *bytes, size_t len)
{
    if (len > t->room - t->len)
        len = t->room - t->len;
    memmove(t->bytes + at + len, t->bytes + at, t->len - at);
    memcpy(t->bytes + at, bytes, len);
    t->len += len;
}

static void replace_byte(mutator *m, text *t)
{
    if (t->len)
        t->bytes[below(m, t->len)] = tricky(m);
}

static void flip_bit(mutator *m, text *t)
{
    if (t->len)
        t->bytes[below(m, t->len)] ^= (unsigned char)(1 << below(m, 8));
}

static void insert_byte(mutator *m, text *t)
{
    unsigned char byte = tricky(m);
    insert(t, below(m, t->len + 1), &byte, 1);
}

static void remove_piece(mutator *m, text *t)
{
    size_t at = below(m, t->len), len = 1 + below(m, below(m, 4) ? 4 : PIECE_MAX);
    cut(t, at, len < t->len - at ? len : t->len - at);
}

static void insert_piece_of(mutator *m, text *t, const unsigned char *from, size_t from_len)
{
    unsigned char piece[PIECE_MAX];
    size_t at = below(m, from_len), len = 1 + below(m, PIECE_MAX);
    if (len > from_len - at)
        len = from_len - at;
    memcpy(piece, from + at, len);
    insert(t, below(m, t->len + 1), piece, len);
}

static void repeat_piece(mutator *m, text *t)
{
    insert_piece_of(m, t, t->bytes, t->len);
}

static void insert_piece(mutator *m, text *t)
{
    const blob *other = &m->inputs->all[below(m, m->inputs->count)];
    insert_piece_of(m, t, other->bytes, other->len);
}

static void insert_word(mutator *m, text *t)
{
    if (!m->words->count) {
        insert_piece(m, t);
        return;
    }
    const blob *word = &m->words->all[below(m, m->words->count)];
    insert(t, below(m, t->len + 1), word->bytes, word->len);
}

/* The end becomes that of another input. */
static void change_end(mutator *m, text *t)
{
    const blob *other = &m->inputs->all[below(m, m->inputs->count)];
    size_t from = below(m, other->len);
    t->len = below(m, t->len + 1);
    insert(t, t->len, other->bytes + from, other->len - from);
}

size_t mutate(mutator *m, unsigned char *out, size_t room)
{
    static void (*const changes[])(mutator *, text *) = {
        replace_byte, flip_bit,     insert_byte, insert_byte, remove_piece,
        repeat_piece, insert_piece, insert_word, insert_word, change_end};
    const blob *first = &m->inputs->all[below(m, m->inputs->count)];
    text t = {out, 0, room};
    insert(&t, 0, first->bytes, first->len);
    for (size_t left = 1 + below(m, CHANGES_MAX); left; left--)
        changes[below(m, sizeof changes / sizeof *changes)](m, &t);
    return t.len;
}
