-- brings: notes of inboxes, details of markers, sent messages
-- locks: semel_marker, semel_outbox and semel_dead: about a second per million keys
--
-- What an inbox knows of itself, and more about each message.
--
-- Notes: 1 definition (text), 2 forgotten (number: the newest last change of a marker that a sweep has removed),
-- 3 horizon (number: the smallest age at which markers may have been removed), 4 sweep (number: when the next round of
-- retention is due).
CREATE TABLE {}.semel_note (
    number bigint NOT NULL DEFAULT 0,
    inbox  integer NOT NULL,
    note   smallint NOT NULL,
    text   text,
    PRIMARY KEY (inbox, note)
);

-- Sweeps before this version have noted nothing: for all that the store can tell, they have forgotten every key up to
-- now.
INSERT INTO {}.semel_note (inbox, note, number)
    SELECT id, 2, floor(date_part('epoch', clock_timestamp()) * 1000)::bigint FROM {}.semel_scope WHERE kind = 1;

-- Markers: when the first attempt began, if it was not the last one. The details, if the inbox keeps them: type and
-- source are numbers of semel_scope (kinds 4 and 5), received_ms is when the handled copy was received.
ALTER TABLE {}.semel_marker ADD COLUMN first_ms bigint, ADD COLUMN type integer, ADD COLUMN source integer,
    ADD COLUMN received_ms bigint;

-- Why the last attempt to send failed; when the first attempt at a dead letter began.
ALTER TABLE {}.semel_outbox ADD COLUMN error text;
ALTER TABLE {}.semel_dead ADD COLUMN first_ms bigint;

-- What a relay has sent, for as long as the relay keeps it.
CREATE TABLE {}.semel_sent (
    sent_ms        bigint NOT NULL,
    seq            bigint NOT NULL,
    captured_ms    bigint NOT NULL,
    outbox         integer NOT NULL,
    attempts       integer NOT NULL,
    grp            text,
    id             bytea NOT NULL,
    type           text,
    topic          text,
    correlation_id bytea,
    PRIMARY KEY (outbox, sent_ms, seq)
);

-- A dead marker stays as long as its letter. One whose letter was discarded has the token 0: retention may remove it.
UPDATE {}.semel_marker m SET token = 0, lease_until_ms = 0 WHERE state = 2 AND token IS NULL AND NOT EXISTS
    (SELECT 1 FROM {}.semel_dead d JOIN {}.semel_scope s ON s.kind = 1 AND s.name = d.name
     WHERE d.origin = 1 AND s.id = m.inbox AND d.key = m.key);
