-- brings: notes of inboxes, details of markers, sent messages
-- locks: no tables in use; takes about 15 s per million keys
--
-- What an inbox knows of itself, and more about each message.
--
-- Notes: 1 definition (text), 2 forgotten (number: the newest last change of a marker that a sweep has removed),
-- 3 horizon (number: the smallest age at which markers may have been removed), 4 sweep (number: when the next round of
-- retention is due).
CREATE TABLE IF NOT EXISTS `{}note` (
    inbox  INT UNSIGNED NOT NULL,
    note   TINYINT UNSIGNED NOT NULL,
    number BIGINT NOT NULL DEFAULT 0,
    text   BLOB,
    PRIMARY KEY (inbox, note)
) ENGINE = InnoDB;

-- Sweeps before this version have noted nothing: for all that the store can tell, they have forgotten every key up to
-- now. (Not if this step is run again when it was taken already: inboxes of this version know better.)
INSERT IGNORE INTO `{}note` (inbox, note, number)
    SELECT id, 2, TIMESTAMPDIFF(MICROSECOND, DATE'1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 FROM `{}scope` WHERE kind = 1
    AND NOT EXISTS (SELECT 1 FROM `{}schema` WHERE version >= 3);

-- Names have up to 255 bytes.
ALTER TABLE `{}scope` MODIFY name VARBINARY(255) NOT NULL;
ALTER TABLE `{}dead` MODIFY name VARBINARY(255) NOT NULL;

-- Markers: when the first attempt began, if it was not the last one. The details, if the inbox keeps them: type and
-- source are numbers of the table scope (kinds 4 and 5), received_ms is when the handled copy was received.
ALTER TABLE `{}marker` ADD COLUMN IF NOT EXISTS first_ms BIGINT, ADD COLUMN IF NOT EXISTS type INT UNSIGNED,
    ADD COLUMN IF NOT EXISTS source INT UNSIGNED, ADD COLUMN IF NOT EXISTS received_ms BIGINT;

-- Why the last attempt to send failed; when the first attempt at a dead letter began.
ALTER TABLE `{}outbox` ADD COLUMN IF NOT EXISTS error BLOB;
ALTER TABLE `{}dead` ADD COLUMN IF NOT EXISTS first_ms BIGINT;

-- What a relay has sent, for as long as the relay keeps it.
CREATE TABLE IF NOT EXISTS `{}sent` (
    outbox         INT UNSIGNED NOT NULL,
    sent_ms        BIGINT NOT NULL,
    seq            BIGINT NOT NULL,
    captured_ms    BIGINT NOT NULL,
    attempts       INT UNSIGNED NOT NULL,
    grp            VARBINARY(1024),
    id             VARBINARY(1024) NOT NULL,
    type           VARBINARY(1024),
    topic          VARBINARY(1024),
    correlation_id VARBINARY(1024),
    PRIMARY KEY (outbox, sent_ms, seq)
) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC;

-- A dead marker stays as long as its letter. One whose letter was discarded has the token 0: retention may remove it.
UPDATE `{}marker` m SET token = 0, lease_until_ms = 0 WHERE state = 2 AND token IS NULL AND NOT EXISTS
    (SELECT 1 FROM `{}dead` d JOIN `{}scope` s ON s.kind = 1 AND s.name = d.name
     WHERE d.origin = 1 AND s.id = m.inbox AND d.`key` = m.`key`);
