-- brings: functions for receiving and sending in SQL
-- locks: no tables in use, under a second
--
-- SQL as an API (docs/SQL.md): an application in any language takes part in semel's guarantees by calling these
-- functions inside its own transaction. What they write is what the library writes, so both work on the same inboxes
-- and outboxes at the same time.
--
-- They run with the rights of the caller. Every table is named with its schema, and everything else is PostgreSQL's
-- own, whatever the caller's search_path says. Those that read tables are VOLATILE, or a statement in them would not
-- see what was committed while the statement before it waited.

-- In a store a key has at most 255 bytes: a longer one, and one that begins with 0xFF, is kept as 0xFF and its SHA-256.
CREATE OR REPLACE FUNCTION {}.semel_stored_key(key bytea) RETURNS bytea LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(length(key), 0) = 0 THEN
        RAISE EXCEPTION 'semel: a key needs at least one byte' USING ERRCODE = '22023';
    END IF;
    RETURN CASE WHEN length(key) > 255 OR get_byte(key, 0) = 255 THEN '\xff'::bytea || sha256(key) ELSE key END;
END $$;

-- The number of an inbox (kind 1) or outbox (kind 2), which the first use of its name creates. NULL if another
-- transaction has created it just now: it is there for the next statement.
CREATE OR REPLACE FUNCTION {}.semel_scope_number(kind integer, name text) RETURNS integer LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    number integer;
BEGIN
    SELECT s.id INTO number FROM {}.semel_scope s WHERE s.kind = kind AND s.name = name COLLATE "C";
    IF FOUND THEN
        RETURN number;
    END IF;
    IF name IS NULL OR name !~ '^[A-Za-z0-9._-]{1,255}$' THEN
        RAISE EXCEPTION 'semel: the name of an inbox or outbox has 1 to 255 letters, digits, dots, dashes and _'
            USING ERRCODE = '22023';
    END IF;
    INSERT INTO {}.semel_scope AS s (kind, name) VALUES (kind, name) ON CONFLICT DO NOTHING RETURNING s.id INTO number;
    RETURN number;
END $$;

-- After a message without a marker has claimed its key: may it have been handled before, by a marker that retention has
-- removed? The notes are those of src/core/inbox_stale.c. At READ COMMITTED a plain read returns the newest note. At
-- stricter levels the read locks, which fails if the note has changed since the snapshot; a note that the snapshot does
-- not have is added, which fails if it is there.
CREATE OR REPLACE FUNCTION {}.semel_check_age(inbox integer, made timestamptz) RETURNS void LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    margin_ms CONSTANT bigint := 60000;
    now_ms bigint := floor(date_part('epoch', clock_timestamp()) * 1000)::bigint;
    age_ms bigint := greatest(0, now_ms - floor(date_part('epoch', made) * 1000)::bigint);
    horizon_ms bigint;
    forgotten_ms bigint;
BEGIN
    IF current_setting('transaction_isolation') = 'read committed' THEN
        SELECT n.number INTO horizon_ms FROM {}.semel_note n WHERE n.inbox = inbox AND n.note = 3 AND n.text <> '';
        SELECT n.number INTO forgotten_ms FROM {}.semel_note n WHERE n.inbox = inbox AND n.note = 2;
    ELSE
        INSERT INTO {}.semel_note (inbox, note) VALUES (inbox, 2) ON CONFLICT DO NOTHING;
        SELECT n.number INTO horizon_ms FROM {}.semel_note n WHERE n.inbox = inbox AND n.note = 3 AND n.text <> ''
            FOR SHARE;
        SELECT n.number INTO forgotten_ms FROM {}.semel_note n WHERE n.inbox = inbox AND n.note = 2 FOR SHARE;
    END IF;
    IF forgotten_ms > 0 AND age_ms + margin_ms >= coalesce(horizon_ms, 0) AND
       age_ms + margin_ms >= greatest(0, now_ms - forgotten_ms) THEN
        RAISE EXCEPTION 'semel: the message may have been handled before: the inbox has forgotten keys that are as old'
            USING ERRCODE = 'SM002', HINT = 'Look at the message by hand, or call without "made" to handle it.';
    END IF;
END $$;

