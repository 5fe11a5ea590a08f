-- brings: functions for receiving and sending in SQL
-- locks: no tables in use, under a second
--
-- SQL as an API (docs/SQL.md): an application in any language takes part in semel's guarantees by calling these
-- functions inside its own transaction. What they write is what the library writes, so both work on the same inboxes
-- and outboxes at the same time.
--
-- They run with the rights of the caller. Values that would be cut off are errors, whatever the mode of the session.
-- The comment of a function is the digest of this file: one that another version made is noticed, and replaced.
-- A statement that has a body ends with a line END and a semicolon.
SET @semel_mode = @@SESSION.sql_mode, SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION';

-- In a store a key has at most 255 bytes: a longer one, and one that begins with 0xFF, is kept as 0xFF and its SHA-256.
CREATE OR REPLACE FUNCTION `{}stored_key`(the_key LONGBLOB) RETURNS VARBINARY(255)
    DETERMINISTIC NO SQL SQL SECURITY INVOKER COMMENT 'semel {digest}'
BEGIN
    IF the_key IS NULL OR LENGTH(the_key) = 0 THEN
        SIGNAL SQLSTATE '22023' SET MYSQL_ERRNO = 30004, MESSAGE_TEXT = 'semel: a key needs at least one byte';
    END IF;
    RETURN IF(LENGTH(the_key) > 255 OR LEFT(the_key, 1) = x'ff', CONCAT(x'ff', UNHEX(SHA2(the_key, 256))), the_key);
END;

-- The number of an inbox (kind 1) or outbox (kind 2), which the first use of its name creates. At READ UNCOMMITTED the
-- read locks, or it would return the number of a name whose transaction may roll back. The others that read a number
-- leave that level to this function.
CREATE OR REPLACE FUNCTION `{}scope_number`(the_kind TINYINT UNSIGNED, the_name LONGBLOB) RETURNS INT UNSIGNED
    NOT DETERMINISTIC MODIFIES SQL DATA SQL SECURITY INVOKER COMMENT 'semel {digest}'
BEGIN
    DECLARE number INT UNSIGNED;
    IF @@tx_isolation = 'READ-UNCOMMITTED' THEN
        SET number = (SELECT s.id FROM `{}scope` s WHERE s.kind = the_kind AND s.name = the_name LOCK IN SHARE MODE);
    ELSE
        SET number = (SELECT s.id FROM `{}scope` s WHERE s.kind = the_kind AND s.name = the_name);
    END IF;
    IF number IS NOT NULL THEN
        RETURN number;
    END IF;
    IF the_name IS NULL OR LENGTH(the_name) > 255 OR the_name NOT REGEXP '^[A-Za-z0-9._-]+$'
        OR RIGHT(the_name, 1) = x'0a' THEN
        SIGNAL SQLSTATE '22023' SET MYSQL_ERRNO = 30004, MESSAGE_TEXT =
            'semel: the name of an inbox or outbox has 1 to 255 letters, digits, dots, dashes and _';
    END IF;
    INSERT INTO `{}scope` (kind, name) VALUES (the_kind, the_name) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id);
    RETURN LAST_INSERT_ID();
END;

-- After a message without a marker has claimed its key: may it have been handled before, by a marker that retention
-- has removed? The notes are those of src/core/inbox_stale.c. The reads lock, and so return the newest note at every
-- level of isolation. 1 if all is well.
CREATE OR REPLACE FUNCTION `{}check_age`(the_inbox INT UNSIGNED, made_ms BIGINT) RETURNS TINYINT
    NOT DETERMINISTIC MODIFIES SQL DATA SQL SECURITY INVOKER COMMENT 'semel {digest}'
