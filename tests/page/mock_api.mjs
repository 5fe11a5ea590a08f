/* A server with the page and the API of a made-up shop (mock_data.mjs), for the states that a real semel cannot be
 * brought into within a minute. `node mock_api.mjs DIRECTORY [PORT]` serves the built page to look at while it is
 * changed; the tests use serve(). Its state can be set: mock.state = {empty, down, fail: /path/, token}. */
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import * as data from './mock_data.mjs';

export const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const MIME = { '.html': 'text/html', '.css': 'text/css', '.js': 'text/javascript', '.svg': 'image/svg+xml' };

const overview = (state, shop, t, url) => {
  const after = Number(url.searchParams.get('after')), S = shop.S, missed = after ? Math.max(0, S - after) : 61;
  const minute = shop.minute(S, Math.min(61, missed)), day = shop.day(S - S % 60);
  const total = name => Math.round(day[name].reduce((a, b) => a + b, 0) * 60);
  if (state.down) for (const name of ['lag', 'dead']) minute[name] = minute[name].map((v, i) => i < 13 ? v : null);
  const stores = [['store', 'main', 'postgres://db-1/shop', 4, 1.2], ['store', 'edge', 'sqlite:edge.db', 3, .1],
    ['broker', 'mq-1', 'amqp://mq-1/shop', 4, .8]].map(([kind, name, u, grade, ping_ms], i) => ({ kind, name, url: u,
      grade,
    ping_ms, state: state.down && i === 0 ? 'unreachable' : 'ok', since: t - 48e3, error: state.down && i === 0
      ? 'connection refused' : null }));
  const none = { processed: 0, suppressed: 0, failed: 0, dead: 0, sent: 0 };
  const attention = state.empty ? [] : [
    ...state.down ? [{ severity: 'unreachable', title: 'Store main',
      text: 'has been unreachable for 48 s. 6 inboxes wait.',
      link: '#/config' }] : [],
    { severity: 'dead', title: '37 dead letters', text: 'in 4 groups. The newest came 1 min ago, in emails.',
      link: '#/dead' },
    { severity: 'stuck', title: 'Outbox receipts', text: 'a group has waited 4 min for a queue for receipt.v0.',
      link: '#/outboxes' },
    { severity: 'config', title: 'webhooks.stripe', text: 'forgets keys after 2 d; Stripe sends again for 3 d.',
      link: '#/config' },
    { severity: 'resolved', title: '', text: 'Over: broker mq-1 was away for 38 s. 18 940 copies came back; all were ' +
      'suppressed.', link: '#/outboxes' }];
  return {
    process: { id: 'shop-1/4711', host: 'shop-1', pid: 4711, version: '0.9.2', since: t - 6.2 * 86400e3 }, processes: 2,
    totals: state.empty ? none : { processed: total('processed'), suppressed: total('suppressed'), failed: 8580,
      dead: 37,
      sent: 91822 }, totals_since: t - 86400e3, rates: { processed: 154, suppressed: 8.5, failed: state.empty ? 0 : .2,
      sent: 60 }, outbox: { unsent: state.empty ? 0 : 35, oldest_ms: state.empty ? null : 252e3, at: t - (state.down
        ? 48e3 : 0) },
    dead: { letters: state.empty ? 0 : 37, at: t - (state.down ? 48e3 : 0) }, minute, ...after && S % 60 ? {} : { day },
    outages: [{ from: shop.away * 1000, to: shop.back * 1000 }], attention, stores,
    actions: { token_configured: !!state.token }, history: true
  };
};

const jobs = new Map();
const looks = {
  overview,
  inboxes: (state, shop) => ({ inboxes: state.empty ? [] : data.inboxesOf(shop) }),
  outboxes: (state, shop) => ({ outboxes: state.empty ? [] : data.outboxesOf(shop) }),
  queues: state => ({ queues: state.empty ? [] : data.queuesOf() }),
  gateway: (state, shop, t) => ({ listen: '127.0.0.1:8480', routes: state.empty ? [] : data.routesOf(), in_flight: [
    { route: 'charges', key: { text: 'acct-91 7f3a-refund-2' }, since: t - 1800, state: 'progress', waiting: 2 },
    { route: 'charges', key: { text: 'acct-77 e11b-0042' }, since: t - 360e3, state: 'unknown', waiting: 0 }] }),
  config: () => data.configOf(),
  audit: (state, shop, t) => ({ entries: state.empty ? [] : data.auditOf(t), next: null }),
  'dead/groups': (state, shop, t) => {
    const groups = state.empty ? [] : data.groupsOf(shop, t);
    return { groups, total: groups.reduce((n, g) => n + g.letters, 0), until_id: 999 };
  },
  dead: (state, shop, t, url) => {
    const cause = url.searchParams.get('cause'), groups = data.groupsOf(shop, t).filter(g => !cause
      || g.cause === cause);
    return { letters: groups.flatMap(g => data.lettersOf(g, t)).slice(0, 50), next: null };
  },
  messages: (state, shop, t, url) => (url.searchParams.get('inbox').startsWith('gateway.') ? data.unknownOf
    : data.messageOf)(url.searchParams.get('inbox'), url.searchParams.get('key'), t,
    state.body),
  find: (state, shop, t, url) => ({ results: url.searchParams.get('key') !== 'order-904403' ? [] : ['payments',
    'inventory',
    'ledger'].map(inbox => ({ inbox, key: { text: 'order-904403' }, state: 'processed', last_ms: t - 17 * 60e3,
      strip: { failures: inbox === 'payments' ? 1 : 0, copies: 4 } })) })
};

