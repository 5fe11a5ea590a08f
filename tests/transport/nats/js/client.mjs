// client.mjs MODULES WHAT SERVER STREAM: another client of NATS (nats.js), for test_nats_js.c. WHAT is "publish": a
// CloudEvent to the subject STREAM.shop; or "consume": it takes one message by the consumer STREAM and says what is in
// it, the headers that are neither the server's nor semel's own, sorted, and the body.
import { createRequire } from "node:module";

const [modules, what, server, stream] = process.argv.slice(2);
const { connect, headers } = createRequire(modules + "/")("nats");
const PATIENCE_MS = 60000;

async function publish(js) {
  const all = headers();
  const values = {
    "ce-specversion": "1.0",
    "ce-id": "o-17",
    "ce-source": "/till",
    "ce-type": "order.placed",
    "ce-subject": "shop",
    "ce-partitionkey": "c-3",
    "content-type": "application/json",
    sku: "A-7",
  };
  for (const [name, value] of Object.entries(values)) all.set(name, value);
  const answer = await js.publish(`${stream}.shop`, '{"order_id": 17}', { headers: all, timeout: PATIENCE_MS });
  console.log(`${answer.stream === stream} ${answer.seq}`);
}

async function consume(js) {
  const consumer = await js.consumers.get(stream, stream);
  const message = await consumer.next({ expires: PATIENCE_MS });
  if (!message) throw new Error("no message came");
  const names = message.headers.keys().filter((name) => !/^(Nats|semel)-/.test(name));
  for (const name of names.sort()) console.log(`${name}: ${message.headers.get(name)}`);
  console.log(message.string());
  if (!(await message.ackAck())) throw new Error("the acknowledgement was not confirmed");
}

const connection = await connect({ servers: server, user: "semel", pass: "semel", timeout: PATIENCE_MS });
await (what === "publish" ? publish : consume)(connection.jetstream({ timeout: PATIENCE_MS }));
await connection.close();
