#include "store/sql/process.h"

#include <unistd.h>

semel_status sql_check_process(pid_t opener, semel_error *err)
{
    if (opener == getpid())
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EMISUSE,
                      "this store was opened before fork(); open one in the child");
}