-- Everything but the first insertion of a marker in an inbox that exists: see semel_receive().
CREATE OR REPLACE FUNCTION {}.semel_receive_known(inbox text, key bytea, fingerprint bigint, made timestamptz,
    inserted boolean)
RETURNS text LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    number integer;
    known record;
BEGIN
    FOR tries IN 1..20 LOOP
        SELECT s.id INTO number FROM {}.semel_scope s WHERE s.kind = 1 AND s.name = inbox COLLATE "C";
        IF number IS NULL OR tries > 1 THEN
            number := {}.semel_scope_number(1, inbox);
            CONTINUE WHEN number IS NULL;
            INSERT INTO {}.semel_marker (inbox, key, state, at_ms, fingerprint)
                VALUES (number, key, 0, floor(date_part('epoch', clock_timestamp()) * 1000)::bigint, fingerprint)
                ON CONFLICT DO NOTHING;
            inserted := FOUND;
        END IF;
        IF inserted THEN
            IF made IS NOT NULL THEN
                PERFORM {}.semel_check_age(number, made);
            END IF;
            RETURN 'claimed';
        END IF;
        SELECT m.state, m.fingerprint, m.token IS NOT NULL AND
               m.lease_until_ms > floor(date_part('epoch', clock_timestamp()) * 1000)::bigint AS live INTO known
            FROM {}.semel_marker m WHERE m.inbox = number AND m.key = key;
        CONTINUE WHEN NOT FOUND;
        IF known.state = 1 AND NOT known.live THEN
            UPDATE {}.semel_marker m SET state = 0, first_ms = coalesce(m.first_ms, m.at_ms),
                at_ms = floor(date_part('epoch', clock_timestamp()) * 1000)::bigint, fingerprint = fingerprint,
                type = NULL, source = NULL, received_ms = NULL, attempts = NULL, token = NULL, lease_until_ms = NULL,
                error = NULL
                WHERE m.inbox = number AND m.key = key AND m.state = 1 AND NOT (m.token IS NOT NULL AND
                      m.lease_until_ms > floor(date_part('epoch', clock_timestamp()) * 1000)::bigint);
            CONTINUE WHEN NOT FOUND;
            RETURN 'claimed';
        END IF;
        IF known.state = 1 THEN
            RAISE EXCEPTION 'semel: another copy of this message is being handled: roll back, and try again later'
                USING ERRCODE = '55P03';
        END IF;
        IF known.fingerprint <> fingerprint THEN
            RAISE EXCEPTION 'semel: a message with this key but other content %',
                CASE known.state WHEN 2 THEN 'is a dead letter' ELSE 'was handled before' END
                USING ERRCODE = 'SM001';
        END IF;
        RETURN CASE known.state WHEN 2 THEN 'dead' ELSE 'duplicate' END;
    END LOOP;
    RAISE EXCEPTION 'semel: a marker changes faster than it can be read' USING ERRCODE = '40001';
END $$;

-- True for the first copy, false for every other one. A first copy costs one INSERT. Setting search_path would cost it
-- half as much again; so everything here is named with its schema.
CREATE OR REPLACE FUNCTION {}.semel_receive(inbox text, key bytea, fingerprint bigint DEFAULT NULL,
    made timestamptz DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
BEGIN
    IF pg_catalog.length(key) OPERATOR(pg_catalog.>) 0 AND pg_catalog.length(key) OPERATOR(pg_catalog.<) 256
       AND pg_catalog.get_byte(key, 0) OPERATOR(pg_catalog.<) 255 THEN
        NULL; -- as it is
    ELSE
        key := {}.semel_stored_key(key);
    END IF;
    INSERT INTO {}.semel_marker (inbox, key, state, at_ms, fingerprint)
        SELECT s.id, key, 0, pg_catalog.floor(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp())
                                              OPERATOR(pg_catalog.*) 1000)::pg_catalog.int8,
               CASE WHEN fingerprint OPERATOR(pg_catalog.<>) 0 THEN fingerprint END
        FROM {}.semel_scope s WHERE s.kind OPERATOR(pg_catalog.=) 1 AND
             s.name OPERATOR(pg_catalog.=) (inbox COLLATE pg_catalog."C") ON CONFLICT DO NOTHING;
    IF FOUND AND made IS NULL THEN
        RETURN true;
    END IF;
    RETURN {}.semel_receive_known(inbox, key, CASE WHEN fingerprint OPERATOR(pg_catalog.<>) 0 THEN fingerprint END,
                                  made, FOUND) OPERATOR(pg_catalog.=) 'claimed';
