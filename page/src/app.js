/* The frame: navigation, search, whether the numbers are live, and the screen that the route names. */
import { html, render, useEffect, useRef, useState } from './ui.js';
import { G, mark } from './glyphs.js';
import { Banner, Button, Empty, Head, Kbd, Panel } from './parts.js';
import { Dialog, Toasts } from './dialog.js';
import { allowed, asking, TokenDialog } from './actions.js';
import { net, now, paused, tryNow, useFeed } from './api.js';
import { after, merge } from './series.js';
import { hadToken, ownProcess, second, shownTheme, theme, token, useCell, zone } from './state.js';
import { route } from './route.js';
import { useKeys } from './keys.js';
import { Search, Find } from './search.js';
import { Overview } from './overview.js';
import { Inbox, Inboxes } from './inboxes.js';
import { Message } from './message.js';
import { Outbox, Outboxes } from './outboxes.js';
import { Queues } from './queues.js';
import { Dead, Letter } from './dead.js';
import { Gateway } from './gateway.js';
import { Audit, Config } from './config.js';
import { plain, show } from './safe.js';
import * as F from './format.js';

const NAV = {
  overview: ['Overview', 'overview'], inboxes: ['Inboxes', 'inbox'], outboxes: ['Outboxes', 'outbox'],
  queues: ['Queues', 'queue'], dead: ['Dead letters', 'deadnav'], gateway: ['Gateway', 'gateway'],
  config: ['Config and health', 'config'], audit: ['Audit', 'audit']
};

