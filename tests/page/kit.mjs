/* What the tests of the page share: Chromium, a page that is watched for errors, axe-core, conditions with a deadline.
 * The packages are where SEMEL_PAGE_MODULES says (run.sh installs them there, outside of the sources). */
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

const modules = process.env.SEMEL_PAGE_MODULES;
const require = createRequire(path.join(modules, 'package.json'));
const { chromium } = require('playwright-core');
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

export const DEADLINE = 60000;
export const SIZES = { desk: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };

/* Debian's Chromium, as root, without the connections that it makes by itself. */
export const launch = () => chromium.launch({
  executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync', '--hide-scrollbars', '--disable-dev-shm-usage']
});

let failures = 0;
export const check = (holds, what) => {
  if (holds) return true;
  failures++;
  console.error('FAILED: ' + what);
  return false;
};
export const failed = () => failures;
export const sleep = ms => new Promise(done => setTimeout(done, ms));
export const until = async (condition, what, deadline = DEADLINE) => {
  const end = Date.now() + deadline;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`after ${deadline / 1000} s still not: ${typeof what === 'function' ? what()
      : what}`);
    await sleep(50);
  }
};

/* A tab, with all that goes wrong in it: errors of scripts, of the console, of the content security policy. What the
 * browser says about a request that failed is expected where the server was stopped. */
export const openTab = async (browser, { size = 'desk', theme = 'dark', scale = 1, more = {} } = {}) => {
  const context = await browser.newContext({ viewport: SIZES[size], colorScheme: theme, deviceScaleFactor: scale,
    reducedMotion: 'reduce', hasTouch: size === 'phone', timezoneId: 'UTC', ...more });
  const page = await context.newPage();
  page.setDefaultTimeout(DEADLINE);
  page.wrong = [];
  page.on('console', message => {
    if (!['error', 'warning'].includes(message.type())) return;
    if (/Failed to load resource/.test(message.text())) return;
    page.wrong.push(message.text());
  });
  page.on('pageerror', error => page.wrong.push(`${error.message} ${error.stack.split('\n')[1] || ''}`));
  await page.addInitScript(() => document.addEventListener('securitypolicyviolation', event =>
    console.error('CSP: ' + event.violatedDirective + ' ' + event.blockedURI)));
  return page;
};

export const go = async (page, route, ready) => {
  await page.evaluate(to => { location.hash = to; }, route);
  if (ready) await page.locator(ready).first().waitFor();
};

/* The rules of WCAG 2.2 A and AA, and axe's own advice. It is put in as a script of the test, which the policy of the
 * page does not concern. */
const RULES = ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice'];
export const accessible = async (page, what, rules) => {
  if (!await page.evaluate(() => !!window.axe)) await page.evaluate(axe);
  const runOnly = rules ? { type: 'rule', values: rules } : RULES;
  const { violations } = await page.evaluate(which => window.axe.run(document, { runOnly: which }), runOnly);
  for (const violation of violations) {
    const at = violation.nodes.slice(0, 3).map(node => node.target.join(' ') + ': ' + (node.any[0] || node.all[0] ||
      node.none[0] || {}).message).join('\n    ');
    check(false, `${what}: ${violation.id} (${violation.help})\n    ${at}`);
  }
};
export const fits = async (page, what) => {
  const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  check(over <= 0, `${what}: wider than the window by ${over} px`);
};
export const quiet = (page, what) => {
  for (const text of page.wrong) check(false, `${what}: ${text}`);
  page.wrong = [];
};

const shots = process.env.SEMEL_PAGE_SHOTS; // a directory: pictures of all screens are left there
if (shots) fs.mkdirSync(shots, { recursive: true });
export const shoot = async (page, name) => {
  if (shots) await page.screenshot({ path: path.join(shots, name + '.png') });
};

/* Runs the parts of a test, each by itself; the exit status says whether all of them hold. */
export const run = async parts => {
  for (const [name, part] of parts) {
    const began = Date.now(), before = failures;
    try {
      await part();
    } catch (error) {
      check(false, `${name}: ${error.stack || error}`);
    }
    console.log(`${failures === before ? 'ok  ' : 'FAIL'} ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
  }
  return failures ? 1 : 0;
};
