#include "generated/backends.h"

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
    return BUILD_OPTIONS;
}
