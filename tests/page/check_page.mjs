/* check_page.mjs PROGRAM: the page of a real `semel run`, in Chromium: each screen in dark and light, on a desk and on
 * a phone; each action through to its row in the audit; from / to Retry by keyboard alone; what the page says when
 * semel stops. */
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { accessible, check, fits, go, launch, openTab, quiet, run, shoot, until } from './kit.mjs';
import { fill, Shop, TOKEN } from './shop.mjs';

const shop = new Shop(process.argv[2]);
await shop.start();
const browser = await launch();
let page = null;
const text = async (of = 'body') => (await page.locator(of).first().innerText()).replace(/[\u00A0\u202F]/g, ' ');
const has = (what, of) => {
  let seen = '';
  return until(async () => { seen = await text(of); return seen.includes(what); },
    () => `the page says "${what}"; it ends with: ${seen.slice(-800)}`);
};

const raw = (route, headers = {}, method = 'GET') => new Promise((done, fail) => {
  const request = http.request(shop.url + route, { headers, method }, response => {
    const parts = [];
    response.on('data', part => parts.push(part)).on('end', () => done({ status: response.statusCode,
      headers: response.headers, body: Buffer.concat(parts) }));
  });
  request.on('error', fail).end();
});

/* What a browser gets: a page by name, files for ever, nothing else. */
const files = async () => {
  const plain = await raw(''), index = plain.body.toString();
  check(plain.status === 200 && !plain.headers['content-encoding'], '/ without gzip is plain');
  check(plain.headers['content-security-policy'].startsWith("default-src 'none'; script-src 'self'"), 'the policy');
  check(plain.headers['x-content-type-options'] === 'nosniff', 'no guessing of types');
  const again = await raw('', { 'If-None-Match': plain.headers.etag });
  check(again.status === 304 && again.body.length === 0, 'what is known is not sent again');
  for (const [, name] of index.matchAll(/(?:src|href)="(assets\/[^"]+)"/g)) {
    const zipped = await raw(name, { 'Accept-Encoding': 'br, gzip;q=0.8' });
    check(zipped.status === 200 && zipped.headers['content-encoding'] === 'gzip', `${name} is compressed`);
    check(/immutable/.test(zipped.headers['cache-control']), `${name} may be kept`);
    check((await raw(name)).status === 406, `${name} without gzip`);
    check((await raw(name, { 'Accept-Encoding': 'gzip;q=0, br' })).status === 406, `${name} with gzip refused`);
  }
  check((await raw('assets/none.js')).status === 404, 'a file that there is not');
  check((await raw('..%2f..%2fetc/passwd')).status === 404, 'no way out');
  check((await raw('', {}, 'POST')).status === 405, '/ is read only');
  check((await raw('', { Host: 'evil.example' })).status === 421, 'a foreign name');
};

const SCREENS = [
  ['overview', '/overview', '.plot canvas'], ['inboxes', '/inboxes', 'text=shipping.labels'],
  ['inbox', '/inboxes/payments', 'text=order-904403'],
  ['message', '/inboxes/payments/k/order-904403', 'text=Copy 4 suppressed'],
  ['outboxes', '/outboxes', 'tbody >> text=shipping'], ['outbox', '/outboxes/shipping', 'h1 >> text=shipping'],
  ['queues', '/queues', 'tbody >> text=returns'], ['dead', '/dead', '.group'], ['gateway', '/gateway', 'h1'],
  ['config', '/config', 'text=admin.token'], ['audit', '/audit', 'h1'], ['find', '/find/no-such-key',
    'text=One of these']
];
const screens = size => async () => {
  if (page) await page.context().close();
  page = await openTab(browser, { size, theme: 'dark' });
  await page.goto(shop.url);
  for (const [name, route, ready] of SCREENS) {
    await page.emulateMedia({ colorScheme: 'dark' });
    await go(page, route, ready);
    await fits(page, `${name}, ${size}`);
    await accessible(page, `${name}, ${size}, dark`);
    await shoot(page, `${name}-${size}-dark`);
    await page.emulateMedia({ colorScheme: 'light' });
    await accessible(page, `${name}, ${size}, light`, ['color-contrast']);
    await shoot(page, `${name}-${size}-light`);
  }
  quiet(page, `screens, ${size}`);
};

