#include "base/digest.h"
#include "base/json.h"

#include <semel/semel.h>

const char *semel_version(void)
{
    return SEMEL_VERSION;
}

int semel_version_number(void)
{
    return SEMEL_VERSION_NUMBER;
}

const char *semel_build_options(void)
{
    return "stores: memory"
#ifdef SEMEL_WITH_SQLITE
           " sqlite"
#endif
#ifdef SEMEL_WITH_POSTGRES
           " postgres"
#endif
#ifdef SEMEL_WITH_MARIADB
           " mariadb"
#endif
           "; transports: memory"
#ifdef SEMEL_WITH_RABBITMQ
           " rabbitmq"
#endif
           "; with:"
#ifdef SEMEL_WITH_JSON
           " json"
#endif
#ifdef SEMEL_WITH_OPENSSL
           " digest"
#endif
        ;
}
