/* What is promised for each inbox with its queue, by the store as it is set now; and whether that
 * is less than the inbox requires, which is what `run` would refuse. */
#include "program/config/summary.h"
#include "program/operate/doctor.h"

#include <string.h>

static const semel_transport *transport_of(const doctor *d, const inbox_config *inbox)
{
    for (size_t i = 0; d->transports && i < d->all->queue_count; i++)
        if (inbox->from && strcmp(d->all->queues[i].name, inbox->from) == 0)
            return d->transports[i];
    return NULL;
}

static const char *handler_word(const inbox_config *inbox)
{
    return inbox->handler == HANDLER_HTTP   ? "http"
           : inbox->handler == HANDLER_EXEC ? "exec"
                                            : "worker";
}

static const char *reason_for(doctor *d, const inbox_config *inbox, semel_grade grade)
{
    switch (grade) {
    case SEMEL_GRADE_AT_LEAST_ONCE:
        return "the store survives nothing";
    case SEMEL_GRADE_EFFECTIVELY_ONCE:
        return region_printf(&d->memory, "the %s handler acts outside the store",
                             handler_word(inbox));
    case SEMEL_GRADE_EXCEPT_POWER_LOSS:
        return "a power failure can undo the last commits of the store";
    case SEMEL_GRADE_EXACTLY_ONCE_EFFECTS:
        break;
    }
    return "";
}

/* What the store says about its durability is now the reason why run does not start. */
static void raise_durability(doctor *d, const inbox_config *inbox)
{
    int raised = 0;
    for (doctor_finding *f = d->found[DOCTOR_DURABILITY]; f; f = f->next)
        if (f->severity != SEMEL_SEVERITY_OK) {
            f->text =
                region_printf(&d->memory, "%s%s %s is below the grade it requires", f->text,
                              f->severity == SEMEL_SEVERITY_ERROR ? ", and" : ":", inbox->name);
            f->severity = SEMEL_SEVERITY_ERROR;
            raised = 1;
        }
    if (!raised)
        doctor_find(
            d, DOCTOR_DURABILITY, SEMEL_SEVERITY_ERROR,
            region_printf(&d->memory, "lower inboxes.%s.require, or change the store", inbox->name),
            "%s is below the grade it requires", inbox->name);
}

static void look_at_inbox(doctor *d, const inbox_config *inbox)
{
    semel_grade grade =
        d->store ? semel_store_grade(d->store, inbox->options.mode, transport_of(d, inbox))
                 : summary_grade(d->all, inbox);
    doctor_grade *added = region_alloc(&d->memory, sizeof *added);
    doctor_grade **end = &d->grades;
    *added =
        (doctor_grade){.inbox = inbox->name, .grade = grade, .reason = reason_for(d, inbox, grade)};
    while (*end)
        end = &(*end)->next;
    *end = added;
    if (grade < inbox->require)
        raise_durability(d, inbox);
}

void doctor_look_at_grades(doctor *d)
{
    for (size_t i = 0; i < d->all->inbox_count; i++)
        look_at_inbox(d, &d->all->inboxes[i]);
}
