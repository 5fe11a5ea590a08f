/* What can only be known with the store at hand: whether the database takes the statements of the
 * sql handlers, and whether inboxes are what they were. Each that is wrong is a problem of the
 * configuration, with its place. */
#ifndef SEMEL_PROGRAM_CONFIG_VERIFY_H
#define SEMEL_PROGRAM_CONFIG_VERIFY_H

#include "program/config/diagnostic.h"

/* Asks the store about every statement; nothing changes there. With `with_setup` the statements of
 * `setup` come first, in the same transaction, which is rolled back: for a store on which they were
 * not run. A status that is not SEMEL_OK means that the store could not be asked; after
 * SEMEL_EUNSUPPORTED, about some of them. */
semel_status verify_sql(diagnostics *found, const config *all, semel_store *store, int with_setup,
                        semel_error *err);

/* Compares with how the store knows the inboxes, except for those that `accept` names. */
semel_status verify_definitions(diagnostics *found, const config *all, semel_store *store,
                                const config_list *accept, semel_error *err);

/* Which element an error of a pipeline is about ("queue orders"), by how the pipeline begins it
 * (<semel/pipeline.h>), and in *text the error without that; NULL: of none. */
const char *verify_part(const char **text, region *memory, const semel_error *why);

/* An error of opening a pipeline that names an inbox, queue or outbox is about that element; 1 if
 * it could be told which. */
int verify_opening(diagnostics *found, const config *all, const semel_error *why);

#endif
