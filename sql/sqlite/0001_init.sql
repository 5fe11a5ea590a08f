-- brings: markers, outbox, dead letters
-- locks: the file, under a second
--
-- semel's tables. They stand beside the application's own, in the same file, so that one transaction
-- covers both. Times are milliseconds of the store's own clock (semel_clock), which does not jump.

-- The clock: the store's time at a moment of the host's steady clock, the highest wall clock seen, and
-- which boot of the host the steady clock belongs to. One row.
CREATE TABLE semel_clock (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    store_ms  INTEGER NOT NULL,
    steady_ms INTEGER NOT NULL,
    wall_ms   INTEGER NOT NULL,
    boot_id   TEXT NOT NULL
);

-- Names of inboxes (kind 1), outboxes (kind 2) and queues (kind 3).
CREATE TABLE semel_scope (
    id   INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (kind, name)
);

-- One row per key of an inbox. state 0: done, 1: open (claimed, or attempts that failed), 2: dead.
-- Only open rows have attempts, token and lease. There is no index on time, on purpose: it would cost every
-- message a second B-tree. The sweep walks the table in key order, in small steps, while others write.
CREATE TABLE semel_marker (
    inbox          INTEGER NOT NULL,
    key            BLOB NOT NULL,
    state          INTEGER NOT NULL,
    at_ms          INTEGER NOT NULL,
    fingerprint    INTEGER,
    attempts       INTEGER,
    token          INTEGER,
    lease_until_ms INTEGER,
    error          TEXT,
    result         BLOB,
    PRIMARY KEY (inbox, key)
) WITHOUT ROWID;

-- Outgoing messages; a row is here until the broker confirmed it. wake_ms is when it may next be taken:
-- the time of capture, the end of a delay, of a backoff (attempts > 0) or of a lease (token set).
CREATE TABLE semel_outbox (
    seq            INTEGER PRIMARY KEY,
    outbox         INTEGER NOT NULL,
    wake_ms        INTEGER NOT NULL,
    token          INTEGER,
    attempts       INTEGER NOT NULL,
    refusals       INTEGER NOT NULL,
    captured_ms    INTEGER NOT NULL,
    grp            TEXT,
    id             BLOB NOT NULL,
    source         TEXT,
    type           TEXT,
    topic          TEXT,
    correlation_id BLOB,
    content_type   TEXT,
    time_ms        INTEGER,
    headers        BLOB,
    body           BLOB
);

-- Each row is in exactly one of these two: those without a group are taken by time, those with one
-- group by group.
CREATE INDEX semel_outbox_free ON semel_outbox (outbox, wake_ms) WHERE grp IS NULL;
CREATE INDEX semel_outbox_group ON semel_outbox (outbox, grp, seq) WHERE grp IS NOT NULL;

-- Messages given up on. origin 1: by an inbox, 2: by an outbox, 3: by a queue.
CREATE TABLE semel_dead (
    dead_id        INTEGER PRIMARY KEY AUTOINCREMENT,
    origin         INTEGER NOT NULL,
    name           TEXT NOT NULL,
    key            BLOB NOT NULL,
    attempts       INTEGER NOT NULL,
    at_ms          INTEGER NOT NULL,
    error          TEXT,
    grp            TEXT,
    id             BLOB,
    source         TEXT,
    type           TEXT,
    topic          TEXT,
    correlation_id BLOB,
    content_type   TEXT,
    time_ms        INTEGER,
    headers        BLOB,
    body           BLOB,
    UNIQUE (origin, name, key)
);
