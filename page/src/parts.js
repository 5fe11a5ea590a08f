/* The small parts that every screen is made of. */
import { html, useState } from './ui.js';
import { G, mark } from './glyphs.js';
import { now } from './api.js';
import { second, useCell, zone } from './state.js';
import { plain, show } from './safe.js';
import * as F from './format.js';

const NAMES = {
  processed: 'processed', duplicate: 'duplicate', replayed: 'replayed', failed: 'failed', dead: 'dead',
  mismatch: 'mismatch', stale: 'stale', waiting: 'waits for retry', progress: 'in progress',
  unknown: 'outcome unknown', ok: 'up', warn: 'warning', paused: 'paused', stuck: 'head waits',
  unreachable: 'unreachable', fail: 'failing', forgotten: 'forgotten', none: 'not known here'
};
const GLYPHS = { ok: 'ok', paused: 'pause', stuck: 'warn', unreachable: 'failed', fail: 'failed', forgotten: 'clock',
  none: 'unknown' };
const TONES = {
  duplicate: 'dup', replayed: 'dup', failed: 'fail', dead: 'fail', unreachable: 'fail', fail: 'fail',
  mismatch: 'fail', warn: 'warn', stuck: 'warn', stale: 'warn', unknown: 'warn', waiting: 'warn', paused: 'quiet',
  ok: 'quiet', forgotten: 'quiet', none: 'quiet'
};
const ALIAS = { 'in-progress': 'progress', in_progress: 'progress', 'in progress': 'progress', retry: 'waiting',
  down: 'unreachable', claimed: 'progress', done: 'processed', outcome_unknown: 'unknown' };
export const stateOf = name => ALIAS[name] || name;
export const toneOf = name => TONES[stateOf(name)] || 'ink';
export const State = ({ of, text }) => {
  const name = stateOf(of);
  const glyph = GLYPHS[name] || (NAMES[name] ? name : 'unknown');
  return html`<span class="state">${G(glyph, 't-' + toneOf(name))}<span>${text || NAMES[name] || show(of)}</span>
    </span>`;
};

/* The life of a key in one line: failures, what became of it, copies. */
const SAYS = { processed: 'processed once', dead: 'dead', progress: 'in progress', waiting: 'waits for its retry',
  mismatch: 'mismatch', stale: 'stale', unknown: 'its outcome is unknown' };
export const Strip = ({ failures = 0, state, copies = 0 }) => {
  const name = stateOf(state), rings = Math.min(copies, 5);
  const say = [failures && F.plural(failures, 'failure'), SAYS[name],
    copies && F.plural(copies, 'copy', 'copies') + ' suppressed'].filter(Boolean).join(', ') || 'no delivery';
  return html`<span class="strip" role="img" aria-label=${say} title=${say}>
    ${Array.from({ length: Math.min(failures, 3) }, () => G('failed', 't-fail'))}
    ${SAYS[name] && G(name, name === 'processed' || name === 'progress' ? '' : 't-' + toneOf(name))}
    ${Array.from({ length: rings }, () => G('duplicate', 't-dup'))}
    ${copies > rings && html`<span class="strip-more t-dup">+${F.short(copies - rings)}</span>`}</span>`;
};
export const stripOf = row => ({
  state: row.state, failures: (row.strip && row.strip.failures) ?? row.failures ?? 0,
  copies: (row.strip && row.strip.copies) ?? row.copies ?? 0
});

const GRADES = ['at least once', 'effectively once', 'exactly-once effects except power loss', 'exactly-once effects'];
export const Grade = ({ n, name }) => {
  if (!n) return html`<span class="dim">${F.NONE}</span>`;
  const text = name || GRADES[n - 1];
  return html`<span class="grade" title=${text}>
    <span class="meter" aria-hidden="true">${[1, 2, 3, 4].map(i => html`<i class=${i <= n ? 'on' : ''}></i>`)}</span>
    <span>${text}</span></span>`;
};