END $$;

CREATE OR REPLACE FUNCTION {}.semel_receive(inbox text, key text, fingerprint bigint DEFAULT NULL,
    made timestamptz DEFAULT NULL)
RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT {}.semel_receive(inbox, pg_catalog.convert_to(key, 'UTF8'), fingerprint, made)
$$;

-- The same with the reason: claimed (true), duplicate or dead (false). A dead message was given up after too many
-- failures, and is in semel_dead; it is not handled, and a retry of the dead letter decides about it.
CREATE OR REPLACE FUNCTION {}.semel_receive_outcome(inbox text, key bytea, fingerprint bigint DEFAULT NULL,
    made timestamptz DEFAULT NULL)
RETURNS text LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    key := {}.semel_stored_key(key);
    INSERT INTO {}.semel_marker (inbox, key, state, at_ms, fingerprint)
        SELECT s.id, key, 0, floor(date_part('epoch', clock_timestamp()) * 1000)::bigint, nullif(fingerprint, 0)
        FROM {}.semel_scope s WHERE s.kind = 1 AND s.name = inbox COLLATE "C" ON CONFLICT DO NOTHING;
    RETURN {}.semel_receive_known(inbox, key, nullif(fingerprint, 0), made, FOUND);
END $$;

CREATE OR REPLACE FUNCTION {}.semel_receive_outcome(inbox text, key text, fingerprint bigint DEFAULT NULL,
    made timestamptz DEFAULT NULL)
RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT {}.semel_receive_outcome(inbox, pg_catalog.convert_to(key, 'UTF8'), fingerprint, made)
$$;

-- A length as headers have it: four bytes, the lowest first.
CREATE OR REPLACE FUNCTION {}.semel_length_bytes(length integer)
RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.set_byte(pg_catalog.set_byte(pg_catalog.set_byte(pg_catalog.set_byte(
        pg_catalog.decode('00000000', 'hex'), 0, length OPERATOR(pg_catalog.&) 255),
        1, (length OPERATOR(pg_catalog.>>) 8) OPERATOR(pg_catalog.&) 255),
        2, (length OPERATOR(pg_catalog.>>) 16) OPERATOR(pg_catalog.&) 255),
        3, (length OPERATOR(pg_catalog.>>) 24) OPERATOR(pg_catalog.&) 255)
$$;

