-- brings: notes of inboxes, details of markers, sent messages
-- locks: the file: about a second per million keys
--
-- What an inbox knows of itself, and more about each message.
--
-- Notes: 1 definition (text), 2 forgotten (number: the newest last change of a marker that a sweep has removed),
-- 3 horizon (number: the smallest age at which markers may have been removed), 4 sweep (number: when the next round of
-- retention is due).
CREATE TABLE semel_note (
    inbox  INTEGER NOT NULL,
    note   INTEGER NOT NULL,
    number INTEGER NOT NULL DEFAULT 0,
    text   TEXT,
    PRIMARY KEY (inbox, note)
) WITHOUT ROWID;

-- Sweeps before this version have noted nothing: for all that the store can tell, they have forgotten every key up to
-- now.
INSERT INTO semel_note (inbox, note, number)
    SELECT id, 2, max(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
                      (SELECT coalesce(max(store_ms), 0) FROM semel_clock))
    FROM semel_scope WHERE kind = 1;

-- Markers: when the first attempt began, if it was not the last one. The details, if the inbox keeps them: type and
-- source are numbers of semel_scope (kinds 4 and 5), received_ms is when the handled copy was received.
ALTER TABLE semel_marker ADD COLUMN first_ms INTEGER;
ALTER TABLE semel_marker ADD COLUMN type INTEGER;
ALTER TABLE semel_marker ADD COLUMN source INTEGER;
ALTER TABLE semel_marker ADD COLUMN received_ms INTEGER;

-- Why the last attempt to send failed; when the first attempt at a dead letter began.
ALTER TABLE semel_outbox ADD COLUMN error TEXT;
ALTER TABLE semel_dead ADD COLUMN first_ms INTEGER;

-- What a relay has sent, for as long as the relay keeps it.
CREATE TABLE semel_sent (
    outbox         INTEGER NOT NULL,
    sent_ms        INTEGER NOT NULL,
    seq            INTEGER NOT NULL,
    captured_ms    INTEGER NOT NULL,
    attempts       INTEGER NOT NULL,
    grp            TEXT,
    id             BLOB NOT NULL,
    type           TEXT,
    topic          TEXT,
    correlation_id BLOB,
    PRIMARY KEY (outbox, sent_ms, seq)
) WITHOUT ROWID;

-- A dead marker stays as long as its letter. One whose letter was discarded has the token 0: retention may remove it.
UPDATE semel_marker SET token = 0, lease_until_ms = 0 WHERE state = 2 AND token IS NULL AND NOT EXISTS
    (SELECT 1 FROM semel_dead d JOIN semel_scope s ON s.kind = 1 AND s.name = d.name
     WHERE d.origin = 1 AND s.id = semel_marker.inbox AND d.key = semel_marker.key);