BEGIN
    DECLARE margin_ms BIGINT DEFAULT 60000;
    DECLARE now_ms BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, DATE'1970-01-01', UTC_TIMESTAMP(3)) DIV 1000;
    DECLARE age_ms BIGINT DEFAULT GREATEST(0, now_ms - made_ms);
    DECLARE horizon_ms BIGINT DEFAULT (SELECT n.number FROM `{}note` n FORCE INDEX (PRIMARY)
        WHERE n.inbox = the_inbox AND n.note = 3 AND n.text <> '' LOCK IN SHARE MODE);
    DECLARE forgotten_ms BIGINT DEFAULT (SELECT n.number FROM `{}note` n FORCE INDEX (PRIMARY)
        WHERE n.inbox = the_inbox AND n.note = 2 LOCK IN SHARE MODE);
    IF forgotten_ms > 0 AND age_ms + margin_ms >= COALESCE(horizon_ms, 0)
        AND age_ms + margin_ms >= GREATEST(0, now_ms - forgotten_ms) THEN
        SIGNAL SQLSTATE 'SM002' SET MYSQL_ERRNO = 30002, MESSAGE_TEXT =
            'semel: the message may have been handled before: the inbox has forgotten keys that are as old';
    END IF;
    RETURN 1;
END;

-- A marker that is there, and that the caller has locked: claimed if it was free, duplicate or dead.
CREATE OR REPLACE FUNCTION `{}receive_known`(the_inbox INT UNSIGNED, stored VARBINARY(255), the_fingerprint BIGINT)
    RETURNS VARCHAR(9) CHARSET ascii
    NOT DETERMINISTIC MODIFIES SQL DATA SQL SECURITY INVOKER COMMENT 'semel {digest}'
BEGIN
    DECLARE now_ms BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, DATE'1970-01-01', UTC_TIMESTAMP(3)) DIV 1000;
    DECLARE known_state, live TINYINT;
    DECLARE known_fingerprint BIGINT;
    SELECT m.state, m.fingerprint, m.token IS NOT NULL AND COALESCE(m.lease_until_ms, 0) > now_ms
        INTO known_state, known_fingerprint, live FROM `{}marker` m FORCE INDEX (PRIMARY)
        WHERE m.inbox = the_inbox AND m.`key` = stored FOR UPDATE;
    IF known_state = 1 AND live = 0 THEN
        UPDATE `{}marker` m FORCE INDEX (PRIMARY) SET state = 0, first_ms = COALESCE(first_ms, at_ms), at_ms = now_ms,
            fingerprint = the_fingerprint, type = NULL, source = NULL, received_ms = NULL, attempts = NULL,
            token = NULL, lease_until_ms = NULL, error = NULL WHERE m.inbox = the_inbox AND m.`key` = stored;
        RETURN 'claimed';
    END IF;
    IF known_state = 1 THEN
        SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT =
            'semel: another copy of this message is being handled: roll back, and try again later';
    END IF;
    IF known_fingerprint <> the_fingerprint THEN
        SIGNAL SQLSTATE 'SM001' SET MYSQL_ERRNO = 30001, MESSAGE_TEXT =
            'semel: a message with this key but other content was handled before, or is a dead letter';
    END IF;
    RETURN IF(known_state = 2, 'dead', 'duplicate');
END;

-- claimed, duplicate or dead. A dead message was given up after too many failures, and is in the table dead; it is not
-- handled, and a retry of the dead letter decides about it. The fingerprint and the time, in milliseconds since 1970,
-- may be NULL.
--
-- The INSERT waits for a transaction that has the key. If the row is there, it is locked and not changed, and
-- LAST_INSERT_ID says so; the server gives the caller's LAST_INSERT_ID back when the function ends.
CREATE OR REPLACE FUNCTION `{}receive_outcome`(the_inbox VARBINARY(1024), the_key LONGBLOB, the_fingerprint BIGINT,
                                               made_ms BIGINT)
    RETURNS VARCHAR(9) CHARSET ascii
    NOT DETERMINISTIC MODIFIES SQL DATA SQL SECURITY INVOKER COMMENT 'semel {digest}'
