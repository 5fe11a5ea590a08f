/* A made-up shop in the form of the API, the same at each run: for states of the page that a real semel reaches only
 * after a day (plots of 24 hours) or by an accident. Nothing here is measured. */
const hash = i => {
  let x = (i ^ 0x9E3779B9) >>> 0;
  x = Math.imul(x ^ x >>> 16, 0x85EBCA6B);
  x = Math.imul(x ^ x >>> 13, 0xC2B2AE35);
  return ((x ^ x >>> 16) >>> 0) / 4294967296;
};
const noise = (t, salt) => hash(Math.floor(t) * 31 + salt) - .5;
const smooth = (t, step, salt) => {
  const i = Math.floor(t / step), f = t / step - i, a = noise(i, salt), b = noise(i + 1, salt), u = f * f * (3 - 2 * f);
  return a + (b - a) * u;
};

export const shop = nowMs => {
  const S = Math.floor(nowMs / 1000), away = S - 1900, back = away + 38, carrier = S - 2900, carrierEnd = carrier + 540;
  const profile = t => {
    const h = ((t - S) / 3600 + 3.2 + 48) % 24;
    return 294 + 112 * Math.sin((h - 9.2) / 24 * 2 * Math.PI) + 34 * Math.sin((h - 7) / 12 * 2 * Math.PI);
  };
  const bump = (t, c, w, a) => a * Math.exp(-((t - c) ** 2) / (2 * w * w));
  const of = {
    processed: t => {
      let v = profile(t) * (1 + .10 * noise(t, 1) + .07 * smooth(t, 240, 2));
      if (t >= away && t < back) v *= .12; else if (t >= back && t < back + 240) v *= 1 + 1.5 * (1 - (t - back) / 240);
      return Math.max(0, v);
    },
    suppressed: t => {
      let v = profile(t) * .058 * (1 + .6 * noise(t, 3) + .5 * smooth(t, 420, 4));
      v += bump(t, S - 46200, 240, 36) + bump(t, S - 29200, 300, 22);
      if (t >= back && t < back + 420) v += 150 * Math.exp(-(t - back) / 130);
      if (t >= S - 31 && t < S - 14) v += 34 * Math.exp(-Math.abs(t - (S - 26)) / 4.5);
      return Math.max(0, v);
    },
    failed: t => hash(Math.floor(t) * 7 + 5) > .95 ? 1 : t >= carrier && t < carrierEnd ? 2 : 0,
    lag: t => {
      let v = 22 + 22 * smooth(t, 3, 7) + 14 * noise(t, 8) + profile(t) * .05;
      if (t >= away && t < back) v += (t - away) * 62;
      else if (t >= back && t < back + 200) v += 2350 * (1 - (t - back) / 200);
      return Math.max(0, Math.round(v));
    },
    dead: t => {
      const steps = [[-22, 2], [-15.6, 3], [-9.2, 5], [-7.1, 6], [-3.4, 9], [-1.6, 15], [-.74, 25], [-.68, 33], [-.2,
        36],
        [-.03, 37]];
      let v = 1;
      for (const [h, n] of steps) if (t >= S + h * 3600) v = n;
      return v;
    }
  };
  const failedMinute = t => t >= carrier - 60 && t < carrierEnd ? 2.1 : .05 + .06 * hash(Math.floor(t / 60) * 13);
  const series = (fn, n, step, end) => Array.from({ length: n }, (_, i) => fn(end - (n - 1 - i) * step));
  const minute = (end, n) => ({ end, step: 1, ...Object.fromEntries(Object.keys(of).map(k => [k,
    series(t => k === 'processed' || k === 'suppressed' ? Math.round(of[k](t)) : of[k](t), n, 1, end)])) });
  const day = end => ({ end, step: 60, ...Object.fromEntries(Object.keys(of).map(k => [k,
    series(k === 'failed' ? failedMinute : of[k], 1440, 60, end)])) });
  const spark = (salt, base) => Array.from({ length: 60 }, (_, i) => Math.max(0, base * (1 + .5 * smooth(i, 3, salt) +
    .35 * noise(i, salt + 1))));
  return { S, away, back, minute, day, spark, hash };
};

