/* Tables of the application whose rows are sent: are they there with their columns, and are their
 * triggers as they should be? */
#include "program/capture/capture.h"
#include "program/operate/doctor.h"

static void find_trigger(const capture_finding *found, void *context)
{
    doctor *d = context;
    doctor_find(d, DOCTOR_TABLES, found->severity, found->fix, "%s", found->text);
}

/* A table that `setup` creates is there when `run` comes to it. */
static void find_columns(doctor *d)
{
    diagnostics found = {0};
    if (!capture_verify(&found, d->all, d->store, 1, NULL))
        for (size_t i = 0; i < found.count; i++)
            doctor_find(d, DOCTOR_TABLES, SEMEL_SEVERITY_ERROR,
                        "semel check shows the place in the config", "%s: %s", found.items[i]->path,
                        found.items[i]->text);
    diagnostic_free(&found);
}

/* A store that cannot be asked at all has said so when it was inspected; one that does not show its
 * triggers is worth a word, for nothing is known of them. */
void doctor_look_at_tables(doctor *d)
{
    semel_error why = {0};
    if (!d->all || !doctor_wants(d, DOCTOR_TABLES))
        return;
    find_columns(d);
    if (capture_look(d->all, d->store, find_trigger, d, &why))
        doctor_find(d, DOCTOR_TABLES, SEMEL_SEVERITY_WARNING,
                    "ask as a user who may read the catalogue of triggers",
                    "the triggers of the tables cannot be read, so it is not known whether rows "
                    "are captured: %s",
                    why.text);
}