const answer = (state, shop, t, url) => {
  const name = url.pathname.replace(/^\/api\/v1\//, ''), parts = name.split('/').map(decodeURIComponent);
  if (looks[name]) return looks[name](state, shop, t, url);
  if (parts[0] === 'inboxes') return { inbox: data.inboxesOf(shop).find(b => b.name === parts[1]), next: 7,
    history: true,
    rows: state.empty ? [] : data.rowsOf(shop, t) };
  if (parts[0] === 'outboxes') return { rows: [], next: null };
  if (parts[0] === 'jobs') return jobs.get(parts[1]);
  return null;
};

const act = (name, body) => {
  if (name === 'actions/preview') return [200, { count: 12, sample: ['label-77122', 'label-77128',
    'label-77137'].map(text => ({
    text })), command: `semel dead ${body.action.split('.')[1]} --cause e2 --until-id 999`, consequences: [] }];
  if (name === 'actions') {
    jobs.set('1', { job: '1', state: 'running', done: 4, total: 12, outcomes: { processed: 4 } });
    setTimeout(() => jobs.set('1', { job: '1', state: 'done', done: 12, total: 12, outcomes: { processed: 11,
      duplicate: 1 },
      audit_id: 41 }), 900);
    return [202, { job: '1' }];
  }
  return [404, { title: 'There is no such action' }];
};

export const serve = (directory, port = 0) => new Promise(ready => {
  const mock = { state: {}, requests: [] };
  const send = (response, status, body, headers = {}) => {
    response.writeHead(status, { 'content-security-policy': CSP, 'content-type': 'application/json', ...headers });
    response.end(body === undefined ? '' : typeof body === 'string' || Buffer.isBuffer(body) ? body
      : JSON.stringify(body));
  };
  const file = (url, response) => fs.readFile(path.join(directory, url.pathname.replace(/\/$/, '/index.html')), (error,
    bytes) =>
    error ? send(response, 404, { title: 'There is no such page' })
      : send(response, 200, bytes, { 'content-type': MIME[path.extname(url.pathname)] || 'text/html' }));
  const handle = (request, response, text) => {
    const url = new URL(request.url, 'http://x'), t = Date.now(), name = url.pathname.replace('/api/v1/', '');
    if (!url.pathname.startsWith('/api/')) return file(url, response);
    mock.requests.push({ at: t, name });
    if (mock.state.hang) return undefined; // an answer that does not come
    if (mock.state.fail && mock.state.fail.test(name)) return send(response, 503, { title: 'The store is unreachable',
      detail: 'connection refused' });
    if (request.method === 'POST') {
      if (request.headers['x-semel-token'] !== mock.state.token) return send(response, 401,
        { title: 'The token is wrong' });
      const [status, body] = act(name, JSON.parse(text));
      return send(response, status, { now: t, ...body });
    }
    const body = answer(mock.state, data.shop(t), t, url);
    return body ? send(response, 200, { now: t, ...body }) : send(response, 404, { title: 'There is no such thing' });
  };
  const server = http.createServer((request, response) => {
    let text = '';
    request.on('data', part => { text += part; }).on('end', () => handle(request, response, text));
  });
  server.listen(port, '127.0.0.1', () => {
    mock.url = `http://127.0.0.1:${server.address().port}/`;
    mock.close = () => { server.closeAllConnections(); server.close(); };
    ready(mock);
  });
});

if (process.argv[1] === import.meta.filename) {
  const mock = await serve(process.argv[2], Number(process.argv[3] || 0));
  mock.state.token = 'token';
  console.log(mock.url);
}
