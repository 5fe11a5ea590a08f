#include "store/sql/operation.h"

semel_status sql_retry_not_there(int64_t id, semel_error *err)
{
    return semel_fail(err, SEMEL_ENOTFOUND,
                      "there is no dead letter %lld in this state (any more): it is gone, or "
                      "another process was faster",
                      (long long)id);
}

semel_status sql_audit_not_there(int64_t id, semel_error *err)
{
    return semel_fail(err, SEMEL_ENOTFOUND, "there is no audit entry %lld", (long long)id);
}