/* An age: drawn anew each second for a minute, then each minute. */
export const Ago = ({ t, bare }) => {
  useCell(second);
  useCell(zone);
  if (!t) return html`<span class="dim">${F.NONE}</span>`;
  const age = F.coarse(Math.max(0, now() - t));
  return html`<time datetime=${F.iso(t)} title=${F.exact(t)}>${age}${bare || age === 'now' ? '' : ' ago'}</time>`;
};
export const At = ({ t, full }) => {
  useCell(zone);
  if (!t) return html`<span class="dim">${F.NONE}</span>`;
  return html`<time datetime=${F.iso(t)} title=${F.exact(t)}>${full ? F.exact(t) : F.when(t, now())}</time>`;
};
export const Zero = () => html`<span class="dim">0</span>`;
export const None = () => html`<span class="dim">${F.NONE}</span>`;
export const Unknown = ({ why }) => html`<span class="dim" title=${why}>unknown</span>`;
export const Count = ({ n, tone, why }) => n === null || n === undefined ? html`<${Unknown} why=${why} />`
  : n ? html`<span class=${tone ? 't-' + tone : ''} title=${n >= 10000 ? F.int(n) : null}>${F.short(n)}</span>`
    : html`<${Zero} />`;
export const Rate = ({ n, tone }) => n === null || n === undefined ? html`<${None} />`
  : n ? html`<span class=${tone ? 't-' + tone : ''}>${F.rate(n)}</span><span class="u">/s</span>` : html`<${Zero} />`;
export const Took = ({ ms }) => ms === null || ms === undefined ? html`<${None} />` : F.dur(ms);
export const Mono = ({ children, cls }) => html`<span class=${'mono ' + (cls || '')}>${show(children)}</span>`;

export const Spark = ({ values, tone, width = 96, height = 22, bars }) => {
  const all = (values || []).map(v => v || 0), n = all.length, max = Math.max(...all, 1e-9), none = !all.some(Boolean);
  const y = v => (height - 1.5 - v / max * (height - 4)).toFixed(1);
  const points = all.map((v, i) => (n > 1 ? i * width / (n - 1) : width).toFixed(1) + ' ' + y(v)).join('L');
  const sticks = all.map((v, i) => v ? `M${((i + .5) * width / n).toFixed(1)} ${height - 1}V${y(v)}` : '').join('');
  return html`<svg class=${'spark t-' + (tone || 'dup')} viewBox=${`0 0 ${width} ${height}`} width=${width}
    height=${height} aria-hidden="true">
    ${(none || bars) && html`<path class="spark-base" d=${`M0 ${height - .5}H${width}`} fill="none"
      stroke-width="1" />`}
    ${!none && bars && html`<path d=${sticks} stroke="currentColor" stroke-width=${(width / n * .7).toFixed(1)}
      fill="none" />`}
    ${!none && !bars && html`<path d=${`M0 ${height}L${points}L${width} ${height}Z`} fill="currentColor"
      opacity=".14" />
      <path d=${'M' + points} fill="none" stroke="currentColor" stroke-width="1.25" stroke-linejoin="round" />`}</svg>`;
};

/* A button that cannot be used says why, as its title; it stays reachable by keyboard, so that the reason does. */
export const Button = ({ kind, glyph, children, small, disabled, onClick, title, label, after, id, busy }) =>
  html`<button type="button" class=${'btn ' + (kind || '') + (small ? ' small' : '')} id=${id}
    aria-disabled=${disabled ? 'true' : null} aria-busy=${busy ? 'true' : null}
    onClick=${disabled ? null : onClick} title=${title} aria-label=${label}>
    ${glyph && G(glyph)}${children && html`<span>${children}${after && G(after)}</span>`}</button>`;

export const copyText = async text => {
  try { await navigator.clipboard.writeText(text); return true; } catch { /* without a secure origin: the old way */ }
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'sr';
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  return done;
};
export const Copy = ({ text, label, id }) => {
  const [done, set] = useState(null);
  const copy = async event => {
    event.stopPropagation();
    event.preventDefault();
    set(await copyText(text));
    setTimeout(() => set(null), 1500);
  };
  const say = done === null ? label || 'Copy' : done ? 'Copied' : 'The browser did not allow it';
  return html`<button type="button" class="copy" id=${id} aria-label=${label || 'Copy'} title=${say} onClick=${copy}>
    ${G(done === null ? 'copy' : done ? 'ok' : 'failed')}</button>`;
};