BEGIN
    DECLARE stored VARBINARY(255) DEFAULT `{}stored_key`(the_key);
    DECLARE number INT UNSIGNED DEFAULT `{}scope_number`(1, the_inbox);
    DECLARE there INT DEFAULT LAST_INSERT_ID(0);
    INSERT INTO `{}marker` (inbox, `key`, state, at_ms, fingerprint)
        VALUES (number, stored, 0, TIMESTAMPDIFF(MICROSECOND, DATE'1970-01-01', UTC_TIMESTAMP(3)) DIV 1000,
                NULLIF(the_fingerprint, 0))
        ON DUPLICATE KEY UPDATE state = IF(LAST_INSERT_ID(1), state, state);
    IF LAST_INSERT_ID() THEN
        RETURN `{}receive_known`(number, stored, NULLIF(the_fingerprint, 0));
    END IF;
    IF made_ms IS NOT NULL THEN
        SET there = `{}check_age`(number, made_ms);
    END IF;
    RETURN 'claimed';
END;

-- 1 for the first copy, 0 for every other one. The server interprets each statement of a function, so there are as few
-- as can be: the row itself says in LAST_INSERT_ID whether it was inserted (2) or there (1).
CREATE OR REPLACE FUNCTION `{}receive`(the_inbox VARBINARY(1024), the_key LONGBLOB) RETURNS TINYINT(1)
    NOT DETERMINISTIC MODIFIES SQL DATA SQL SECURITY INVOKER COMMENT 'semel {digest}'