/* The numbers on the screen are those of the store. */
const truth = async () => {
  await go(page, '/inboxes/payments/k/order-904403', '.verdict');
  await has('Handled once');
  await has('4 copies arrived later and did not run.');
  check(await page.locator('.tl.commit').count() === 1, 'one commit in the timeline');
  check(await page.locator('.tl.tone-dup').count() === 4, 'four copies in the timeline');
  check((await text('pre.code')).includes('"amount": 4790'), 'the body as JSON');
  await go(page, '/inboxes/emails/k/mira@example.com', '.verdict');
  await has('Attempt 1 failed, nothing was committed');
  await go(page, '/inboxes/emails/k/hostile', '.verdict');
  await has('Given up');
  check((await text()).includes('<script>window.broken=1</script>'), 'the error as text');
  check(await page.evaluate(() => window.broken) === undefined, 'nothing of it runs');
  await go(page, '/inboxes/payments?key=order-904403');
  await until(async () => await page.locator('tbody tr.go').count() === 1, 'one row for an exact key');
  quiet(page, 'truth');
};

/* Copies that the gateway answers by itself are copies on each screen, and a caller's request is on none. */
const gateway = async () => {
  const before = (await shop.get('overview')).totals.suppressed;
  for (let i = 0; i < 6; i++) {
    const answer = await shop.ask('order-1', '{"card": "4111 1111"}');
    check(answer.headers.get('idempotent-replayed') === (i ? 'true' : null), `request ${i} is ${i ? 'a copy'
      : 'the first'}`);
  }
  check((await shop.ask('order-1', '{"card": "other"}')).status === 422, 'other content is refused');
  check(shop.effects === 1, 'one effect');
  await go(page, '/gateway', 'text=keys of charges');
  await until(async () => await page.locator('tbody tr', { hasText: 'charges' }).locator('.t-dup').first().innerText()
    === '5', 'five were replayed');
  await page.locator('a >> text=keys of charges').click();
  const [row] = await until(async () => { const { rows } = await shop.get('inboxes/gateway.charges');
    return rows.length && rows; }, 'its key');
  await go(page, `/inboxes/gateway.charges/k/${encodeURIComponent(row.key.text)}`, '.verdict');
  await has('Completed once');
  await has('5 copies arrived later and did not run.');
  await until(async () => await page.locator('.tl.tone-dup').count() === 5, 'five copies in the timeline');
  check(await page.locator('.tl.tone-fail').count() === 1, 'and the one that was refused');
  await has('Headers and body of a proxied request are not kept');
  const all = await page.locator('main').innerText();
  check(!/[0-9a-f]{64}|of-a-caller|4111/.test(all), `neither its checksum nor its secrets: ${all}`);
  await accessible(page, 'a key of the gateway');
  await go(page, '/overview', '.plot canvas');
  await until(async () => (await shop.get('overview')).totals.suppressed === before + 5, 'the overview counts five');
  quiet(page, 'gateway');
};

/* The token: a wrong one is refused, the right one is kept for the tab. */
const token = async () => {
  await page.context().close();
  page = await openTab(browser, { theme: 'dark' });
  await page.goto(shop.url + '#/dead');
  await page.locator('#retry[aria-disabled=true]').waitFor();
  for (const [word, done] of [['wrong', 'does not take this token'], [TOKEN, null]]) {
    if (!await page.locator('[role=dialog]').count()) await page.locator('#enter-token').click();
    await page.locator('input[type=password]').fill(word);
    await page.locator('[role=dialog] input').nth(1).fill('mira');
    await page.locator('[role=dialog] button[type=submit]').click();
    if (done) await has(done);
  }
  await page.locator('#retry:not([aria-disabled])').waitFor();
  await until(async () => await page.locator('[role=dialog]').count() === 0, 'the dialog is done');
  check(await page.evaluate(() => localStorage.getItem('semel.token')) === null, 'the token is for this tab only');
  quiet(page, 'token');
};

/* An entry is there before the work is, and has the count of what was done so far. */
const audited = async (what, count) => {
  let entry;
  await until(async () => {
    entry = (await shop.get('audit')).entries[0];
    return entry && entry.what.includes(what) && entry.count === count;
  }, () => `the audit has ${what} of ${count}: it has ${JSON.stringify(entry)}`);
  check(entry.how === 'page' && entry.who.includes('mira'), `${what}: by ${entry.who}, ${entry.how}`);
  return entry;
};

