/* Retries of dead letters that another process is to run.
 *
 * The state is one column of the letter, and changing it is one conditional statement: of two
 * processes that take a letter one finds it changed. A process that dies behind BEGUN leaves the
 * letter so, and an operator asks for it again. */
#include "core/dead.h"
#include "core/operate.h"

typedef struct retry_change {
    int64_t id;
    semel_retry from;
    semel_retry to;
    const char *error;
} retry_change;

static semel_status set_retry(work_unit *unit, void *context, semel_error *err)
{
    const retry_change *change = context;
    semel_status status =
        store_operation(unit->store)
            ->set_retry(unit->state, change->id, change->from, change->to, change->error, err);
    return status ? status : store_fault(unit->store, "retry.stored", err);
}

static int is_state(semel_retry retry)
{
    return (unsigned)retry <= SEMEL_RETRY_FAILED;
}

semel_status semel_dead_set_retry(semel_store *store, int64_t id, semel_retry from, semel_retry to,
                                  const char *error, semel_error *err)
{
    semel_error why = {.text = ""}; /* cut to the length of an error, and one line */
    retry_change change = {.id = id, .from = from, .to = to, .error = why.text};
    if (!is_state(from) || !is_state(to))
        return semel_fail(err, SEMEL_EINVAL, "semel_retry: there is no choice %d",
                          is_state(from) ? (int)to : (int)from);
    semel_status status = store_can_keep_dead(store, err);
    if (!status && !store_operation(store)->set_retry)
        status = operate_refuse(store, "note retries of dead letters", err);
    if (status)
        return status;
    if (error)
        semel_fail(&why, SEMEL_EHANDLER, "%s", error);
    status = operate_change(store, SEMEL_BEGIN_DURABLE, set_retry, &change, err);
    return status ? status : store_fault(store, "retry.committed", err);
}
