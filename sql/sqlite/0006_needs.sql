-- brings: which versions of semel may use the tables, dead letters by inbox and outbox
-- locks: the file while an index of semel_dead is built: about 5 s per million letters
-- needs: 5
--
-- The letters of one inbox or outbox in their order.
CREATE INDEX semel_dead_name ON semel_dead (origin, name, dead_id);

-- The least version that a program must know to use the tables behind this step. NULL: that of the step.
ALTER TABLE semel_schema ADD COLUMN needs INTEGER;
