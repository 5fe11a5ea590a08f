/* The steps of a store's tables: taken one by one, killed at each and begun anew, and rows as older
 * versions write them. Each scenario fails the test that calls it. */
#ifndef SEMEL_TESTS_MIGRATION_H
#define SEMEL_TESTS_MIGRATION_H

#include "support/fixture/store_place.h"

/* All steps are shown, with texts; migrate_to stops where it is told; below the last step, the
 * library says what to do; a second time nothing changes. */
void migration_step_by_step(store_place *place);

/* SIGKILL at both fault points of each step; what is left is gone on with, and then works. */
void migration_killed_everywhere(store_place *place);

/* An older version adds rows to tables of this one, without the columns that are new. */
void migration_old_rows(store_place *place);

/* What a store says about its database: every subject has a finding, a host whose clock is wrong is
 * told, and tables that are missing or old are. */
void migration_inspected(store_place *place);

/* Tables that a semel to come has changed are used if their steps say that they may be, and else
 * refused with both versions; what was open before goes on. */
void migration_newer_tables(store_place *place);

#endif
