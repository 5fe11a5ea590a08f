/* A real `semel run` on SQLite in a directory of its own, with messages, copies, failures and dead letters. */
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { until } from './kit.mjs';

export const TOKEN = 'a-token-of-the-test';
const CONFIG = `version: 1
store: sqlite:shop.db
setup: CREATE TABLE IF NOT EXISTS charges (order_id TEXT, amount INTEGER)
admin: { listen: "127.0.0.1:0", token: "\${file:token}" }
queues:
  orders: store
  shipping: store
  returns: store
inboxes:
  payments:
    from: orders
    types: [order.placed]
    key: json:/order_id
    retention: 14d
    sql: "INSERT INTO charges VALUES (:json/order_id, :json/amount)"
    send: { to: shipping }
  shipping.labels: { from: orders, types: [label.wanted], key: "json:/label", exec: [./label.sh] }
  emails: { from: orders, types: [mail.wanted], key: "json:/to", attempts_max: 5, exec: [./mail.sh] }
  parcels: { from: shipping, sql: SELECT 1 }
gateway:
  listen: 127.0.0.1:0
  routes: [{ path: /v1/*, name: charges, proxy: "http://127.0.0.1:UPSTREAM" }]
`;
const LABEL = `#!/bin/sh
[ -e carrier-is-back ] && exit 0
read -r body
echo "http 422 from carrier: postal code \${#body} is not in country DE" >&2
exit 65
`;
/* It fails once, then it works; what is hostile fails for good. */
const MAIL = `#!/bin/sh
read -r body
case $body in *hostile*) printf 'no mailbox \\033[31m<script>window.broken=1</script>\\n' >&2; exit 65 ;; esac
[ -e "failed-$SEMEL_KEY" ] && exit 0
: >"failed-$SEMEL_KEY"
echo 'smtp: 451 try again later' >&2
exit 75
`;

export class Shop {
  constructor(program) {
    this.program = path.resolve(program);
    this.directory = fs.mkdtempSync(path.join(os.tmpdir(), 'semel-page-'));
    const put = (name, text, mode) => fs.writeFileSync(path.join(this.directory, name), text, { mode });
    put('token', TOKEN + '\n', 0o600);
    put('label.sh', LABEL, 0o700);
    put('mail.sh', MAIL, 0o700);
    fs.mkdirSync(path.join(this.directory, 'run'), { mode: 0o700 });
    this.env = { ...process.env, TZ: 'UTC', LC_ALL: 'C.UTF-8', XDG_RUNTIME_DIR: path.join(this.directory, 'run') };
    for (const name of Object.keys(this.env)) if (name.startsWith('SEMEL_')) delete this.env[name];
  }

  semel(...words) {
    const done = spawnSync(this.program, words, { cwd: this.directory, env: this.env, encoding: 'utf8',
      timeout: 60000 });
    if (done.status !== 0) throw new Error(`semel ${words.join(' ')}: ${done.status}\n${done.stdout}${done.stderr}`);
    return done.stdout;
  }

  publish(type, body, copies = 1) {
    this.semel('publish', 'orders', '--type', type, '--source', 'web', '--copies', String(copies),
      JSON.stringify(body));
  }

  /* What the gateway stands before. */
  async listen() {
    this.effects = 0;
    this.upstream = http.createServer((request, response) => {
      this.effects++;
      request.resume().on('end', () => response.writeHead(201).end('{"charge": 1}'));
    });
    await new Promise(done => { this.upstream.listen(0, '127.0.0.1', done); });
    fs.writeFileSync(path.join(this.directory, 'semel.yaml'),
      CONFIG.replace('UPSTREAM', String(this.upstream.address().port)), { mode: 0o600 });
  }

  /* A request through the gateway; its answer. */
  async ask(key, body) {
    return fetch(`${this.gateway}/v1/charges`, { method: 'POST', body, headers: { 'Idempotency-Key': key,
      Authorization: 'Bearer of-a-caller' } });
  }

  /* A change of the store that semel has no command for: what takes hours, or a broker. */
  change(statement) {
    const done = spawnSync('sqlite3', ['-cmd', '.timeout 60000', path.join(this.directory, 'shop.db'), statement],
      { encoding: 'utf8' });
    if (done.status !== 0) throw new Error(`${statement}: ${done.stderr || done.error}`);
  }

  /* Until the admin server says where it is. */
  async start() {
    if (!this.upstream) await this.listen();
    this.said = '';
    this.process = spawn(this.program, ['run', '--log-format', 'text'], { cwd: this.directory, env: this.env,
      stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [this.process.stdout, this.process.stderr]) stream.on('data', text => { this.said += text; });
    process.once('exit', () => this.process && this.process.kill('SIGKILL')); // nothing is left when a test breaks
    this.ended = new Promise(done => { this.process.on('exit', done); });
    this.url = await until(() => (/admin:? +(http:\/\/127\.0\.0\.1:\d+\/)/.exec(this.said) || [])[1],
      () => `semel run says where its page is:\n${this.said}`);
    this.gateway = await until(() => (/gateway (http:\/\/127\.0\.0\.1:\d+)/.exec(this.said) || [])[1],
      () => `and where its gateway is:\n${this.said}`);
  }

  async get(name) { return (await fetch(`${this.url}api/v1/${name}`)).json(); }

  async stop() {
    if (this.process && this.process.exitCode === null) this.process.kill('SIGTERM');
    await this.ended;
    this.process = null;
  }

  async remove() {
    await this.stop();
    this.upstream.closeAllConnections();
    this.upstream.close();
    fs.rmSync(this.directory, { recursive: true, force: true });
  }
}

/* What there is to look at: copies, a failure that was overcome, twelve dead letters of one cause, one of another. */
export const fill = async shop => {
  shop.publish('order.placed', { order_id: 'order-904403', customer: 'customer-5121', currency: 'EUR', amount: 4790,
    items: [{ sku: 'espresso-250', count: 2, price: 1495 }, { sku: 'filter-500', count: 1, price: 1800 }],
    note: '<b>leave</b> at door' }, 5);
  for (let i = 0; i < 12; i++) shop.publish('order.placed', { order_id: 'order-' + (904404 + i),
    amount: 1200 + i * 37 },
    1 + i % 3);
  for (let i = 0; i < 12; i++) shop.publish('label.wanted', { label: 'label-' + (77120 + i * 7),
    weight: 'x'.repeat(i) });
  shop.publish('mail.wanted', { to: 'mira@example.com' }, 2);
  shop.publish('mail.wanted', { to: 'hostile', subject: '<script>window.broken=1</script>\u202Etxt' });
  await until(async () => {
    const { dead, totals } = await shop.get('overview');
    return dead.letters >= 13 && totals.processed >= 14 && totals.suppressed >= 16;
  }, 'the shop has handled its messages');
};
