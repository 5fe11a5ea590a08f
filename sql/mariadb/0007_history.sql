-- brings: history of deliveries
-- locks: no tables in use, under a second
-- needs: 5
--
-- What became of each delivery of the last while, for timelines; nothing is decided by it. kind 1: received, 2: sent,
-- 3: a gap of `number` rows that were not written. kept is 1 if headers and a part of the body are here. Ids are never
-- used again, so that a range of ids is as good as a number of rows. Both keys end with the id.
CREATE TABLE IF NOT EXISTS `{}history` (
    id             BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    at_ms          BIGINT NOT NULL,
    kind           TINYINT NOT NULL,
    outcome        TINYINT NOT NULL,
    refused        TINYINT NOT NULL,
    attempt        BIGINT NOT NULL,
    delivery       BIGINT NOT NULL,
    retry_ms       BIGINT NOT NULL,
    took_ns        BIGINT NOT NULL,
    letter         BIGINT NOT NULL,
    number         BIGINT NOT NULL,
    body_len       BIGINT NOT NULL,
    kept           TINYINT NOT NULL,
    name           VARBINARY(255) NOT NULL,
    `key`          VARBINARY(255),
    process        VARBINARY(255) NOT NULL,
    error          BLOB NOT NULL,
    grp            VARBINARY(1024),
    message_id     VARBINARY(1024),
    source         VARBINARY(1024),
    type           VARBINARY(1024),
    topic          VARBINARY(1024),
    correlation_id VARBINARY(1024),
    content_type   VARBINARY(1024),
    time_ms        BIGINT,
    headers        MEDIUMBLOB,
    `body`         MEDIUMBLOB,
    KEY name (name),
    KEY `key` (`key`)
) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC;