BEGIN
    DECLARE stored VARBINARY(255) DEFAULT IF(LENGTH(the_key) BETWEEN 1 AND 255 AND the_key < x'ff', the_key,
                                             `{}stored_key`(the_key));
    DECLARE number INT UNSIGNED DEFAULT IF(@@tx_isolation = 'READ-UNCOMMITTED', NULL,
        (SELECT s.id FROM `{}scope` s WHERE s.kind = 1 AND s.name = the_inbox));
    IF number IS NULL THEN
        SET number = `{}scope_number`(1, the_inbox);
    END IF;
    INSERT INTO `{}marker` (inbox, `key`, state, at_ms)
        VALUES (number, stored, IF(LAST_INSERT_ID(2), 0, 0),
                TIMESTAMPDIFF(MICROSECOND, DATE'1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)
        ON DUPLICATE KEY UPDATE state = IF(LAST_INSERT_ID(1), state, state);
    RETURN IF(LAST_INSERT_ID() = 2, 1, `{}receive_known`(number, stored, NULL) = 'claimed');
END;

-- The fingerprint that the library keeps by default, of type and body: SipHash-2-4 over the length of the type, the
-- type and the body. A sum that does not fit is an error to the server, so it is made of two halves.
CREATE OR REPLACE FUNCTION `{}fingerprint`(the_type VARBINARY(1024), the_body LONGBLOB) RETURNS BIGINT
    DETERMINISTIC NO SQL SQL SECURITY INVOKER COMMENT 'semel {digest}'
BEGIN
    DECLARE input LONGBLOB DEFAULT CONCAT(REVERSE(UNHEX(LPAD(HEX(LENGTH(COALESCE(the_type, ''))), 16, '0'))),
                                          COALESCE(the_type, ''), COALESCE(the_body, ''));
    DECLARE turn INT UNSIGNED DEFAULT 1;
    DECLARE turns INT UNSIGNED;
    DECLARE word, v0, v1, v2, v3, low BIGINT UNSIGNED;
    DECLARE half BIGINT UNSIGNED DEFAULT 4294967295;
    SET v0 = 2814750242313028, v1 = 145834850217500447, v2 = 2241677709678019664, v3 = 1300425409464505601;
    SET input = CONCAT(input, REPEAT(x'00', 7 - LENGTH(input) % 8), UNHEX(LPAD(HEX(LENGTH(input) % 256), 2, '0')));
    SET turns = LENGTH(input) DIV 4;
    WHILE turn <= turns + 4 DO
        IF turn <= turns AND turn % 2 = 1 THEN
            SET word = CAST(CONV(HEX(REVERSE(SUBSTR(input, turn * 4 - 3, 8))), 16, 10) AS UNSIGNED);
            SET v3 = v3 ^ word;
        END IF;
        SET low = (v0 & half) + (v1 & half), v0 = ((v0 >> 32) + (v1 >> 32) + (low >> 32)) << 32 | (low & half),
            low = (v2 & half) + (v3 & half), v2 = ((v2 >> 32) + (v3 >> 32) + (low >> 32)) << 32 | (low & half),
            v1 = (v1 << 13 | v1 >> 51) ^ v0, v3 = (v3 << 16 | v3 >> 48) ^ v2, v0 = v0 << 32 | v0 >> 32,
            low = (v0 & half) + (v3 & half), v0 = ((v0 >> 32) + (v3 >> 32) + (low >> 32)) << 32 | (low & half),
            low = (v2 & half) + (v1 & half), v2 = ((v2 >> 32) + (v1 >> 32) + (low >> 32)) << 32 | (low & half),
            v3 = (v3 << 21 | v3 >> 43) ^ v0, v1 = (v1 << 17 | v1 >> 47) ^ v2, v2 = v2 << 32 | v2 >> 32;
        IF turn <= turns AND turn % 2 = 0 THEN
            SET v0 = v0 ^ word;
        END IF;
        IF turn = turns THEN
            SET v2 = v2 ^ 255;
        END IF;
        SET turn = turn + 1;
    END WHILE;
    SET word = v0 ^ v1 ^ v2 ^ v3;
    SET word = IF(word = 0, 1, word);
    RETURN IF(word > 9223372036854775807, -1 - CAST(~word AS SIGNED), CAST(word AS SIGNED));
END;

-- The result that was stored with a key: NULL if there is none. With a lock, so that it is the newest.
CREATE OR REPLACE FUNCTION `{}result`(the_inbox VARBINARY(1024), the_key LONGBLOB) RETURNS MEDIUMBLOB
    NOT DETERMINISTIC MODIFIES SQL DATA SQL SECURITY INVOKER COMMENT 'semel {digest}'
BEGIN
    DECLARE stored VARBINARY(255) DEFAULT `{}stored_key`(the_key);
    RETURN (SELECT m.result FROM `{}scope` s JOIN `{}marker` m FORCE INDEX (PRIMARY) ON m.inbox = s.id
            WHERE s.kind = 1 AND s.name = the_inbox AND m.`key` = stored AND m.state = 0 LOCK IN SHARE MODE);
END;

-- Stores a result with a key that this transaction has received. 1 if it is stored.
CREATE OR REPLACE FUNCTION `{}set_result`(the_inbox VARBINARY(1024), the_key LONGBLOB, the_result LONGBLOB)
    RETURNS TINYINT(1)
    NOT DETERMINISTIC MODIFIES SQL DATA SQL SECURITY INVOKER COMMENT 'semel {digest}'
BEGIN
    DECLARE stored VARBINARY(255) DEFAULT `{}stored_key`(the_key);
    DECLARE number INT UNSIGNED DEFAULT (SELECT s.id FROM `{}scope` s WHERE s.kind = 1 AND s.name = the_inbox);
    IF LENGTH(the_result) > 1048576 THEN
        SIGNAL SQLSTATE '22023' SET MYSQL_ERRNO = 30004, MESSAGE_TEXT =
            'semel: a result has more than 1048576 bytes';
    END IF;
    IF NOT EXISTS (SELECT 1 FROM `{}marker` m FORCE INDEX (PRIMARY) WHERE m.inbox = number AND m.`key` = stored
                   AND m.state = 0 FOR UPDATE) THEN
        SIGNAL SQLSTATE 'SM003' SET MYSQL_ERRNO = 30003, MESSAGE_TEXT =
            'semel: a result for a key that was not received: call receive first';
    END IF;
    UPDATE `{}marker` m FORCE INDEX (PRIMARY) SET m.result = the_result WHERE m.inbox = number AND m.`key` = stored;
    RETURN 1;
END;

-- Headers as the library stores them: of each the length of the name, the name, the length of the value, the value. A
-- member that is null is left out. due_ms is set if the message is delayed.
CREATE OR REPLACE FUNCTION `{}header_bytes`(headers LONGTEXT CHARSET utf8mb4, due_ms BIGINT) RETURNS MEDIUMBLOB
    DETERMINISTIC NO SQL SQL SECURITY INVOKER COMMENT 'semel {digest}'
BEGIN
    DECLARE packed MEDIUMBLOB;
    DECLARE place INT UNSIGNED DEFAULT 0;
    DECLARE many INT UNSIGNED DEFAULT COALESCE(JSON_LENGTH(headers), 0) + (due_ms IS NOT NULL);
    DECLARE the_names LONGTEXT CHARSET utf8mb4 DEFAULT JSON_KEYS(headers);
    DECLARE the_values LONGTEXT CHARSET utf8mb4 DEFAULT JSON_EXTRACT(headers, '$.*');
    DECLARE the_name, the_value LONGBLOB;
    IF headers IS NOT NULL AND (NOT JSON_VALID(headers) OR JSON_TYPE(headers) <> 'OBJECT'
        OR JSON_LENGTH(the_names) <> COALESCE(JSON_LENGTH(the_values), 0)) THEN
        SIGNAL SQLSTATE '22023' SET MYSQL_ERRNO = 30004, MESSAGE_TEXT = 'semel: headers are a JSON object';
    END IF;
    WHILE place < many DO
        SET the_name = JSON_UNQUOTE(JSON_EXTRACT(the_names, CONCAT('$[', place, ']'))),
            the_value = IF(JSON_TYPE(JSON_EXTRACT(the_values, CONCAT('$[', place, ']'))) = 'NULL', NULL,
                           JSON_UNQUOTE(JSON_EXTRACT(the_values, CONCAT('$[', place, ']'))));
        IF due_ms IS NOT NULL AND the_name = 'semeldue' THEN
            SET the_value = NULL;
        END IF;
        SET place = place + 1;
        IF due_ms IS NOT NULL AND place = many THEN
            SET the_name = 'semeldue', the_value = due_ms;
        END IF;
        IF many > 128 OR LENGTH(the_name) = 0 OR LENGTH(the_name) + LENGTH(COALESCE(the_value, '')) > 8192 THEN
            SIGNAL SQLSTATE '22023' SET MYSQL_ERRNO = 30004, MESSAGE_TEXT =
                'semel: at most 128 headers, each with a name and at most 8192 bytes';
        END IF;
        IF the_value IS NOT NULL THEN
            SET packed = CONCAT(COALESCE(packed, ''), REVERSE(UNHEX(LPAD(HEX(LENGTH(the_name)), 8, '0'))), the_name,
                                REVERSE(UNHEX(LPAD(HEX(LENGTH(the_value)), 8, '0'))), the_value);
        END IF;
    END WHILE;
    RETURN packed;
END;

-- A UUID of version 7, which begins with the time.
CREATE OR REPLACE FUNCTION `{}new_id`(now_ms BIGINT) RETURNS VARCHAR(36) CHARSET ascii
    NOT DETERMINISTIC NO SQL SQL SECURITY INVOKER COMMENT 'semel {digest}'
BEGIN
    DECLARE time_part VARCHAR(12) CHARSET ascii DEFAULT LOWER(LPAD(HEX(now_ms), 12, '0'));
    DECLARE noise VARCHAR(64) CHARSET ascii
        DEFAULT SHA2(CONCAT(UUID(), RAND(), CONNECTION_ID(), UTC_TIMESTAMP(6)), 256);
    RETURN CONCAT(LEFT(time_part, 8), '-', RIGHT(time_part, 4), '-7', SUBSTR(noise, 1, 3), '-',
                  SUBSTR('89ab', 1 + FLOOR(RAND() * 4), 1), SUBSTR(noise, 4, 3), '-', SUBSTR(noise, 7, 12));
END;

-- Puts a message into an outbox, with the caller's transaction, and returns its id. All but the outbox may be NULL; the
-- headers are a JSON object.
CREATE OR REPLACE FUNCTION `{}send_message`(the_outbox VARBINARY(1024), the_type LONGBLOB, the_body LONGBLOB,
    the_id LONGBLOB, the_source LONGBLOB, the_topic LONGBLOB, the_group LONGBLOB, the_correlation_id LONGBLOB,
    the_content_type LONGBLOB, headers LONGTEXT CHARSET utf8mb4, delay_ms BIGINT) RETURNS VARBINARY(1024)
    NOT DETERMINISTIC MODIFIES SQL DATA SQL SECURITY INVOKER COMMENT 'semel {digest}'
BEGIN
    DECLARE now_ms BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, DATE'1970-01-01', UTC_TIMESTAMP(3)) DIV 1000;
    DECLARE number INT UNSIGNED DEFAULT IF(@@tx_isolation = 'READ-UNCOMMITTED', NULL,
        (SELECT s.id FROM `{}scope` s WHERE s.kind = 2 AND s.name = the_outbox));
    DECLARE packed MEDIUMBLOB;
    SET delay_ms = COALESCE(delay_ms, 0);
    IF GREATEST(LENGTH(COALESCE(the_type, '')), LENGTH(COALESCE(the_id, '')), LENGTH(COALESCE(the_source, '')),
                LENGTH(COALESCE(the_topic, '')), LENGTH(COALESCE(the_group, '')),
                LENGTH(COALESCE(the_correlation_id, '')), LENGTH(COALESCE(the_content_type, ''))) > 1024
        OR LENGTH(COALESCE(the_body, '')) > 16777216 OR delay_ms NOT BETWEEN 0 AND 4294967295 THEN
        SIGNAL SQLSTATE '22023' SET MYSQL_ERRNO = 30004, MESSAGE_TEXT =
            'semel: a text of a message has at most 1024 bytes, a body 16777216; a delay is 0 to 4294967295';
    END IF;
    IF number IS NULL THEN
        SET number = `{}scope_number`(2, the_outbox);
    END IF;
    IF COALESCE(the_id, '') = '' THEN
        SET the_id = `{}new_id`(now_ms);
    END IF;
    IF headers IS NOT NULL OR delay_ms > 0 THEN
        SET packed = `{}header_bytes`(headers, IF(delay_ms > 0, now_ms + delay_ms, NULL));
    END IF;
    INSERT INTO `{}outbox` (outbox, wake_ms, attempts, refusals, captured_ms, grp, id, source, type, topic,
                            correlation_id, content_type, time_ms, headers, `body`)
        VALUES (number, now_ms + delay_ms, 0, 0, now_ms, NULLIF(the_group, ''), the_id, the_source, the_type, the_topic,
                the_correlation_id, the_content_type, now_ms, packed, the_body);
    RETURN the_id;
END;

CREATE OR REPLACE FUNCTION `{}send`(the_outbox VARBINARY(1024), the_type LONGBLOB, the_body LONGBLOB)
    RETURNS VARBINARY(1024)
    NOT DETERMINISTIC MODIFIES SQL DATA SQL SECURITY INVOKER COMMENT 'semel {digest}'
BEGIN
    RETURN `{}send_message`(the_outbox, the_type, the_body, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
END;

-- Fails if the trigger that captures a table (outboxes.NAME.table of semel run) is there and does something else than
-- `wanted`; spaces and quotes of names do not count.
CREATE OR REPLACE FUNCTION `{}check_capture`(the_table VARCHAR(255) CHARSET utf8mb4, wanted LONGTEXT CHARSET utf8mb4)
    RETURNS TINYINT
    NOT DETERMINISTIC READS SQL DATA SQL SECURITY INVOKER COMMENT 'semel {digest}'
BEGIN
    DECLARE message VARCHAR(512) CHARSET utf8mb4;
    IF EXISTS (SELECT 1 FROM information_schema.triggers t
               WHERE t.trigger_schema = DATABASE() AND t.trigger_name = CONCAT('semel_capture_', the_table)
               AND (t.event_object_table <> the_table OR t.event_manipulation <> 'INSERT' OR t.action_timing <> 'AFTER'
                    OR BINARY REGEXP_REPLACE(t.action_statement, '[`[:space:]]', '')
                       <> BINARY REGEXP_REPLACE(wanted, '[`[:space:]]', ''))) THEN
        SET message = CONCAT('semel: the trigger semel_capture_', LEFT(the_table, 64),
                             ' does something else than it should: drop it, and the next start creates it');
        SIGNAL SQLSTATE '55000' SET MYSQL_ERRNO = 30005, MESSAGE_TEXT = message;
    END IF;
    RETURN 1;
END;

SET SESSION sql_mode = @semel_mode;