-- The fingerprint that the library keeps by default, of type and body: SipHash-2-4 over the length of the type, the
-- type and the body. bigint has a sign and no wrapping addition, so a sum is made of two halves.
CREATE OR REPLACE FUNCTION {}.semel_sum(a bigint, b bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (((a OPERATOR(pg_catalog.>>) 32) OPERATOR(pg_catalog.+) (b OPERATOR(pg_catalog.>>) 32)
             OPERATOR(pg_catalog.+) (((a OPERATOR(pg_catalog.&) 4294967295) OPERATOR(pg_catalog.+)
                                      (b OPERATOR(pg_catalog.&) 4294967295)) OPERATOR(pg_catalog.>>) 32))
            OPERATOR(pg_catalog.<<) 32) OPERATOR(pg_catalog.|)
        (((a OPERATOR(pg_catalog.&) 4294967295) OPERATOR(pg_catalog.+) (b OPERATOR(pg_catalog.&) 4294967295))
         OPERATOR(pg_catalog.&) 4294967295)
$$;

CREATE OR REPLACE FUNCTION {}.semel_fingerprint(type text, body bytea)
RETURNS bigint LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    data bytea := convert_to(coalesce(type, ''), 'UTF8');
    turns integer;
    at integer := 0;
    word bigint;
    v0 bigint := 2814750242313028;
    v1 bigint := 145834850217500447;
    v2 bigint := 2241677709678019664;
    v3 bigint := 1300425409464505601;
BEGIN
    data := {}.semel_length_bytes(length(data)) || '\x00000000'::bytea || data || coalesce(body, ''::bytea);
    data := data || substr('\x00000000000000'::bytea, 1, 7 - length(data) % 8)
        || set_byte('\x00'::bytea, 0, length(data) % 256);
    turns := length(data) / 4;
    FOR turn IN 1 .. turns + 4 LOOP
        IF turn <= turns AND turn % 2 = 1 THEN
            word := get_byte(data, at)::bigint | (get_byte(data, at + 1)::bigint << 8)
                | (get_byte(data, at + 2)::bigint << 16) | (get_byte(data, at + 3)::bigint << 24)
                | (get_byte(data, at + 4)::bigint << 32) | (get_byte(data, at + 5)::bigint << 40)
                | (get_byte(data, at + 6)::bigint << 48) | (get_byte(data, at + 7)::bigint << 56);
            at := at + 8;
            v3 := v3 # word;
        END IF;
        v0 := {}.semel_sum(v0, v1);
        v2 := {}.semel_sum(v2, v3);
        v1 := ((v1 << 13) | ((v1 >> 51) & 8191)) # v0;
        v3 := ((v3 << 16) | ((v3 >> 48) & 65535)) # v2;
        v0 := {}.semel_sum((v0 << 32) | ((v0 >> 32) & 4294967295), v3);
        v2 := {}.semel_sum(v2, v1);
        v3 := ((v3 << 21) | ((v3 >> 43) & 2097151)) # v0;
        v1 := ((v1 << 17) | ((v1 >> 47) & 131071)) # v2;
        v2 := (v2 << 32) | ((v2 >> 32) & 4294967295);
        IF turn <= turns AND turn % 2 = 0 THEN
            v0 := v0 # word;
        END IF;
        IF turn = turns THEN
            v2 := v2 # 255;
        END IF;
    END LOOP;
    word := v0 # v1 # v2 # v3;
    RETURN CASE word WHEN 0 THEN 1 ELSE word END;
END $$;

CREATE OR REPLACE FUNCTION {}.semel_fingerprint(type text, body text)
RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT {}.semel_fingerprint(type, pg_catalog.convert_to(body, 'UTF8'))
$$;

-- The result that was stored with a key: NULL if there is none.
CREATE OR REPLACE FUNCTION {}.semel_result(inbox text, key bytea) RETURNS bytea LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    RETURN (SELECT m.result FROM {}.semel_marker m JOIN {}.semel_scope s ON s.kind = 1 AND s.name = inbox COLLATE "C"
            WHERE m.inbox = s.id AND m.key = {}.semel_stored_key(key) AND m.state = 0);
END $$;

CREATE OR REPLACE FUNCTION {}.semel_result(inbox text, key text) RETURNS bytea LANGUAGE sql VOLATILE AS $$
    SELECT {}.semel_result(inbox, pg_catalog.convert_to(key, 'UTF8'))
$$;

CREATE OR REPLACE FUNCTION {}.semel_set_result(inbox text, key bytea, result bytea)
RETURNS void LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    IF length(result) > 1048576 THEN
        RAISE EXCEPTION 'semel: a result has % bytes; 1048576 are the limit', length(result) USING ERRCODE = '22023';
    END IF;
    UPDATE {}.semel_marker m SET result = result FROM {}.semel_scope s
        WHERE s.kind = 1 AND s.name = inbox COLLATE "C" AND m.inbox = s.id AND m.key = {}.semel_stored_key(key)
        AND m.state = 0;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'semel: a result for a key that was not received: call semel_receive first'
            USING ERRCODE = 'SM003';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION {}.semel_set_result(inbox text, key text, result bytea)
RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT {}.semel_set_result(inbox, pg_catalog.convert_to(key, 'UTF8'), result)
$$;

CREATE OR REPLACE FUNCTION {}.semel_set_result(inbox text, key text, result text)
RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT {}.semel_set_result(inbox, pg_catalog.convert_to(key, 'UTF8'), pg_catalog.convert_to(result, 'UTF8'))
$$;

-- Receives, and returns the stored result to a copy.
CREATE OR REPLACE FUNCTION {}.semel_receive_result(inbox text, key bytea, fingerprint bigint DEFAULT NULL,
    made timestamptz DEFAULT NULL, OUT first boolean, OUT result bytea)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    first := {}.semel_receive(inbox, key, fingerprint, made);
    IF NOT first THEN
        result := {}.semel_result(inbox, key);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION {}.semel_receive_result(inbox text, key text, fingerprint bigint DEFAULT NULL,
    made timestamptz DEFAULT NULL, OUT first boolean, OUT result bytea)
LANGUAGE sql VOLATILE AS $$
    SELECT r.first, r.result
    FROM {}.semel_receive_result(inbox, pg_catalog.convert_to(key, 'UTF8'), fingerprint, made) r
$$;

-- --- sending -------------------------------------------------------------------------------------------------------

-- Headers as the library stores them: of each the length of the name, the name, the length of the value, the value. A
-- member that is null is left out. due_ms is set if the message is delayed.
CREATE OR REPLACE FUNCTION {}.semel_header_bytes(headers jsonb, due_ms bigint) RETURNS bytea LANGUAGE plpgsql IMMUTABLE
PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    packed bytea;
    many bigint;
    longest bigint;
BEGIN
    IF headers IS NOT NULL AND jsonb_typeof(headers) <> 'object' THEN
        RAISE EXCEPTION 'semel: headers are a JSON object, not %', jsonb_typeof(headers) USING ERRCODE = '22023';
    END IF;
    SELECT string_agg({}.semel_length_bytes(length(h.name)) || h.name || {}.semel_length_bytes(length(h.value))
                      || h.value, ''::bytea),
           count(*), max(length(h.name) + length(h.value)) INTO packed, many, longest
        FROM (SELECT convert_to(e.key, 'UTF8') AS name, convert_to(e.value, 'UTF8') AS value
              FROM jsonb_each_text(headers) e
              WHERE e.value IS NOT NULL AND NOT (due_ms IS NOT NULL AND e.key = 'semeldue')
              UNION ALL
              SELECT 'semeldue'::bytea, convert_to(due_ms::text, 'UTF8') WHERE due_ms IS NOT NULL) h;
    IF many > 128 OR longest > 8192 OR headers ? '' THEN
        RAISE EXCEPTION 'semel: at most 128 headers, each with a name and at most 8192 bytes' USING ERRCODE = '22023';
    END IF;
    RETURN packed;
END $$;

-- A UUID of version 7, which begins with the time.
CREATE OR REPLACE FUNCTION {}.semel_new_id(now_ms bigint) RETURNS text LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bytes bytea := substr(int8send(now_ms), 3) || substr(uuid_send(gen_random_uuid()), 7);
BEGIN
    RETURN encode(set_byte(bytes, 6, (get_byte(bytes, 6) & 15) | 112), 'hex')::uuid::text;
END $$;

-- Puts a message into an outbox, with the caller's transaction, and returns its id.
--
-- Relays are told by NOTIFY at the commit, by one transaction at a time: commits with a NOTIFY queue behind a lock of
-- the server, and a relay that was told looks again soon. semel.notify = off leaves it out: a transaction with a NOTIFY
-- cannot be prepared (PREPARE TRANSACTION), and then the relay finds the message at its next look.
CREATE OR REPLACE FUNCTION {}.semel_send(outbox text, type text, body bytea, id text DEFAULT NULL,
    source text DEFAULT NULL,
    topic text DEFAULT NULL, grp text DEFAULT NULL, correlation_id text DEFAULT NULL,
    content_type text DEFAULT NULL, headers jsonb DEFAULT NULL, delay interval DEFAULT NULL)
RETURNS text LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    now_ms bigint := floor(date_part('epoch', clock_timestamp()) * 1000)::bigint;
    delay_ms bigint := coalesce(ceil(date_part('epoch', delay) * 1000)::bigint, 0);
    number integer;
BEGIN
    IF greatest(octet_length(type), octet_length(id), octet_length(source), octet_length(topic), octet_length(grp),
                octet_length(correlation_id), octet_length(content_type)) > 1024 THEN
        RAISE EXCEPTION 'semel: a text of a message has more than 1024 bytes' USING ERRCODE = '22023';
    END IF;
    IF length(body) > 16777216 THEN
        RAISE EXCEPTION 'semel: a body has % bytes; 16777216 are the limit', length(body) USING ERRCODE = '22023';
    END IF;
    IF delay_ms NOT BETWEEN 0 AND 4294967295 THEN
        RAISE EXCEPTION 'semel: a delay is at least 0 and at most 49 days' USING ERRCODE = '22023';
    END IF;
    IF coalesce(id, '') = '' THEN
        id := {}.semel_new_id(now_ms);
    END IF;
    SELECT s.id INTO number FROM {}.semel_scope s WHERE s.kind = 2 AND s.name = outbox COLLATE "C";
    WHILE number IS NULL LOOP
        number := {}.semel_scope_number(2, outbox);
    END LOOP;
    INSERT INTO {}.semel_outbox (outbox, wake_ms, captured_ms, grp, id, source, type, topic, correlation_id,
                                 content_type, time_ms, headers, body)
        VALUES (number, now_ms + delay_ms, now_ms, nullif(grp, ''), convert_to(id, 'UTF8'), source, type, topic,
                convert_to(correlation_id, 'UTF8'), content_type, now_ms,
                CASE WHEN headers IS NOT NULL OR delay_ms > 0
                THEN {}.semel_header_bytes(headers, CASE WHEN delay_ms > 0 THEN now_ms + delay_ms END) END, body);
    IF coalesce(current_setting('semel.notify', true), '') <> 'off' AND
       pg_try_advisory_xact_lock('{}.semel_meta'::regclass::oid::bigint << 24) THEN
        PERFORM pg_notify('semel.' || (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                                       WHERE c.oid = '{}.semel_meta'::regclass), '');
    END IF;
    RETURN id;
END $$;

CREATE OR REPLACE FUNCTION {}.semel_send(outbox text, type text, body text, id text DEFAULT NULL,
    source text DEFAULT NULL,
    topic text DEFAULT NULL, grp text DEFAULT NULL, correlation_id text DEFAULT NULL,
    content_type text DEFAULT NULL, headers jsonb DEFAULT NULL, delay interval DEFAULT NULL)
RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT {}.semel_send(outbox, type, pg_catalog.convert_to(body, 'UTF8'), id, source, topic, grp, correlation_id,
                         content_type, headers, delay)
$$;

CREATE OR REPLACE FUNCTION {}.semel_send(outbox text, type text, body jsonb, id text DEFAULT NULL,
    source text DEFAULT NULL,
    topic text DEFAULT NULL, grp text DEFAULT NULL, correlation_id text DEFAULT NULL,
    content_type text DEFAULT 'application/json', headers jsonb DEFAULT NULL,
    delay interval DEFAULT NULL)
RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT {}.semel_send(outbox, type, pg_catalog.convert_to(body::pg_catalog.text, 'UTF8'), id, source, topic, grp,
                         correlation_id, content_type, headers, delay)
$$;

-- --- tables of other outboxes --------------------------------------------------------------------------------------

-- A query that sends what stands in rows of a table: SELECT ... FROM, to be continued. A column that is '' is absent.
CREATE OR REPLACE FUNCTION {}.semel_capture_query(outbox text, id text, type text, grp text, topic text, body text,
    prefix text,
    body_is_bytes text)
RETURNS text LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN format('SELECT count({}.semel_send(%L, %s, %s, id => %s, grp => %s, topic => %L || %s)) FROM ', outbox,
                  CASE type WHEN '' THEN 'NULL::text' ELSE format('t.%I::text', type) END,
                  CASE body_is_bytes WHEN 'yes' THEN format('t.%I', body) ELSE format('t.%I::text', body) END,
                  CASE id WHEN '' THEN 'NULL::text' ELSE format('t.%I::text', id) END,
                  CASE grp WHEN '' THEN 'NULL::text' ELSE format('t.%I::text', grp) END,
                  prefix, CASE topic WHEN '' THEN 'NULL::text' ELSE format('t.%I::text', topic) END);
END $$;

-- After each row: what semel_capture_query() takes is in the trigger's arguments.
CREATE OR REPLACE FUNCTION {}.semel_capture()
RETURNS trigger LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE {}.semel_capture_query(TG_ARGV[0], TG_ARGV[1], TG_ARGV[2], TG_ARGV[3], TG_ARGV[4], TG_ARGV[5], TG_ARGV[6],
                                   TG_ARGV[7]) || '(SELECT ($1).*) t' USING NEW;
    RETURN NULL;
END $$;

-- From now on every row that is inserted into the table is sent, by a trigger, in the transaction that inserts it; the
-- rows that are there already are sent with this transaction. Nothing happens if the trigger is there as it should be;
-- if it is another one, also one of the tables of another schema, it is replaced; one that is disabled is an error.
-- Returns how many rows were there.
CREATE OR REPLACE FUNCTION {}.semel_capture_table(outbox text, source regclass, id text DEFAULT 'id',
    type text DEFAULT 'type',
    grp text DEFAULT 'aggregateid', topic text DEFAULT 'aggregatetype',
    body text DEFAULT 'payload', prefix text DEFAULT 'outbox.event.')
RETURNS bigint LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    given text[] := ARRAY[outbox, coalesce(id, ''), coalesce(type, ''), coalesce(grp, ''), coalesce(topic, ''),
                          coalesce(body, ''), coalesce(prefix, '')];
    missing text;
    known record;
    wanted bytea;
    was_there boolean;
    sent bigint := 0;
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'semel: semel_capture_table in a transaction that is %',
            current_setting('transaction_isolation') USING ERRCODE = '0A000',
            HINT = 'Rows could be lost or sent twice: begin with BEGIN ISOLATION LEVEL READ COMMITTED.';
    END IF;
    SELECT c.name INTO missing FROM unnest(given[2:6]) AS c (name) WHERE (c.name <> '' OR given[6] = '') AND NOT EXISTS
        (SELECT FROM pg_attribute a WHERE a.attrelid = source AND a.attname = c.name AND a.attnum > 0
         AND NOT a.attisdropped) LIMIT 1;
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION 'semel: the table % has no column "%"', source, missing USING ERRCODE = '42703';
    END IF;
    given := given || (SELECT CASE a.atttypid WHEN 'bytea'::regtype THEN 'yes' ELSE 'no' END FROM pg_attribute a
                       WHERE a.attrelid = source AND a.attname = given[6]);
    SELECT string_agg(convert_to(g.one, 'UTF8') || '\x00'::bytea, ''::bytea ORDER BY g.place) INTO wanted
        FROM unnest(given) WITH ORDINALITY AS g (one, place);
    FOR look IN 1..2 LOOP -- without the lock, so that nothing waits if all is well, and with it
        SELECT t.tgargs, t.tgfoid, t.tgenabled INTO known FROM pg_trigger t
            WHERE t.tgrelid = source AND t.tgname = 'semel_capture';
        was_there := FOUND;
        IF known.tgenabled NOT IN ('O', 'A') THEN
            RAISE EXCEPTION 'semel: rows are not sent: ALTER TABLE % ENABLE TRIGGER semel_capture', source
                USING ERRCODE = '55000', HINT = 'It was disabled. Rows that were inserted meanwhile are not sent.';
        END IF;
        IF known.tgargs = wanted AND known.tgfoid = '{}.semel_capture()'::regprocedure THEN
            RETURN 0;
        END IF;
        IF look = 1 THEN
            EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', source);
        END IF;
    END LOOP;
    EXECUTE format('DROP TRIGGER IF EXISTS semel_capture ON %s', source);
    EXECUTE format('CREATE TRIGGER semel_capture AFTER INSERT ON %s FOR EACH ROW EXECUTE FUNCTION {}.semel_capture('
                   '%L, %L, %L, %L, %L, %L, %L, %L)', source, given[1], given[2], given[3], given[4], given[5],
                   given[6], given[7], given[8]);
    IF NOT was_there THEN
        EXECUTE {}.semel_capture_query(given[1], given[2], given[3], given[4], given[5], given[6], given[7], given[8])
            || format('(SELECT * FROM %s ORDER BY ctid) t', source) INTO sent;
    END IF;
    RETURN sent;
END $$;
