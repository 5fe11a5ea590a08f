-- brings: causes and retries of dead letters, audit, running processes
-- locks: the file while two indexes of semel_dead are built: about 6 s per million letters
--
-- What operators need: dead letters by their cause, retries that running processes take over, who changed what by
-- hand, and which processes are running.

-- The cause (semel_cause()) is NULL in letters that an older semel has stored. retry is 1 while a retry is asked for,
-- 2 while a process is at it, 3 after it has failed.
ALTER TABLE semel_dead ADD COLUMN cause INTEGER;
ALTER TABLE semel_dead ADD COLUMN retry INTEGER NOT NULL DEFAULT 0;
CREATE INDEX semel_dead_cause ON semel_dead (cause, dead_id);
CREATE INDEX semel_dead_retry ON semel_dead (dead_id) WHERE retry = 1;

CREATE TABLE semel_audit (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms  INTEGER NOT NULL,
    who    TEXT NOT NULL,
    what   TEXT NOT NULL,
    result TEXT NOT NULL,
    count  INTEGER NOT NULL
);

-- One row per running process; seen_ms is when the process last said so.
CREATE TABLE semel_process (
    id         TEXT NOT NULL PRIMARY KEY,
    host       TEXT NOT NULL,
    pid        INTEGER NOT NULL,
    started_ms INTEGER NOT NULL,
    seen_ms    INTEGER NOT NULL,
    socket     TEXT NOT NULL,
    data       TEXT NOT NULL
) WITHOUT ROWID;
