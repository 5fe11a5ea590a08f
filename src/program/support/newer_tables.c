#include "program/support/newer_tables.h"

void newer_tables_note(newer_tables *found, const semel_schema_step *step)
{
    *(step->newer ? &found->there : &found->known) = step->version;
}

static semel_status note(const semel_schema_step *step, void *context, semel_error *err)
{
    (void)err;
    newer_tables_note(context, step);
    return SEMEL_OK;
}

newer_tables newer_tables_find(semel_store *store)
{
    newer_tables found = {0};
    return semel_store_schema(store, note, &found, NULL) ? (newer_tables){0} : found;
}

void newer_tables_text(buffer *to, const newer_tables *found)
{
    buffer_printf(to,
                  "semel's tables are of version %d; this semel knows up to %d and may use them; "
                  "upgrade it, too",
                  (int)found->there, (int)found->known);
}