/* One of a few, by mouse or by the arrow keys. */
export const Seg = ({ of, value, onChange, label }) => {
  const move = event => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = (of.findIndex(([v]) => v === value) + by + of.length) % of.length;
    onChange(of[at][0]);
    event.currentTarget.children[at].focus();
  };
  return html`<div class="seg" role="radiogroup" aria-label=${label} onKeyDown=${move}>${of.map(([v, text]) =>
    html`<button type="button" role="radio" aria-checked=${v === value ? 'true' : 'false'}
      tabindex=${v === value ? 0 : -1} onClick=${() => onChange(v)}>${text}</button>`)}</div>`;
};

let ids = 0;
export const useId = () => useState(() => 'p' + ++ids)[0];
export const Panel = ({ title, note, actions, children, flush, cls, glyph }) => {
  const id = useId();
  return html`<section class=${'panel ' + (cls || '')} aria-labelledby=${title ? id : null}>
    ${title && html`<header class="panel-head">${glyph}<h2 id=${id}>${title}</h2>
      ${note && html`<span class="note">${note}</span>`}<span class="grow"></span>${actions}</header>`}
    <div class=${flush ? '' : 'panel-body'}>${children}</div></section>`;
};
export const Head = ({ crumbs, title, mono, sub, actions, copy }) => html`<header class="head">
  <div class="head-text">${crumbs && html`<nav class="crumbs" aria-label="Breadcrumb">${crumbs.map(([text, to]) =>
    html`<a href=${to}>${show(text)}</a><span aria-hidden="true">/</span>`)}</nav>`}
  <h1 class=${mono ? 'mono' : ''}><span>${show(title)}</span>
    ${copy && html` <${Copy} text=${copy} id="copy-key" label="Copy the key" />`}</h1>
  ${sub && html`<p class="sub">${sub}</p>`}</div>
  <div class="head-actions">${actions}</div></header>`;
export const Facts = ({ of }) => html`<dl class="facts">${of.filter(Boolean).map(([name, value, mono]) =>
  html`<dt>${name}</dt><dd class=${mono ? 'mono' : ''}>${value}</dd>`)}</dl>`;
export const Kbd = ({ children }) => html`<kbd>${children}</kbd>`;

export const Cmd = ({ text }) => html`<div class="cmd"><code tabindex="0" role="group" aria-label="Command">
  <span class="ps">$ </span>${show(text)}</code><${Copy} text=${text} label="Copy the command" /></div>`;
export const Empty = ({ title, children, cmd, action }) => html`<div class="empty"><span
  class="empty-mark">${mark()}</span>
  <p class="empty-title">${title}</p><p>${children}</p>${cmd && html`<${Cmd} text=${cmd} />`}${action}</div>`;
export const Bones = ({ n }) => Array.from({ length: n }, (_, i) => html`<div class=${'bone w' + (1 + i * 7 % 4)}>
  </div>`);
export const Banner = ({ tone, glyph, title, children, actions }) => html`<div class=${'banner ' + tone}
  role=${tone === 'fail' ? 'alert' : 'status'}>
  ${G(glyph || (tone === 'fail' ? 'failed' : tone === 'warn' ? 'warn' : 'clock'), 't-' + tone)}
  <div><strong>${title}</strong> <span>${children}</span></div><span class="grow"></span>${actions}</div>`;

/* What a panel shows in place of its content: skeletons first, then what went wrong, with the rest of the page live. */
export const Trouble = ({ feed }) => html`<div class="trouble" role="status">${G('failed', 't-fail')}
  <span><b>${show(feed.error.title)}</b>${feed.error.detail ? html`: ${show(feed.error.detail)}`
    : '.'} It is tried again
  by itself.</span><span class="grow"></span><${Button} small onClick=${() => feed.again()}>Try now<//></div>`;
export const titleText = plain;
