/* check_states.mjs DIRECTORY: the page in states that a real semel is not brought into within a minute, against the API
 * of a made-up shop: loading, empty, store unreachable, a panel that fails, semel away and back, a hidden tab, a
 * hostile body, an action with its progress, no shift of the layout. DIRECTORY has the built page. */
import { accessible, check, fits, go, launch, openTab, quiet, run, shoot, sleep, until } from './kit.mjs';
import { serve } from './mock_api.mjs';

const mock = await serve(process.argv[2]);
const browser = await launch();
/* With plain spaces in place of those that do not break. */
const body = async () => (await page.locator('body').innerText()).replace(/[\u00A0\u202F]/g, ' ');
const has = (page, text) => until(async () => (await body()).includes(text), `the page says "${text}"`);
let page = null;

const fresh = async (state, options) => {
  if (page) await page.context().close();
  mock.state = { token: 'token', ...state };
  page = await openTab(browser, options);
  await page.goto(mock.url);
};

const loading = async () => {
  await fresh({ hang: true });
  await page.locator('.hero-bone').waitFor();
  const before = await page.evaluate(() => ['.hero-row', '.activity', '.activity .act-row.last'].map(name => {
    const { top, height } = document.querySelector(name).getBoundingClientRect();
    return [Math.round(top), Math.round(height)];
  }));
  await shoot(page, 'state-loading-dark');
  await fresh({});
  await page.locator('.plot canvas').nth(9).waitFor();
  const later = await page.evaluate(() => ['.hero-row', '.activity', '.activity .act-row.last'].map(name => {
    const { top, height } = document.querySelector(name).getBoundingClientRect();
    return [Math.round(top), Math.round(height)];
  }));
  check(JSON.stringify(before[0]) === JSON.stringify(later[0]), `the band moves: ${before[0]} to ${later[0]}`);
  check(Math.abs(before[2][0] - later[2][0]) <= 4, `the last row moves: ${before[2]} to ${later[2]}`);
  quiet(page, 'loading');
};

const overview = async () => {
  await fresh({}, { theme: 'dark' });
  await page.locator('.plot canvas').nth(9).waitFor();
  check(/^\d{1,3}(\u202F\d{3})+$/.test(await page.locator('.hero-v').innerText()), 'the hero has its thousands apart');
  await has(page, '37 dead letters');
  await shoot(page, 'overview-dark');
  await page.locator('.act-plot.m .plot').first().focus();
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('ArrowLeft');
  await has(page, 'at ');
  check(/at \d\d:\d\d:\d\d/.test(await page.locator('.act-head').innerText()), 'the cursor of a plot says its time');
  await page.keyboard.press('Escape');
  await page.keyboard.press('t');
  await until(() => page.evaluate(() => document.documentElement.dataset.theme === 'light'), 't changes the theme');
  await page.evaluate(() => document.activeElement.blur());
  await sleep(100); // the canvases are drawn anew in the next frame
  await shoot(page, 'overview-light');
  await page.keyboard.press('?');
  await page.locator('[role=dialog]').waitFor();
  await accessible(page, 'help');
  await shoot(page, 'help-light');
  await page.keyboard.press('Escape');
  check(await page.locator('[role=dialog]').count() === 0, 'Escape closes the list of keys');
  quiet(page, 'overview');
};

const empty = async () => {
  await fresh({ empty: true }, { theme: 'light' });
  await has(page, 'No messages yet');
  await has(page, 'Nothing needs attention');
  await shoot(page, 'state-empty-light');
  await accessible(page, 'empty overview');
  for (const [route, text] of [['/inboxes', 'No inbox yet'], ['/inboxes/payments', 'Nothing here yet'],
    ['/dead', 'No dead letters'], ['/outboxes', 'No outbox yet'], ['/queues', 'No queue yet'],
    ['/gateway', 'No route yet'], ['/audit', 'Nobody has changed anything'], ['/find/order-1', 'One of these is true'],
    ['/nothing', 'leads nowhere']]) {
    await go(page, route);
    await has(page, text);
  }
  await go(page, '/inboxes/payments?state=dead');
  await has(page, 'No messages match');
  quiet(page, 'empty');
};

