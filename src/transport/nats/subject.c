/* The server takes some names that are no good: a client that writes a space into a subject makes
 * two arguments of one. So everything is checked here. */
#include "transport/nats/subject.h"

#include <string.h>

static int is_clean(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f)
            return 0;
    return len > 0;
}

static int is_token(const char *at, size_t len, int wildcards)
{
    int is_one = len == 1 && *at == '*', is_rest = len == 1 && *at == '>';
    if (!is_clean(at, len))
        return 0;
    if (is_rest && at[len])
        return 0;
    return wildcards || !(is_one || is_rest);
}

static int is_subject(const char *subject, int wildcards)
{
    for (const char *at = subject;; at++) {
        size_t len = strcspn(at, ".");
        if (!is_token(at, len, wildcards))
            return 0;
        at += len;
        if (!*at)
            return 1;
    }
}

int jet_subject_is_plain(const char *subject)
{
    return is_subject(subject, 0);
}

int jet_subject_is_pattern(const char *subject)
{
    return is_subject(subject, 1);
}

int jet_name_is_valid(const char *name)
{
    return is_clean(name, strlen(name)) && !strpbrk(name, ".*>/\\");
}
