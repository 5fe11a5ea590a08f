/* The URL of a queue: store:URL#NAME?lease_ms=…&poll_ms=…
 *
 * It is split at the last #. What is before it is the URL of a store, which may have parameters
 * of its own; what is behind it is the queue's name, in which there is no ?, and the queue's
 * parameters.
 *
 * Nothing of the text is repeated in an error, but the value of a parameter that is known: the
 * store's URL may hold a password, and a # in it makes a part of it look like the queue's name
 * or like a parameter. */
#include "transport/store/queue.h"

#include "base/url.h"

#include <stdio.h>
#include <string.h>

static semel_status read_name(queue_address *out, const char *text, size_t len, semel_error *err)
{
    if (len <= SEMEL_NAME_MAX) {
        memcpy(out->name, text, len);
        out->name[len] = 0;
    }
    if (len > SEMEL_NAME_MAX || store_check_name("queue", out->name, NULL))
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: what is behind the last # is not the name of a queue: that has 1 "
                          "to %zu letters, digits, dots, dashes or _; a # in the URL of the store "
                          "is written %%23",
                          SEMEL_NAME_MAX);
    return SEMEL_OK;
}

/* `text` is what is behind the #: a URL of its own, once it has a scheme. */
static semel_status read_parameters(queue_address *out, const char *text, semel_error *err)
{
    url parsed;
    char with_scheme[URL_MAX];
    int len = snprintf(with_scheme, sizeof with_scheme, "store:%s", text);
    if (len >= URL_MAX || url_parse(&parsed, with_scheme, NULL) ||
        url_only(&parsed, "lease_ms,poll_ms", NULL))
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: behind the name of a queue it takes ?lease_ms=NUMBER and "
                          "poll_ms=NUMBER, each at most once and joined with &; the parameters of "
                          "the store are before the #");
    semel_status status = url_number(&out->lease_ms, &parsed, "lease_ms", 0, 1, UINT32_MAX, err);
    return status ? status : url_number(&out->poll_ms, &parsed, "poll_ms", 0, 1, UINT32_MAX, err);
}

static semel_status copy_store_url(queue_address *out, const char *text, size_t len,
                                   semel_error *err)
{
    if (!len)
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: store: needs the URL of a store before the #, as in "
                          "store:sqlite:shop.db#orders");
    out->store_url = mem_alloc(len + 1);
    if (!out->store_url)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a URL");
    memcpy(out->store_url, text, len);
    return SEMEL_OK;
}

semel_status queue_address_read(queue_address *out, const char *text, semel_error *err)
{
    const char *inner = strchr(text, ':') + 1;
    const char *mark = strrchr(inner, '#');
    if (!mark)
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: store: needs the name of a queue behind a #, as in "
                          "store:sqlite:shop.db#orders");
    semel_status status = read_name(out, mark + 1, strcspn(mark + 1, "?"), err);
    if (!status)
        status = read_parameters(out, mark + 1, err);
    return status ? status : copy_store_url(out, inner, (size_t)(mark - inner), err);
}
