// A worker in Node: one message per line on stdin, one answer per line on stdout.
//
//     fraud: { from: orders, worker: { command: [node, fraud.js], processes: 2 } }
const lines = require("readline").createInterface({ input: process.stdin });

async function handle(message) {
  const order = message.body;
  if (order.amount < 0) return { status: "dead", error: "a negative amount" }; // no further attempt
  return { result: { order: order.order_id, suspicious: order.amount > 10000 } };
}

lines.on("line", async (line) => {
  const message = JSON.parse(line);
  let answer;
  try {
    answer = await handle(message);
  } catch (error) {
    answer = { status: "retry", error: String(error) };
  }
  console.log(JSON.stringify({ id: message.id, ...answer }));
});
