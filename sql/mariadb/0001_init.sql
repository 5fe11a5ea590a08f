-- brings: markers, outbox, dead letters
-- locks: no tables in use, under a second
--
-- semel's tables. They stand beside the application's own, in the same database, so that one transaction
-- covers both. `{}name` becomes `database`.`prefix_name`. MariaDB commits after each of these statements, so
-- each may be run again. Times are milliseconds since 1970 by the server's clock.
--
-- Everything that is compared is bytes: a collation would take Order, order and "order " for one key. The texts of
-- messages are bytes, too, since they need not be UTF-8.

-- One row that tells this database from others.
CREATE TABLE IF NOT EXISTS `{}meta` (
    one      TINYINT NOT NULL PRIMARY KEY CHECK (one = 1),
    identity VARBINARY(64) NOT NULL
) ENGINE = InnoDB;
INSERT INTO `{}meta` (one, identity) VALUES (1, SHA2(CONCAT(UUID(), RAND(), CONNECTION_ID()), 256))
    ON DUPLICATE KEY UPDATE one = 1;

-- Names of inboxes (kind 1), outboxes (kind 2) and queues (kind 3).
CREATE TABLE IF NOT EXISTS `{}scope` (
    id   INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    kind TINYINT UNSIGNED NOT NULL,
    name VARBINARY(64) NOT NULL,
    UNIQUE KEY name (kind, name)
) ENGINE = InnoDB;

-- One row per key of an inbox. state 0: done, 1: open (claimed, or attempts that failed), 2: dead.
-- Only open rows have attempts, token and lease. There is no index on time, on purpose: it would cost every
-- message a second B-tree. InnoDB keeps the rows in the order of their keys, and so does the sweep.
CREATE TABLE IF NOT EXISTS `{}marker` (
    inbox          INT UNSIGNED NOT NULL,
    `key`          VARBINARY(255) NOT NULL,
    state          TINYINT UNSIGNED NOT NULL,
    at_ms          BIGINT NOT NULL,
    fingerprint    BIGINT,
    attempts       INT UNSIGNED,
    token          BIGINT UNSIGNED,
    lease_until_ms BIGINT,
    error          BLOB,
    result         MEDIUMBLOB,
    PRIMARY KEY (inbox, `key`)
) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC;

-- Outgoing messages; a row is here until the broker confirmed it. wake_ms is when it may next be taken:
-- the time of capture, the end of a delay, of a backoff (attempts > 0) or of a lease (token set).
--
-- One index serves both kinds of rows: those without a group are in it by the time at which they are due, those
-- with one by their number, because due_ms is the same for all of them and InnoDB appends the primary key.
CREATE TABLE IF NOT EXISTS `{}outbox` (
    seq            BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    outbox         INT UNSIGNED NOT NULL,
    wake_ms        BIGINT NOT NULL,
    token          BIGINT UNSIGNED,
    attempts       INT UNSIGNED NOT NULL,
    refusals       INT UNSIGNED NOT NULL,
    captured_ms    BIGINT NOT NULL,
    grp            VARBINARY(1024),
    id             VARBINARY(1024) NOT NULL,
    source         VARBINARY(1024),
    type           VARBINARY(1024),
    topic          VARBINARY(1024),
    correlation_id VARBINARY(1024),
    content_type   VARBINARY(1024),
    time_ms        BIGINT,
    headers        MEDIUMBLOB,
    `body`         LONGBLOB,
    due_ms         BIGINT AS (IF(grp IS NULL, wake_ms, 0)) STORED,
    KEY turn (outbox, grp, due_ms)
) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC;

-- Messages given up on. origin 1: by an inbox, 2: by an outbox, 3: by a queue.
CREATE TABLE IF NOT EXISTS `{}dead` (
    dead_id        BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    origin         TINYINT UNSIGNED NOT NULL,
    name           VARBINARY(64) NOT NULL,
    `key`          VARBINARY(1100) NOT NULL,
    attempts       INT UNSIGNED NOT NULL,
    at_ms          BIGINT NOT NULL,
    error          BLOB,
    grp            VARBINARY(1024),
    id             VARBINARY(1024),
    source         VARBINARY(1024),
    type           VARBINARY(1024),
    topic          VARBINARY(1024),
    correlation_id VARBINARY(1024),
    content_type   VARBINARY(1024),
    time_ms        BIGINT,
    headers        MEDIUMBLOB,
    `body`         LONGBLOB,
    UNIQUE KEY letter (origin, name, `key`)
) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC;
