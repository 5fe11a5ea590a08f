-- brings: markers, outbox, dead letters
-- locks: no tables in use, under a second
--
-- semel's tables. They stand beside the application's own, in the same database, so that one transaction
-- covers both. {} is the schema. Times are milliseconds since 1970 by the server's clock.

-- Which database this is: a unit joins a transaction only if it is open on the same one. One row.
CREATE TABLE {}.semel_meta (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    identity uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO {}.semel_meta DEFAULT VALUES;

-- Names of inboxes (kind 1), outboxes (kind 2) and queues (kind 3).
CREATE TABLE {}.semel_scope (
    id   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind smallint NOT NULL,
    name text COLLATE "C" NOT NULL,
    UNIQUE (kind, name)
);

-- One row per key of an inbox. state 0: done, 1: open (claimed, or attempts that failed), 2: dead.
-- Only open rows have attempts, token and lease. There is no index on time, on purpose: the sweep walks the
-- pages of the table in their order (docs/ARCHITECTURE.md has the measurement). Most rows are written once
-- and deleted once, so nearly nothing of a page is kept free for updates.
CREATE TABLE {}.semel_marker (
    at_ms          bigint NOT NULL,
    fingerprint    bigint,
    inbox          integer NOT NULL,
    state          smallint NOT NULL,
    key            bytea NOT NULL,
    attempts       integer,
    token          bigint,
    lease_until_ms bigint,
    error          text,
    result         bytea,
    PRIMARY KEY (inbox, key)
);

-- Outgoing messages; a row is here until the broker confirmed it. wake_ms is when it may next be taken:
-- the time of capture, the end of a delay, of a backoff (attempts > 0) or of a lease (token set).
CREATE TABLE {}.semel_outbox (
    seq            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    wake_ms        bigint NOT NULL,
    captured_ms    bigint NOT NULL,
    token          bigint,
    time_ms        bigint,
    outbox         integer NOT NULL,
    attempts       integer NOT NULL DEFAULT 0,
    refusals       integer NOT NULL DEFAULT 0,
    grp            text COLLATE "C",
    id             bytea NOT NULL,
    source         text,
    type           text,
    topic          text,
    correlation_id bytea,
    content_type   text,
    headers        bytea,
    body           bytea
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- Each row is in exactly one of these two: those without a group are taken by time, those with one
-- group by group.
CREATE INDEX semel_outbox_free ON {}.semel_outbox (outbox, wake_ms, seq) WHERE grp IS NULL;
CREATE INDEX semel_outbox_group ON {}.semel_outbox (outbox, grp, seq) WHERE grp IS NOT NULL;

-- Messages given up on. origin 1: by an inbox, 2: by an outbox, 3: by a queue.
CREATE TABLE {}.semel_dead (
    dead_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_ms          bigint NOT NULL,
    time_ms        bigint,
    attempts       integer NOT NULL,
    origin         smallint NOT NULL,
    name           text COLLATE "C" NOT NULL,
    key            bytea NOT NULL,
    error          text,
    grp            text,
    id             bytea,
    source         text,
    type           text,
    topic          text,
    correlation_id bytea,
    content_type   text,
    headers        bytea,
    body           bytea,
    UNIQUE (origin, name, key)
);
