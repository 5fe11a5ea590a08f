-- brings: history of deliveries
-- locks: no tables in use, under a second
-- needs: 5
--
-- What became of each delivery of the last while, for timelines; nothing is decided by it. kind 1: received, 2: sent,
-- 3: a gap of `number` rows that were not written. kept is 1 if headers and a part of the body are here. Ids are never
-- used again, so that a range of ids is as good as a number of rows. Both indexes end with the id.
CREATE TABLE semel_history (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms          INTEGER NOT NULL,
    kind           INTEGER NOT NULL,
    outcome        INTEGER NOT NULL,
    refused        INTEGER NOT NULL,
    attempt        INTEGER NOT NULL,
    delivery       INTEGER NOT NULL,
    retry_ms       INTEGER NOT NULL,
    took_ns        INTEGER NOT NULL,
    letter         INTEGER NOT NULL,
    number         INTEGER NOT NULL,
    body_len       INTEGER NOT NULL,
    kept           INTEGER NOT NULL,
    name           TEXT NOT NULL,
    key            BLOB,
    process        TEXT NOT NULL,
    error          TEXT NOT NULL,
    grp            TEXT,
    message_id     BLOB,
    source         TEXT,
    type           TEXT,
    topic          TEXT,
    correlation_id BLOB,
    content_type   TEXT,
    time_ms        INTEGER,
    headers        BLOB,
    body           BLOB
);
CREATE INDEX semel_history_name ON semel_history (name);
CREATE INDEX semel_history_key ON semel_history (key) WHERE key IS NOT NULL;
