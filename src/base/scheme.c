/* Schemes that are not known. The nearest known scheme is proposed if it begins with what was given
 * (maria, postgre), or with the same letter, and at most two letters were left out, added or
 * changed (mysq, sqllite; but pgsql is not mysql). */
#include "base/scheme.h"

#include "base/nearest.h"

#include <stdio.h>
#include <string.h>

enum { LIST_TEXT = 200, SCHEME_MAX = 32 };

static void write_list(char out[LIST_TEXT], const char *const known[], size_t count)
{
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < count && used < LIST_TEXT; i++)
        used += (size_t)snprintf(out + used, LIST_TEXT - used, "%s%s:",
                                 i == 0           ? ""
                                 : i + 1 == count ? " and "
                                                  : ", ",
                                 known[i]);
}

/* The scheme that was probably meant, or NULL. */
static const char *nearest(const char *given, size_t len, const char *const known[], size_t count)
{
    enum { LETTERS_MIN = 3 };
    const char *found = NULL;
    size_t best = NEAREST_CHANGES_MAX + 1;
    for (size_t i = 0; i < count && len >= LETTERS_MIN; i++) {
        int begins = strncmp(known[i], given, len) == 0;
        size_t far = begins ? 1 : nearest_distance(given, len, known[i], strlen(known[i]));
        if (far < best && known[i][0] == given[0]) {
            best = far;
            found = known[i];
        }
    }
    return best < len - 1 ? found : NULL;
}

semel_status scheme_unknown(const char *what, const char *given, size_t len,
                            const char *const known[], size_t count, semel_error *err)
{
    char list[LIST_TEXT];
    const char *meant = nearest(given, len, known, count);
    write_list(list, known, count);
    return semel_fail(err, SEMEL_EINVAL, "\"%.*s:\" is not a %s%s%s%s; known are %s",
                      (int)(len < SCHEME_MAX ? len : SCHEME_MAX), given, what,
                      meant ? ", maybe " : "", meant ? meant : "", meant ? ": is meant" : "", list);
}

semel_status scheme_left_out(const char *scheme, const char *const known[], size_t count,
                             semel_error *err)
{
    char list[LIST_TEXT];
    write_list(list, known, count);
    return semel_fail(err, SEMEL_EUNSUPPORTED,
                      "%s: support was not built into this libsemel; it has %s", scheme, list);
}
