/* MariaDB's: there is a database whose name cannot be more than a name, and everything else is
 * within its limits. */
#include "property.h"
#include "store/mariadb/address.h"
#include "store/sql/sql.h"
#include "url_parts.h"

semel_status check_mariadb_address(const char *url, int secret, semel_error *err)
{
    mem_arena arena = {0};
    maria_address a = {0};
    semel_status status = maria_address_read(&a, &arena, url, err);
    if (!status) {
        HOLDS(a.database && *a.database && !strpbrk(a.database, "`?~{}/"));
        HOLDS(sql_check_name("prefix", a.prefix, NULL) == SEMEL_OK);
        HOLDS(a.port <= 65535 && a.pool >= 1 && a.pool <= 1000 && a.connect_s >= 1);
        HOLDS(keeps(secret, a.user) && keeps(secret, a.host) && keeps(secret, a.database));
        HOLDS(a.level <= ISOLATION_SERIALIZABLE && a.tls <= TLS_VERIFY);
    }
    arena_free(&arena);
    return status;
}