const M = 60e3, H = 3600e3, D = 86400e3;
const key = text => ({ text, shown: text });

export const inboxesOf = ({ spark }) => [
  ['emails', 'claim', 'orders', 'exec send-email', 2, 38.1, 1.42, .05, 412, 3214880, '7d', 21],
  ['inventory', 'transaction', 'orders', 'worker stock.py', 4, 37.8, 1.77, 0, 6.1, 3209112, '14d', 0],
  ['ledger', 'queued', 'orders', 'sql, 2 statements', 4, 38, 1.55, 0, 3.2, 6420441, '14d', 0],
  ['payments', 'transaction', 'orders', 'sql, 1 statement', 4, 22.4, 2.31, 0, 4.4, 4100937, '14d', 3],
  ['shipping.labels', 'claim', 'shipping', 'http carrier:8080', 2, 9.6, .88, .02, 688, 811204, '7d', 12],
  ['webhooks.stripe', 'transaction', 'stripe-events', 'sql, 3 statements', 4, 4.1, .61, 0, 5, 148220, '2d', 0],
  ['edge.scans', 'transaction', 'scans', 'sql, 1 statement', 3, 1.9, .24, 0, 1.9, 90311, '7d', 0]
].map(([name, mode, from, handler, grade, processed_rate, suppressed_rate, failed_rate, p99_ms, keys, retention, dead],
  i) => ({
  name, mode, from, handler, grade, processed_rate, suppressed_rate, failed_rate, p50_ms: p99_ms / 3, p99_ms, keys,
  retention, dead, key: 'json:/order_id', in_progress: 4, spark: spark(11 + i * 10, 1 + suppressed_rate),
  warning: name === 'webhooks.stripe' ? 'Stripe retries for 3 d; this inbox forgets after 2 d' : null
}));

export const rowsOf = ({ hash }, t) => Array.from({ length: 50 }, (_, i) => {
  const r = hash(i * 97 + 3), state = i === 1 ? 'progress' : i === 6 ? 'waiting' : i === 17 || i === 29 ? 'dead'
    : 'processed';
  const copies = state !== 'processed' ? (state === 'dead' ? 1 : 0) : i === 4 ? 4 : i === 11 ? 14 : r > .93 ? 5
    : r > .86 ? 2
    : r > .7 ? 1 : 0;
  const failures = state === 'dead' ? 3 : state === 'waiting' || i === 4 ? 1 : 0;
  const id = 904417 - i * 3 - Math.floor(r * 3), first = t - 900 - i * 1370 - r * 900;
  return { key: key('order-' + id), type: ['order.placed', 'order.placed', 'order.changed', 'order.cancelled'][i % 4],
    source: ['web', 'web', 'app', 'pos-14'][Math.floor(hash(i * 19) * 4)], state, copies, failures,
      attempts: failures + 1,
    first_ms: first, last_ms: copies ? t - 400 - i * 700 : first, took_ms: state === 'processed' ? 1.4 + r * 4 : null,
    strip: { failures, processed: state === 'processed' ? 1 : 0, copies, dead: state === 'dead' ? 1 : 0 } };
});

const BODY = '{"order_id":"order-904403","customer":"customer-5121","currency":"EUR","amount":4790,"items":[{"sku":' +
  '"espresso-250","count":2,"price":1495},{"sku":"filter-500","count":1,"price":1800}],"note":"<b>leave</b> at door"}';