/* From / to Retry without a pointer. */
const keyboard = async () => {
  const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)),
    Promise.resolve());
  await page.locator('main').focus();
  await press('/');
  await page.keyboard.type('label-77127');
  await page.locator('[role=option]').first().waitFor();
  await press('Enter');
  await has('Given up');
  await press('g', 'd');
  await page.locator('.group').first().waitFor();
  await until(async () => { await press('Tab'); return page.evaluate(() =>
    /http 422/.test(document.activeElement.innerText) &&
    document.activeElement.className === 'group'); }, 'Tab comes to the group');
  await press('Enter');
  await page.locator('.group[aria-current]').waitFor();
  fs.writeFileSync(path.join(shop.directory, 'carrier-is-back'), '');
  await has('Retry 12');
  await press('r');
  await page.locator('#why').waitFor();
  await page.keyboard.type('the carrier is back');
  await has('Retry 12 dead letters?');
  await shoot(page, 'dead-retry-real');
  await press('Enter');
  await has('Retried 12');
  const entry = await audited('dead retry', 12);
  check(entry.why === 'the carrier is back', `the reason: ${entry.why}`);
  await press('g', 'a');
  await has('the carrier is back', 'main');
  await accessible(page, 'audit with a row');
  quiet(page, 'keyboard');
};

const confirm = async typed => {
  await page.locator('#typed').fill(typed);
  await page.locator('#why').fill('a test');
  await page.locator('#go:not([aria-disabled])').click();
  await until(async () => await page.locator('[role=dialog]').count() === 0, 'the dialog is done');
};
/* Of two messages that wait in an outbox one is given up, and the other is sent now. */
const unsent = async () => {
  for (const n of [1, 2]) shop.semel('publish', 'returns', '--type', 'parcel', String(n));
  shop.change(`UPDATE semel_outbox SET outbox = (SELECT id FROM semel_scope WHERE kind = 2 AND name = 'shipping'),
    attempts = 9, error = 'no queue is bound', wake_ms = wake_ms + 3600000
    WHERE outbox = (SELECT id FROM semel_scope WHERE name = 'returns' AND kind <> 1)`);
  await go(page, '/outboxes/shipping', 'text=no queue is bound');
  const rows = page.locator('tbody tr');
  check(await rows.count() === 2, 'two messages wait');
  const id = (await rows.first().locator('.mono').first().innerText()).trim();
  await rows.first().locator('input[type=checkbox]').check();
  await page.locator('.head-actions button', { hasText: 'Skip' }).click();
  await confirm('1');
  await audited('outbox skip ' + id, 1);
  await until(async () => await rows.count() === 1, 'one is left');
  await page.locator('.head-actions button', { hasText: 'Send now' }).click();
  await page.locator('#why').fill('the broker is back');
  await page.locator('#go:not([aria-disabled])').click();
  await audited('outbox requeue shipping', 1);
  await has('Nothing is unsent');
  check((await shop.get('dead')).letters.some(l => l.origin === 'outbox' && l.name === 'shipping'), 'its letter');
};
const actions = async () => {
  await go(page, '/dead', '.group');
  await page.locator('#discard:not([aria-disabled])').click();
  await confirm('1');
  await audited('dead discard', 1);
  await has('No dead letters');
  await go(page, '/inboxes/payments/k/order-904404', '.verdict');
  await page.locator('.head-actions button', { hasText: 'Forget' }).click();
  await confirm('order-904404');
  await audited('inbox forget', 1);
  shop.semel('publish', 'returns', '{}');
  await go(page, '/queues', 'tbody >> text=returns');
  await page.locator('button[aria-label="Purge returns"]').click();
  await confirm('1');
  await audited('queue purge', 1);
  await unsent();
  quiet(page, 'actions');
};

/* semel stops and comes back: the page says how old it is. */
const stopped = async () => {
  await go(page, '/overview', '.plot canvas');
  await shop.stop();
  await has('This page is');
  await has('not responding');
  check(/old/.test(await text('#live')), 'the sign in the top bar');
  page.wrong = [];
};

const status = await run([['files', files], ['messages', () => fill(shop)], ['desk', screens('desk')],
  ['phone', screens('phone')], ...Object.entries({ truth, gateway, token, keyboard, actions, stopped })]);
if (status) console.error(shop.said.split('\n').slice(-30).join('\n'));
await browser.close();
await shop.remove();
process.exit(status);
