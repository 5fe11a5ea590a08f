-- brings: groups of the outbox that wait
-- locks: no tables in use; takes about 11 s per million rows of the outbox
--
-- Groups that wait are visited by time, so that they cost those that are ready nothing.
--
-- A row is parked if its group was found waiting (for a backoff, for a delay). The relay's walk from name to name
-- sees only rows that are not parked; it comes to a group with parked rows by `{}group`, when that is due.
-- Where a group has parked rows, it has a row in `{}group`. Producers know nothing of it.
--
-- The index is the one of before with this column in it: one for all rows still.
ALTER TABLE `{}outbox` ADD COLUMN IF NOT EXISTS parked TINYINT UNSIGNED NOT NULL DEFAULT 0;
ALTER TABLE `{}outbox` ADD KEY IF NOT EXISTS lane (outbox, parked, grp, due_ms);
ALTER TABLE `{}outbox` DROP KEY IF EXISTS turn;

CREATE TABLE IF NOT EXISTS `{}group` (
    outbox INT UNSIGNED NOT NULL,
    grp    VARBINARY(1024) NOT NULL,
    due_ms BIGINT NOT NULL,
    PRIMARY KEY (outbox, grp),
    KEY due (outbox, due_ms)
) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC;
