/* The one list of stores. A scheme that is known but not built in is told from one that is unknown. */
#include "base/url.h"

#include <semel/sys/store.h>
#include <string.h>

extern const semel_store_driver memory_store_driver;
#ifdef SEMEL_WITH_SQLITE
extern const semel_store_driver sqlite_store_driver;
#define SQLITE_DRIVER &sqlite_store_driver
#else
#define SQLITE_DRIVER NULL
#endif
#ifdef SEMEL_WITH_POSTGRES
extern const semel_store_driver postgres_store_driver;
#define POSTGRES_DRIVER &postgres_store_driver
#else
#define POSTGRES_DRIVER NULL
#endif
#ifdef SEMEL_WITH_MARIADB
extern const semel_store_driver mariadb_store_driver;
#define MARIADB_DRIVER &mariadb_store_driver
#else
#define MARIADB_DRIVER NULL
#endif

semel_status store_driver_find(const semel_store_driver **out, const char *url, semel_error *err);

static const struct {
    const char *scheme;
    const semel_store_driver *driver; /* NULL: not built in */
} stores[] = {{"memory", &memory_store_driver},
              {"sqlite", SQLITE_DRIVER},
              {"postgres", POSTGRES_DRIVER},
              {"postgresql", POSTGRES_DRIVER},
              {"mariadb", MARIADB_DRIVER},
              {"mysql", MARIADB_DRIVER},
              {"redis", NULL}};

semel_status store_driver_find(const semel_store_driver **out, const char *text, semel_error *err)
{
    url parsed;
    semel_status status = url_parse(&parsed, text, err);
    if (status)
        return status;
    for (size_t i = 0; i < sizeof stores / sizeof *stores; i++) {
        if (strcmp(stores[i].scheme, parsed.scheme) != 0)
            continue;
        if (!stores[i].driver)
            return semel_fail(err, SEMEL_EUNSUPPORTED,
                              "%s: support was not built into this libsemel", parsed.scheme);
        *out = stores[i].driver;
        return SEMEL_OK;
    }
    return semel_fail(err, SEMEL_EINVAL,
                      "\"%s:\" is not a store; known are memory:, sqlite:, postgres: and mariadb:",
                      parsed.scheme);
}