export const messageOf = (inbox, name, t, body = BODY) => {
  const at = t - 31 * M, e = (ms, kind, more) => ({ at: at + ms, kind, process: 'shop-1 worker 3', ...more });
  return {
    inbox, key: key(name), state: 'processed', history: true, remembered_until: t + 14 * D,
    verdict: { state: 'processed', attempts: 2, copies: 4, sent: 2, at: at + 139, mode: 'transaction' },
    message: { id: '018f3c2a-9d41-7b6e-8a11-5f0c2d9e7b34', type: 'order.placed', source: 'web', group: 'customer-5121',
      topic: 'order.placed', content_type: 'application/json', time: at + 112, headers: [['content-type',
        'application/json'], ['ce-specversion', '1.0'], ['traceparent',
        '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'], ['x-shop-region', 'eu-west']],
      body: { base64: Buffer.from(body).toString('base64'), len: Buffer.byteLength(body),
        kept: Buffer.byteLength(body) } },
    timeline: [e(131, 'received', { delivery: 1 }), e(133, 'failed', { attempt: 1, took_ms: 1.9,
      error: 'deadlock detected: ' +
      'process 4711 waits for ShareLock on transaction 88213; blocked by process 4718', retry_ms: 5 }),
    e(139, 'processed', { attempt: 2, took_ms: 4.1 }), e(4507, 'duplicate', { took_ms: .3,
      process: 'shop-2 worker 1' }),
    e(4540, 'sent', { name: 'events', type: 'order.paid', took_ms: 3.1 }),
    e(40902, 'sent', { name: 'receipts', type: 'receipt.v1', took_ms: 5.8 }), e(40977, 'duplicate', { took_ms: .2 }),
    e(41004, 'duplicate', { took_ms: 11, process: 'shop-2 worker 4' }),
    e(862311, 'duplicate', { took_ms: .3, message_id: '018f3c37-c0aa-7001-9a00-5f0c2d9e7b35' })]
  };
};

/* A request to an upstream that gave no answer. */
export const unknownOf = (inbox, name, t) => ({
  inbox, key: key(name), state: 'outcome_unknown', history: true, remembered_until: t + D, message: null,
  keeps_messages: false,
  verdict: { state: 'outcome_unknown', attempts: 1, copies: 2, sent: 0, at: t - 6 * M, mode: 'claim' },
  timeline: [{ at: t - 6 * M, kind: 'unknown', process: 'shop-1', error: 'unknown outcome: the connection ended' }]
});

export const outboxesOf = ({ spark }) => [
  { name: 'events', to: 'amqp://mq-1/shop → shipping', unsent: 21, oldest_ms: 180, sent_rate: 41.8,
    failed_rate: 0, state: 'ok', grade: 4, spark: spark(82, 42), relays: [{ process: 'shop-1/4711', host: 'shop-1',
      pid: 4711 },
      { process: 'shop-2/1893', host: 'shop-2', pid: 1893 }] },
  { name: 'receipts', to: 'amqp://mq-1/shop → mail', unsent: 14, oldest_ms: 252e3, sent_rate: 18.9,
    failed_rate: .02, state: 'stuck', grade: 4, error: 'unroutable: no queue is bound for topic receipt.v0',
    spark: spark(83, 19), relays: [{ process: 'shop-2/1893', host: 'shop-2', pid: 1893 }] }
];
export const queuesOf = () => [
  { name: 'orders', at: 'postgres://db-1/shop', kind: 'store', ready: 61, leased: 16, delayed: 3, oldest_ms: 420,
    readers: ['emails', 'inventory', 'ledger', 'payments'], writers: [], out_rate: 38.3 },
  { name: 'returns', at: 'postgres://db-1/shop', kind: 'store', ready: 0, leased: 0, delayed: 0, oldest_ms: null,
    readers: [],
    writers: [], out_rate: 0, warning: 'Nobody reads this queue.' },
  { name: 'shipping', at: 'amqp://mq-1/shop', kind: 'broker', ready: 9, leased: null, delayed: null, oldest_ms: null,
    readers: ['shipping.labels'], writers: ['events'], out_rate: 9.6 }
];
export const groupsOf = ({ hash }, t) => [
  ['e1', 'smtp: 550 5.1.1 <…>: mailbox unavailable', 'emails', 'inbox', 21, 22 * H, 108e3, 'order.placed'],
  ['e2', 'http 422 from carrier: postal code … is not in country …', 'shipping.labels', 'inbox', 12, 43 * M, 39 * M,
    'label.wanted'],
  ['e3', 'mismatch: key known with other content', 'payments', 'inbox', 3, 9.2 * H, 12 * M, 'order.placed'],
  ['e4', 'unroutable: no queue is bound for topic receipt.v0', 'receipts', 'outbox', 1, 3.4 * H, 3.4 * H, 'receipt.v0']
].map(([cause, text, name, origin, letters, first, last, types]) => ({
  cause, text, name, origin, letters, first_ms: t - first, last_ms: t - last, types: [types],
  spark: Array.from({ length: 48 }, (_, i) => cause === 'e2' ? (i === 45 ? 6 : i === 46 ? 4 : 0)
    : cause === 'e1' ? (hash(i * 5 + 2) > .55 ? 1 + Math.floor(hash(i) * 2) : 0)
      : (cause === 'e3' ? [28, 37, 47] : [41]).includes(i) ? 1 : 0)
}));
const PLACES = ['90210 DE', '1012 AB BE', 'SW1A 1AA IE', '75008 DE', '00-950 CZ', '1010 DE', '8001 AT', '28013 PT',
  '20095 NL',
  'D02 AF30 GB', '11122 NO', '6900 IT'];
