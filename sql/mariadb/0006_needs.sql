-- brings: which versions of semel may use the tables, dead letters by inbox and outbox
-- locks: no tables in use; takes about 5 s per million letters
-- needs: 5
--
-- The letters of one inbox or outbox in their order.
ALTER TABLE `{}dead` ADD KEY IF NOT EXISTS name (origin, name, dead_id);

-- The least version that a program must know to use the tables behind this step. NULL: that of the step.
ALTER TABLE `{}schema` ADD COLUMN IF NOT EXISTS needs INT;
