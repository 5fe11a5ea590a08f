-- brings: history of deliveries
-- locks: no tables in use, under a second
-- needs: 5
--
-- What became of each delivery of the last while, for timelines; nothing is decided by it. kind 1: received, 2: sent,
-- 3: a gap of `number` rows that were not written. kept is 1 if headers and a part of the body are here. Ids are never
-- used again, so that a range of ids is as good as a number of rows. Rows are added at one end and removed at the
-- other, so the rows that are gone must not stay in the indexes for long.
CREATE TABLE {}.semel_history (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_ms          bigint NOT NULL,
    took_ns        bigint NOT NULL,
    letter         bigint NOT NULL,
    number         bigint NOT NULL,
    body_len       bigint NOT NULL,
    retry_ms       bigint NOT NULL,
    time_ms        bigint,
    attempt        bigint NOT NULL,
    delivery       bigint NOT NULL,
    kind           smallint NOT NULL,
    outcome        smallint NOT NULL,
    refused        smallint NOT NULL,
    kept           smallint NOT NULL,
    name           text COLLATE "C" NOT NULL,
    key            bytea,
    process        text NOT NULL,
    error          text NOT NULL,
    grp            text,
    message_id     bytea,
    source         text,
    type           text,
    topic          text,
    correlation_id bytea,
    content_type   text,
    headers        bytea,
    body           bytea
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
CREATE INDEX semel_history_name ON {}.semel_history (name, id);
CREATE INDEX semel_history_key ON {}.semel_history (key, id) WHERE key IS NOT NULL;
