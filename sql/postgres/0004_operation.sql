-- brings: causes and retries of dead letters, audit, running processes
-- locks: semel_dead while two indexes of it are built: about 7 s per million letters
--
-- What operators need: dead letters by their cause, retries that running processes take over, who changed what by
-- hand, and which processes are running.

-- The cause (semel_cause()) is NULL in letters that an older semel has stored. retry is 1 while a retry is asked for,
-- 2 while a process is at it, 3 after it has failed.
ALTER TABLE {}.semel_dead ADD COLUMN cause bigint, ADD COLUMN retry smallint NOT NULL DEFAULT 0;
CREATE INDEX semel_dead_cause ON {}.semel_dead (cause, dead_id);
CREATE INDEX semel_dead_retry ON {}.semel_dead (dead_id) WHERE retry = 1;

CREATE TABLE {}.semel_audit (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_ms  bigint NOT NULL,
    count  bigint NOT NULL,
    who    text NOT NULL,
    what   text NOT NULL,
    result text NOT NULL
);

-- One row per running process; seen_ms is when the process last said so.
CREATE TABLE {}.semel_process (
    id         text COLLATE "C" NOT NULL PRIMARY KEY,
    pid        bigint NOT NULL,
    started_ms bigint NOT NULL,
    seen_ms    bigint NOT NULL,
    host       text NOT NULL,
    socket     text NOT NULL,
    data       text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