export const lettersOf = (group, t) => Array.from({ length: group.letters }, (_, i) => {
  const [, code, country] = /^(.*) (\w+)$/.exec(PLACES[i % 12]);
  return { id: 100 + i, origin: group.origin, name: group.name, key: key('label-' + (77120 + i * 7)),
    type: group.types[0],
    attempts: group.cause === 'e2' ? 1 : 8, at: t - 39 * M - i * 21e3, cause: group.cause,
    error: group.cause === 'e2' ? `http 422 from carrier: postal code ${code} is not in country ${country}`
      : group.text };
});
export const routesOf = () => [
  ['github', '/hooks/github', 'webhook', 'queue deploys', .02, { accepted: 1411, replayed: 38, bad_signature: 4 }, 3.1],
  ['stripe', '/hooks/stripe', 'webhook', 'queue stripe-events', 4.7, { accepted: 354288, replayed: 52710,
    bad_signature: 2 }, 4.8],
  ['orders', '/publish/orders', 'publish', 'queue orders', 38.4, { accepted: 3291207, bad_request: 17 }, 3.9],
  ['charges', '/v1/charges', 'proxy', 'http://127.0.0.1:3000', 12.6, { executed: 1088213, replayed: 41877,
    conflict: 912,
    mismatch: 31, missing_key: 206, unknown: 3 }, 182]
].map(([name, path, kind, to, rate, outcomes, p99_ms]) => ({ name, path, methods: ['POST'], kind, to, rate, outcomes,
  p50_ms: p99_ms / 4, p99_ms }));
export const configOf = () => ({
  path: '/etc/semel/shop.yaml',
  values: [['admin.listen', '127.0.0.1:8481', 'file', 'shop.yaml:4'], ['admin.token', null, 'secret',
    '/run/credentials/semel/admin'], ['gateway.listen', '127.0.0.1:8480', 'file', 'shop.yaml:9'], ['gateway.body_max',
      '1MiB',
    'default', ''], ['history.age', '3d', 'default', ''], ['history.rows', '1000000', 'flag',
      '--set history.rows=1000000'],
  ['inboxes.payments.key', 'json:/order_id', 'file', 'shop.yaml:20'], ['log.format', 'json', 'env', 'SEMEL_LOG_FORMAT'],
  ['store', 'postgres://semel:••••••@db-1/shop', 'env', 'SEMEL_STORE']].map(([path, value, origin, place]) => ({ path,
    value,
    origin, place })),
  checks: [['ok', 'store main', 'reachable in 1.2 ms; schema 7 of 7; fsync on'], ['warn', 'inbox webhooks.stripe',
    'forgets keys after 2 d; Stripe sends again for 3 d', 'Set retention: 4d.'], ['ok', 'broker mq-1',
    'connected for 31 min; quorum queues']].map(([state, what, text, help]) => ({ state, what, text, help }))
});
export const auditOf = t => [[12 * M, 'mira', 'page', 'dead retry --cause e2', 12, '0 processed, 12 failed',
  'asked the carrier'],
  [5.1 * H, 'root', 'command', 'queue purge returns', 2, '2 purged', ''],
  [9 * H, 'jonas', 'command', 'dead discard --inbox emails', 418, '418 discarded', 'bounced newsletter addresses'],
  [2.1 * D, 'unknown', 'page', 'dead retry --inbox payments', 0, 'refused: no token', '']
].map(([ago, who, how, what, count, result, why], i) => ({ id: 40 - i, at: t - ago, who, how, what, count, result,
  why }));