const down = async () => {
  await fresh({ down: true });
  await has(page, 'has been unreachable');
  check(await page.locator('.banner.fail[role=alert]').count() === 1, 'an unreachable store is an alert');
  await has(page, 'as of ');
  await accessible(page, 'store unreachable');
  await shoot(page, 'state-store-down-dark');
  await go(page, '/dead', '.group');
  check(await page.locator('#retry[aria-disabled=true]').count() === 1, 'no action on a store that is unreachable');
  quiet(page, 'store unreachable');
};

/* A request whose outcome nobody knows is said to be that, and its key can be forgotten. */
const undecided = async () => {
  await fresh({});
  await go(page, '/gateway', 'text=Keys in flight');
  await page.locator('a >> text=e11b-0042').click();
  await has(page, 'The outcome is unknown');
  await has(page, '2 copies were not sent');
  await has(page, 'forget the key');
  await has(page, 'Headers and body of a proxied request are not kept');
  check(await page.locator('.tl.tone-warn').count() === 1, 'the timeline has no commit');
  check(!(await page.locator('main').innerText()).includes('Completed once'), 'it does not claim to be done');
  await go(page, '/gateway', 'text=Keys in flight');
  check(await page.locator('a[href="#/inboxes/gateway.charges"]').count() === 1, 'the route leads to its keys');
  quiet(page, 'unknown outcome');
};

/* One panel fails by itself; the rest is live, and the panel comes back. */
const partial = async () => {
  await fresh({ fail: /^queues/ });
  await go(page, '/queues', '.trouble');
  await has(page, 'The store is unreachable');
  check(await page.locator('#live').innerText() === 'live', 'the rest of the page stays live');
  mock.state.fail = null;
  await page.locator('.trouble button').click();
  await page.locator('table >> text=returns').waitFor();
  check(await page.locator('.trouble').count() === 0, 'the error of the panel goes');
  quiet(page, 'partial failure');
};

/* semel is away: the numbers stay and say how old they are; after that the page goes on by itself. */
const away = async () => {
  await fresh({}, { theme: 'light' });
  await page.locator('.plot canvas').first().waitFor();
  let refused = 0;
  await page.route('**/api/**', route => { refused++; return route.abort(); });
  await has(page, 'This page is');
  await has(page, 'not responding');
  await shoot(page, 'state-stale-light');
  await accessible(page, 'stale');
  const before = refused, from = mock.requests.length;
  await page.locator('.banner button').click();
  await until(() => refused > before, 'Try now asks at once');
  await page.unroute('**/api/**');
  await until(async () => await page.locator('.banner.warn').count() === 0, 'the page is live again');
  check(mock.requests.length > from, 'it has asked again');
  quiet(page, 'stale');
};

/* Seconds of a visible and of a hidden tab: two requests a second on average, for a busy machine may put them close
 * together, and none. */
