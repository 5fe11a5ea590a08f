/* The cause of an error: <semel/operate.h>.
 *
 * A word that contains a digit is a number or an id: <n> stands for it. A quoted part is <s>.
 * Quotes that do not end are left as they are. The result must be the same in every process, in
 * every locale and in every version, because it is stored: so characters are told apart here and
 * not by <ctype.h>, and a change of these rules would divide groups. */
#include <semel/operate.h>
#include <string.h>

enum { TEXT_MAX = SEMEL_CAUSE_TEXT_SIZE - 1 };

/* What does not fit any more is not added. */
typedef struct cause_writer {
    char text[SEMEL_CAUSE_TEXT_SIZE];
    size_t len;
    int cut;
} cause_writer;

static void add(cause_writer *w, const char *text, size_t len)
{
    size_t room = TEXT_MAX - w->len;
    w->cut |= len > room;
    len = len > room ? room : len;
    memcpy(w->text + w->len, text, len);
    w->len += len;
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || ((unsigned char)c & 0x80);
}

static size_t word_length(const char *at, int *has_digit)
{
    size_t len = 0;
    *has_digit = 0;
    for (; is_word(at[len]); len++)
        *has_digit |= is_digit(at[len]);
    return len;
}

/* A short number behind one of these words (http 422, exit 1) tells the kind of the error, and
 * stays. */
static int is_status(const char *text, const char *at, size_t len)
{
    static const char *const before[] = {"http ", "exit ", "signal "};
    if (len > 3)
        return 0;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        size_t word = strlen(before[i]);
        if ((size_t)(at - text) >= word && memcmp(at - word, before[i], word) == 0)
            return 1;
    }
    return 0;
}

static size_t quoted_length(const char *at)
{
    if (*at != '"' && *at != '\'')
        return 0;
    const char *end = strchr(at + 1, *at);
    return end ? (size_t)(end - at) + 1 : 0;
}

/* One word, quoted part or other character; returns its length. */
static size_t add_piece(cause_writer *w, const char *error, const char *at)
{
    int has_digit = 0;
    size_t len = quoted_length(at);
    if (len) {
        add(w, "<s>", 3);
        return len;
    }
    len = word_length(at, &has_digit);
    if (has_digit && !is_status(error, at, len))
        add(w, "<n>", 3);
    else
        add(w, at, len ? len : 1);
    return len ? len : 1;
}

/* No part of a character stays. */
static void trim(cause_writer *w)
{
    size_t len = w->len;
    while (len && ((unsigned char)w->text[len - 1] & 0xC0) == 0x80)
        len--;
    if (len && ((unsigned char)w->text[len - 1] & 0x80))
        w->len = len - 1;
}

static void write_cause(cause_writer *w, const char *error)
{
    w->len = 0;
    w->cut = 0;
    for (const char *at = error; *at && !w->cut;)
        at += add_piece(w, error, at);
    if (w->cut)
        trim(w);
    w->text[w->len] = 0;
}

size_t semel_cause_text(char *out, size_t room, const char *error)
{
    cause_writer w;
    write_cause(&w, error ? error : "");
    size_t len = w.len < room ? w.len : room - 1;
    if (room) {
        memcpy(out, w.text, len);
        out[len] = 0;
    }
    return w.len;
}

/* FNV-1a. */
static uint32_t hash_more(uint32_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

uint32_t semel_cause(const char *name, const char *error)
{
    cause_writer w;
    write_cause(&w, error ? error : "");
    uint32_t hash = hash_more(hash_more(hash_more(2166136261u, name), "\n"), w.text);
    return hash ? hash : 1;
}
