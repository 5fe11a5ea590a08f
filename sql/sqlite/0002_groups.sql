-- brings: groups of the outbox that wait
-- locks: the file while an index of semel_outbox is built: about 5 s per million rows
--
-- Groups that wait are visited by time, so that they cost those that are ready nothing.
--
-- A row is parked if its group was found waiting (for a backoff, for a delay). The relay's walk from name to name
-- sees only rows that are not parked; it comes to a group with parked rows by semel_group, when that is due.
-- Where a group has parked rows, it has a row in semel_group. Producers know nothing of it.
ALTER TABLE semel_outbox ADD COLUMN parked INTEGER NOT NULL DEFAULT 0;
DROP INDEX semel_outbox_group;
CREATE INDEX semel_outbox_group ON semel_outbox (outbox, parked, grp, seq) WHERE grp IS NOT NULL;

CREATE TABLE semel_group (
    outbox INTEGER NOT NULL,
    grp    TEXT NOT NULL,
    due_ms INTEGER NOT NULL,
    PRIMARY KEY (outbox, grp)
) WITHOUT ROWID;
CREATE INDEX semel_group_due ON semel_group (outbox, due_ms);
