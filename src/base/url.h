/* The little of URLs that semel needs: scheme:rest?name=value&name=value */
#ifndef SEMEL_BASE_URL_H
#define SEMEL_BASE_URL_H

#include <semel/error.h>
#include <stddef.h>

enum { URL_PARAMETERS_MAX = 32, URL_MAX = 2048 };

typedef struct url_parameter {
    const char *name;
    const char *value;
} url_parameter;

typedef struct url {
    const char *scheme;
    const char *rest; /* between the colon and the question mark; "//" before a path removed */
    url_parameter parameters[URL_PARAMETERS_MAX];
    size_t parameter_count;
    char text[URL_MAX];
} url;

/* The length of the scheme with which the text begins. */
semel_status url_scheme(size_t *len, const char *text, semel_error *err);

/* SEMEL_EINVAL says what is wrong without repeating the text, which may hold a password. */
semel_status url_parse(url *out, const char *text, semel_error *err);

/* For URLs with a host, which stands behind two slashes. The example is what may stand there. */
semel_status url_has_slashes(const url *parsed, const char *text, const char *example,
                             semel_error *err);

/* For URLs with user:password@host/path: a / or an @ in a password would make half of it the host,
 * which is shown. */
semel_status url_one_place(const url *parsed, semel_error *err);

/* Refuses parameters that are not in `names` (comma-separated), naming them and the known ones. */
semel_status url_only(const url *parsed, const char *names, semel_error *err);

/* A parameter's name for an error: itself, unless it may be a part of a password. */
const char *url_shown_name(const url *parsed, const char *name);

/* What may be shown of a URL of `len` bytes: its scheme and its place, neither user nor password,
 * which stand before the last @, nor parameters. One that is longer than URL_MAX is cut. */
void url_shown(char out[URL_MAX], const char *text, size_t len);

const char *url_text(const url *parsed, const char *name, const char *fallback);
semel_status url_number(uint32_t *out, const url *parsed, const char *name, uint32_t fallback,
                        uint32_t min, uint32_t max, semel_error *err);

/* One of several words, the last of them followed by NULL; *out is its index, or `fallback` if none
 * is given. */
semel_status url_choice(int *out, const url *parsed, const char *name, const char *const words[],
                        int fallback, semel_error *err);

#endif
