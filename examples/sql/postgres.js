// node postgres.js URL <messages: each message is handled once, whatever the source delivers how often. No binding of
// semel: the functions that semel's tables have are called in the transaction that the work goes into (docs/SQL.md).
const { Client } = require("pg");
const readline = require("readline");
const TRY_AGAIN = ["40001", "40P01", "55P03"];

async function handle(db, message) {
  await db.query("BEGIN");
  try {
    const { rows } = await db.query("SELECT semel_receive('payments', $1) AS first", [message.id]);
    if (rows[0].first) { // otherwise a copy
      await db.query("INSERT INTO charge (order_id, cents) VALUES ($1, $2)", [message.id, message.cents]);
      await db.query("SELECT semel_send('receipts', 'charged', $1)", [message.id]);
    }
    await db.query("COMMIT");
  } catch (problem) {
    await db.query("ROLLBACK");
    if (!TRY_AGAIN.includes(problem.code)) throw problem;
    await new Promise((resume) => setTimeout(resume, 50));
    return handle(db, message);
  }
}

async function main() {
  const db = new Client({ connectionString: process.argv[2] });
  await db.connect();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const message = JSON.parse(line);
    await handle(db, message);
    console.log(message.id); // here a consumer acknowledges
  }
  await db.end();
}

main();