const HELP = [
  ['Go to', [['g o', 'Overview'], ['g i', 'Inboxes'], ['g b', 'Outboxes'], ['g q', 'Queues'], ['g d', 'Dead letters'],
    ['g g', 'Gateway'], ['g c', 'Config and health'], ['g a', 'Audit']]],
  ['Lists', [['j k', 'Next and previous row'], ['Enter', 'Open'], ['x', 'Select'], ['Shift x', 'Select up to here'],
    ['n p', 'Older and newer page'], ['f', 'Filter'], ['.', 'Show new rows']]],
  ['Act', [['r', 'Retry…'], ['Shift d', 'Discard…, forget…'], ['y', 'Copy the key'], ['Esc', 'Close, or clear']]],
  ['Page', [['/', 'Find a key'], ['Space', 'Pause and go on'], ['t', 'Dark or light'], ['u', 'UTC or local time'],
    ['?', 'This list']]]
];
const Help = ({ onClose }) => html`<${Dialog} title="Keyboard" onClose=${onClose} wide><div
  class="help">${HELP.map(([name,
  list]) => html`<section><h3>${name}</h3><dl>${list.map(([keys, what]) => html`<dt>${keys.split(' ').map(k =>
    html`<${Kbd}>${k}<//>`)}</dt><dd>${what}</dd>`)}</dl></section>`)}</div><//>`;

const useMedia = query => {
  const media = matchMedia(query), [is, set] = useState(media.matches);
  useEffect(() => {
    const change = () => set(media.matches);
    media.addEventListener('change', change);
    return () => media.removeEventListener('change', change);
  }, []);
  return is;
};

/* --- whether the numbers are live --------------------------------------------------------------------------------- */

const STALE = 5000; // without an answer for so long, the page says so
const storeOf = data => data && (data.stores || []).find(s => s.kind === 'store' && s.state === 'unreachable');
const brokerOf = data => data && (data.stores || []).find(s => s.kind !== 'store' && s.state === 'unreachable');

const Live = ({ stale, down, waits, age }) => {
  const held = useCell(paused);
  const [tone, glyph, text] = held ? ['warn', 'pause', 'paused'] : stale ? ['warn', 'warn', F.coarse(age) + ' old']
    : down ? ['fail', 'failed', 'store unreachable'] : waits ? ['quiet', 'clock', 'connecting']
    : ['ink', 'processed', 'live'];
  return html`<button type="button" class="live" id="live" onClick=${() => paused.set(!held)} aria-pressed=${held
    ? 'true'
    : 'false'} title="Space: pause and go on">${G(glyph, 't-' + tone + (text === 'live' ? ' pulse' : ''))}
    <span class=${text === 'live' || stale ? '' : 'only-wide'}>${text}</span></button>`;
};
const Clock = () => {
  useCell(second);
  useCell(zone);
  const t = now();
  return html`<span class="clock mono only-wide" title=${'Times are in ' + F.zoneName(t) + '. Press u for ' +
    (zone.get() === 'utc' ? 'local time.' : 'UTC.')}>${F.hms(t)} ${F.zoneName(t)}</span>`;
};

/* One at a time: unreachable, then outdated, then, on screens with something to do, read-only. */
const acts = ([screen, name, part]) => screen === 'dead' || screen === 'queues' || (screen === 'outboxes' && !!name) ||
  (screen === 'inboxes' && part === 'k');
const Banners = ({ data, stale, age, feed, configured, entered, acting }) => {
  useCell(second);
  const { next } = useCell(net), again = html`<${Button} small onClick=${tryNow}>Try now<//>`;
  const soon = next ? Math.max(0, Math.ceil((next - Date.now()) / 1000)) : null;
  if (stale && data) return html`<${Banner} tone="warn" title=${`This page is ${F.coarse(age)} old.`}
    actions=${again}>semel is
    not responding; the numbers below are from ${F.hms(feed.at)}.${soon !== null ? ` Next attempt in ${soon} s.`
      : ''}<//>`;
  if (stale) return html`<${Banner} tone="warn" title="semel is not responding."
    actions=${again}>This page has no numbers
    yet.${soon !== null ? ` Next attempt in ${soon} s.` : ''}<//>`;
  const store = storeOf(data), broker = brokerOf(data);
  if (store) return html`<${Banner} tone="fail" title=${`Store ${plain(store.name)} has been unreachable`}
    actions=${again}>
    ${store.since ? `since ${F.when(store.since, now())}` : ''}${store.error ? html`: ${show(store.error)}`
      : ''}. Messages wait in
    their queues; nothing is lost, and nothing is acknowledged.<//>`;
  if (broker) return html`<${Banner} tone="fail" title=${`Broker ${plain(broker.name)} has been unreachable`}>
    ${broker.since ? `since ${F.when(broker.since, now())}`
      : ''}. Committed messages wait in their outboxes${data.outbox &&
    data.outbox.unsent ? ` (${F.int(data.outbox.unsent)})` : ''} and will be sent when it is back.<//>`;
  if (configured && !entered && acting) return html`<${Banner} tone="quiet" glyph="lock" title="Read-only."
    actions=${html`<${Button}
    small id="enter-token" onClick=${() => asking.set(true)}>Enter token…<//>`}>Enter the token to retry, discard or
      forget from
    this page. The commands work without it.<//>`;
  return null;
};

/* --- the screen of a route ---------------------------------------------------------------------------------------- */

const screenOf = ({ path, query }, props) => {
  const [screen, a, b, c] = path;
  switch (screen) {
  case 'overview': return html`<${Overview} ...${props} />`;
  case 'inboxes': return b === 'k' ? html`<${Message} key=${a + '/' + c} inbox=${a}
    keyName=${path.slice(3).join('/')} />`
    : a ? html`<${Inbox} key=${a} name=${a} filter=${query} />` : html`<${Inboxes} />`;
  case 'outboxes': return a ? html`<${Outbox} key=${a} name=${a} filter=${query} />` : html`<${Outboxes} />`;
  case 'queues': return html`<${Queues} />`;
  case 'dead': return a && a !== 'g' ? html`<${Letter} key=${a} id=${a} />` : html`<${Dead} cause=${b}
    filter=${query} />`;
  case 'gateway': return html`<${Gateway} />`;
  case 'config': return html`<${Config} overview=${props.feed.data} />`;
  case 'audit': return html`<${Audit} filter=${query} />`;
  case 'find': return html`<${Find} key=${a} text=${path.slice(1).join('/')} />`;
  default: return html`<${Head} title="No such screen" /><${Panel}><${Empty}
    title="This link leads nowhere">The page has no
    screen of this name. <a class="link" href="#/overview">Overview</a><//><//>`;
  }
};
const titleOf = ({ path: [screen, a, b, c] }) => [c || (b !== 'g' && a), NAV[screen] ? NAV[screen][0]
  : screen === 'find'
  ? 'Find' : '', 'semel'].filter(Boolean).map(plain).join(' · ');

const Item = ({ name, current, dead }) => html`<a href=${'#/' + name} class="nav" aria-current=${current === name
  ? 'page'
  : null}>${G(NAV[name][1])}<span>${NAV[name][0]}</span>${name === 'dead' && dead ? html`<span class="count"
  aria-label=${F.plural(dead, 'dead letter')}>${F.short(dead)}</span>` : ''}</a>`;

const Side = ({ current, dead, process, readonly, configured }) => html`<aside class="side"><a class="brand"
  href="#/overview">${mark()}
  <b>semel</b></a><nav aria-label="Main">${['overview', 'inboxes', 'outboxes', 'queues', 'dead', 'gateway'].map(name =>
    html`<${Item} name=${name} current=${current} dead=${dead} />`)}<hr />${['config',
      'audit'].map(name => html`<${Item}
    name=${name} current=${current} />`)}</nav><span class="grow"></span><div class="side-foot">
  ${readonly && html`<button type="button" class="ro inline-g" title=${readonly} onClick=${() =>
    configured && asking.set(true)}>${G('lock')}read-only</button>`}
  ${process && html`<span>${show(process.host || process.id)}</span><span>semel ${show(process.version)}</span>`}</div>
    </aside>`;

const Tabs = ({ current, dead }) => {
  const [more, setMore] = useState(false), at = useCell(route);
  useEffect(() => setMore(false), [at]);
  const tab = name => html`<a href=${'#/' + name} aria-current=${current === name ? 'page' : null}>${G(NAV[name][1])}
    <span>${name === 'dead' ? 'Dead' : NAV[name][0]}</span>${name === 'dead' && dead ? html`<i>${F.short(dead)}</i>`
      : ''}</a>`;
  return html`<nav class="tabs only-phone" aria-label="Main">${['overview', 'inboxes', 'dead', 'outboxes'].map(tab)}
    <button type="button" onClick=${() => setMore(!more)} aria-expanded=${more ? 'true' : 'false'}>${G('more')}
    <span>More</span></button></nav>${more && html`<nav class="sheet only-phone" aria-label="More">${['queues',
      'gateway',
    'config', 'audit'].map(name => html`<${Item} name=${name} current=${current} />`)}</nav>`}`;
};

const flipTheme = () => theme.set(shownTheme.get() === 'dark' ? 'light' : 'dark');

const App = () => {
  const at = useCell(route), look = useCell(shownTheme), phone = useMedia('(max-width: 760px)'), search = useRef(null);
  const [help, setHelp] = useState(false), asks = useCell(asking), entered = useCell(token);
  useCell(second);
  useCell(zone);
  const current = at.path[0];
  const feed = useFeed('overview', current === 'overview' ? 1000 : 5000, { query: after, merge }), { data } = feed;
  const { lost } = useCell(net), age = lost ? now() - (feed.at || lost) : 0, stale = !!lost && age > STALE;
  const down = !!storeOf(data), known = data ? !!(data.actions && data.actions.token_configured) : null;
  const configured = known ?? (hadToken.get() ? true : null);
  useEffect(() => {
    allowed.set({ configured: known, down });
    if (data && data.process) ownProcess.set(data.process);
    if (known !== null) hadToken.set(known ? 'yes' : '');
  }, [known, down, data && data.process && data.process.id]);
  const drawn = useRef(at);
  useEffect(() => {
    document.title = titleOf(at);
    if (drawn.current.path.join('/') !== at.path.join('/') && !(at.path[0] === 'dead'
      && at.path[1] === 'g')) scrollTo(0, 0);
    drawn.current = at;
  }, [at]);
  useKeys({ '/': () => search.current.focus(), '?': () => setHelp(true), t: flipTheme,
    ' ': () => paused.set(!paused.get()),
    u: () => zone.set(zone.get() === 'utc' ? 'local' : 'utc') });
  const dead = data && data.dead ? data.dead.letters : 0;
  const readonly = configured === false ? 'No admin.token is configured' : configured && !entered
    ? 'Enter the token to act' : '';
  return html`<a class="skip" href="#main" onClick=${event => { event.preventDefault();
      document.getElementById('main').focus(); }}>Skip to the content</a>
    <div class="app"><${Side} current=${current} dead=${dead} process=${data && data.process} readonly=${readonly}
      configured=${configured} />
      <div class="main"><header class="top"><a class="brand only-phone" href="#/overview" aria-label="semel, overview">
        ${mark()}<b>semel</b></a><${Search} inputRef=${search} /><span class="grow"></span>
        <${Live} stale=${stale} down=${down} waits=${!data} age=${age} /><${Clock} />
        <button type="button" class="icon" aria-label=${look === 'dark' ? 'Light theme' : 'Dark theme'}
          onClick=${flipTheme}>${G(look === 'dark' ? 'sun' : 'moon')}</button>
        <button type="button" class="icon only-wide" aria-label="Keyboard shortcuts" onClick=${() => setHelp(true)}>
          ${G('keys')}</button></header>
        <${Banners} data=${data} stale=${stale} age=${age} feed=${feed} configured=${configured} entered=${entered}
          acting=${acts(at.path)} />
        <main id="main" tabindex="-1" class=${stale ? 'is-stale' : down ? 'is-down' : ''}>
          ${screenOf(at, { feed, phone, stale, down })}</main></div>
      <${Tabs} current=${current} dead=${dead} /></div>
    ${help && html`<${Help} onClose=${() => setHelp(false)} />`}${asks && html`<${TokenDialog} />`}<${Toasts} />`;
};

render(html`<${App} />`, document.getElementById('app'));