const hidden = async () => {
  await fresh({});
  await go(page, '/inboxes/payments', 'tbody tr');
  const begin = Date.now();
  await sleep(3000); // what is counted is the requests of some seconds
  const many = mock.requests.filter(r => r.at >= begin).length;
  check(many > 0 && many <= 7, `${many} requests in 3 s`);
  await page.evaluate(() => {
    Object.defineProperty(document, 'hidden', { get: () => window.isAway !== false, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  });
  await sleep(1500); // what was under way arrives
  const quietFrom = mock.requests.length;
  await sleep(2500);
  check(mock.requests.length === quietFrom, `a hidden tab makes ${mock.requests.length - quietFrom} requests`);
  await page.evaluate(() => { window.isAway = false; document.dispatchEvent(new Event('visibilitychange')); });
  await until(() => mock.requests.length > quietFrom, 'it asks when it is seen again');
  await page.keyboard.press(' ');
  await has(page, 'paused');
  quiet(page, 'hidden tab');
};

/* A body that would like to be a script, to colour a terminal and to turn the text around. */
const HOSTILE = '{"note": "<script>window.broken = 1</script><img src=x onerror=window.broken=1>", ' +
  '"esc": "\u001b[31mred",' +
  ' "bidi": "abc\u202Etxt.exe", "lone": "\\ud800"}';
const hostile = async () => {
  await fresh({ body: HOSTILE.replace('\u001b', '\\u001b') });
  await go(page, '/inboxes/payments/k/order-904403', 'pre.code');
  check((await page.locator('pre.code').innerText()).includes('<script>window.broken'), 'markup is shown as text');
  check((await page.locator('pre.code').innerText()).includes('U+202E'), 'a bidirectional character is a code point');
  mock.state.body = HOSTILE;
  await page.reload();
  await page.locator('pre.code').waitFor();
  check((await page.locator('pre.code').innerText()).includes('U+001B[31mred'), 'an escape is a code point');
  check(await page.evaluate(() => window.broken) === undefined, 'no script of a body runs');
  await page.locator('[role=radio]', { hasText: 'Hex' }).click();
  check(/^000000 {2}7b 22/.test(await page.locator('pre.code').innerText()), 'bytes as hex');
  check(await page.evaluate(() => document.querySelector('pre.code img, pre.code script')) === null,
    'no element of a body');
  await accessible(page, 'hostile body');
  quiet(page, 'hostile body');
};

/* The dialog of an action: preview, reason, progress, result; a discard wants its count typed. */
const action = async () => {
  await fresh({ token: 'secret' });
  await go(page, '/dead/g/e2', '.group[aria-current]');
  check(await page.locator('#retry[aria-disabled=true]').count() === 1, 'read-only until the token is entered');
  await has(page, 'Read-only.');
  await shoot(page, 'state-read-only-dark');
  await page.evaluate(() => sessionStorage.setItem('semel.token', 'secret'));
  await page.reload();
  await page.locator('#retry:not([aria-disabled])').click();
  await page.locator('#why').fill('carrier fixed its table');
  await has(page, 'Retry 12 dead letters?');
  await has(page, 'label-77122');
  await accessible(page, 'retry dialog');
  await shoot(page, 'dead-retry-dark');
  await page.locator('#go').dblclick(); // a double click sends one request
  await has(page, 'of 12');
  await has(page, 'Retried 12: 11 processed, 1 duplicate.');
  check(mock.requests.filter(r => r.name === 'actions').length === 1, 'a double click is one request');
  await page.locator('#discard').click();
  await page.locator('#typed').waitFor();
  await shoot(page, 'dead-discard-dark');
  check(await page.locator('#go[aria-disabled=true]').count() === 1, 'a discard waits for the count');
  await page.locator('#why').press('Enter');
  check(mock.requests.filter(r => r.name === 'actions').length === 1, 'Enter does not discard');
  await page.locator('#typed').fill('12');
  await page.locator('#go:not([aria-disabled])').waitFor();
  await page.keyboard.press('Escape');
  check(await page.locator('[role=dialog]').count() === 0, 'Escape cancels');
  check(await page.evaluate(() => document.activeElement.id) === 'discard', 'the focus goes back to the button');
  quiet(page, 'action');
};

const zoomed = async () => {
  await fresh({}, { more: { viewport: { width: 720, height: 450 } } }); // 1440 x 900 at 200 %
  for (const [route, ready] of [['/overview', '.plot canvas'], ['/dead/g/e2', '.group[aria-current]'],
    ['/inboxes/payments/k/order-904403', '.timeline']]) {
    await go(page, route, ready);
    await fits(page, route + ' at 200 %');
  }
  quiet(page, 'zoomed');
};

const status = await run(Object.entries({ loading, overview, empty, down, undecided, partial, away, hidden, hostile,
  action, zoomed }));
await browser.close();
mock.close();
process.exit(status);
