-- brings: which versions of semel may use the tables, dead letters by inbox and outbox
-- locks: semel_dead while an index of it is built, about 5 s per million letters; not if it was built before
-- needs: 5
--
-- The letters of one inbox or outbox in their order. If the table has millions of letters and must not be locked, run
-- this statement before, by itself; the step then finds the index:
--     CREATE INDEX CONCURRENTLY semel_dead_name ON {}.semel_dead (origin, name, dead_id);
DO $semel_index$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('{}.semel_dead_name') AND NOT indisvalid) THEN
    DROP INDEX {}.semel_dead_name; -- CONCURRENTLY was interrupted
END IF;
END
$semel_index$;
CREATE INDEX IF NOT EXISTS semel_dead_name ON {}.semel_dead (origin, name, dead_id);

-- The least version that a program must know to use the tables behind this step. NULL: that of the step.
ALTER TABLE {}.semel_schema ADD COLUMN needs integer;
