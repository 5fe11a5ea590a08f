/* What happened to a key, delivery by delivery. The commit stands out; long runs of copies are one line that opens;
 * silence of more than a minute is written between two entries. */
import { html, useState } from './ui.js';
import { G } from './glyphs.js';
import { Panel, Seg } from './parts.js';
import { link } from './route.js';
import { ownProcess, useCell, zone } from './state.js';
import { show } from './safe.js';
import * as F from './format.js';

const COPY = new Set(['duplicate', 'replayed']);
const FAILURE = new Set(['failed', 'dead', 'mismatch', 'stale', 'unknown', 'send_failed', 'send_dead', 'missing_key']);
const FEW = 6; // copies in a row that become one line

const took = e => e.took_ms === null || e.took_ms === undefined ? null : F.dur(e.took_ms);
const next = e => e.retry_ms ? 'next attempt after ' + F.dur(e.retry_ms) : null;
/* The process that did it: this one by its host, another one by the beginning of its id. */
const by = e => {
  const own = ownProcess.get();
  if (!e.process) return null;
  if (own && own.id === e.process) return `${own.host} pid ${own.pid}`;
  return /^[0-9a-f]{8}-[0-9a-f]{4}-/.test(e.process) ? 'process ' + e.process.slice(0, 8) : e.process;
};
const attempt = e => e.attempt ? 'attempt ' + e.attempt : null;

/* Title, sentence, facts and glyph of each kind of entry. n: its number among the copies. */
const describe = (e, n, { mode, firstId }) => {
  const other = e.message_id && firstId && e.message_id !== firstId;
  const id = other ? ['id ' + e.message_id] : [];
  switch (e.kind) {
  case 'received': return { glyph: 'receive', title: e.delivery > 1 ? 'Delivery ' + e.delivery : 'First delivery',
    text: 'the key was new', facts: [by(e)] };
  case 'failed': return { glyph: 'failed', tone: 'fail', title: `Attempt ${e.attempt
    || ''} failed, nothing was committed`,
    text: e.error, code: true, facts: [took(e), by(e), next(e)] };
  case 'processed': return { glyph: 'processed', strong: true,
    title: mode === 'claim' ? 'Completed: the handler ran to its end' : 'Committed: the effect happened here, once',
    text: mode === 'claim' ? 'the key is marked as done' : (e.sent ? `marker, effect and ${F.plural(e.sent,
      'outgoing message')}`
      : 'marker and effect') + ' in one transaction',
    facts: [attempt(e), took(e), by(e)] };
  case 'duplicate': return { glyph: 'duplicate', tone: 'dup', title: `Copy ${n} suppressed`,
    text: other ? 'sent again by its producer under another id; the handler did not run'
      : 'the key was known, the handler did not run', facts: [took(e), by(e), ...id] };
  case 'replayed': return { glyph: 'replayed', tone: 'dup', title: `Copy ${n} answered with the stored result`,
    text: 'the handler did not run', facts: [took(e), by(e), ...id] };
  case 'mismatch': return { glyph: 'mismatch', tone: 'fail', title: 'Refused: the key is known, with different content',
    text: e.error, code: !!e.error, facts: [by(e), ...id] };
  case 'stale': return { glyph: 'stale', tone: 'warn', title: 'Stale: a newer version was there before',
    text: e.error, facts: [took(e), by(e)] };
  case 'dead': return { glyph: 'dead', tone: 'fail', title: `Given up${e.attempt ? ' after ' + F.plural(e.attempt,
    'attempt')
    : ''}`, text: e.error, code: !!e.error, facts: [by(e)], letter: e.letter };
  case 'sent': return { glyph: 'send', title: e.type ? `Sent ${e.type}` : 'Sent', text: e.name ? 'from outbox ' + e.name
    : '', facts: [took(e), e.message_id && 'id ' + e.message_id, by(e)] };
  case 'retry': return { glyph: 'replayed', title: 'Retried by hand', text: e.error, facts: [by(e)] };
  case 'waiting': return { glyph: 'progress', title: 'Copy came while the first one was being handled',
    text: 'it waits for the outcome', facts: [took(e), by(e)] };
  case 'send_failed': return { glyph: 'failed', tone: 'fail', title: 'Not sent yet', text: e.error, code: true,
    facts: [attempt(e), e.name && 'outbox ' + e.name, next(e)] };
  case 'send_dead': return { glyph: 'dead', tone: 'fail', title: 'Sending was given up', text: e.error, code: true,
    facts: [e.name && 'outbox ' + e.name, by(e)], letter: e.letter };
  case 'missing_key': return { glyph: 'failed', tone: 'fail', title: 'The message has no key', text: e.error,
    facts: [by(e)] };
  case 'unknown': return { glyph: 'unknown', tone: 'warn', title: 'The outcome is unknown', text: e.error,
    facts: [took(e), by(e)] };
  default: return { glyph: 'waiting', tone: 'warn', title: e.kind, text: e.error, facts: [took(e), by(e)] };
  }
};

const Entry = ({ e, n, about }) => {
  const d = describe(e, n, about);
  return html`<li class=${'tl ' + (d.tone ? 'tone-' + d.tone : '') + (d.strong ? ' commit' : '')}>
    <time title=${F.exact(e.at)} datetime=${F.iso(e.at)}>${F.hms(e.at)}<span>.${F.ms(e.at)}</span></time>
    <span class="tl-g">${G(d.glyph, d.tone ? 't-' + d.tone : '')}</span>
    <div class="tl-b"><div class="tl-t">${show(d.title)}${d.letter ? html`, <a class="link"
      href=${link(['dead', String(d.letter)])}>dead letter ${d.letter}</a>` : ''}</div>
      ${d.text && html`<div class=${'tl-x' + (d.code ? ' mono' : '')}>${show(d.text)}</div>`}
      <div class="tl-m">${d.facts.filter(Boolean).map(f => html`<span>${show(f)}</span>`)}</div></div></li>`;
};

const Run = ({ run, open, onOpen }) => {
  const first = run[0].e.at, end = run[run.length - 1].e.at;
  return html`<li class="tl tone-dup"><time title=${F.exact(first)} datetime=${F.iso(first)}>${F.hms(first)}
    <span>.${F.ms(first)}</span></time><span class="tl-g">${G('duplicate', 't-dup')}</span><div class="tl-b">
    <button type="button" class="tl-run" aria-expanded=${open ? 'true' : 'false'} onClick=${onOpen}>
    ${G(open ? 'down' : 'right')}${F.plural(run.length, 'copy', 'copies')} suppressed between ${F.hms(first)} and
    ${' ' + F.hms(end)}</button></div></li>`;
};

/* Entries with the number of each copy; runs of copies together. */
const grouped = list => {
  const out = [];
  let copies = 0, run = [];
  const flush = () => { out.push(...run.length >= FEW ? [{ run }] : run); run = []; };
  for (const e of list) {
    const item = { e, n: COPY.has(e.kind) ? ++copies : 0 };
    if (e.kind === 'duplicate') run.push(item); else { flush(); out.push(item); }
  }
  flush();
  return out;
};

const VIEWS = { all: () => true, copies: e => COPY.has(e.kind), failures: e => FAILURE.has(e.kind) };
const endText = (until, now) => until && until > now
  ? html`This key is remembered until ${F.day(until)} ${F.hm(until)}. A
  copy until then is suppressed.` : until === null ? html`This key is remembered for ever.` : null;

export const Timeline = ({ data, nowMs }) => {
  useCell(zone);
  useCell(ownProcess);
  const [view, setView] = useState('all'), [open, setOpen] = useState([]);
  const list = data.timeline || [], items = grouped(list.filter(VIEWS[view]));
  const about = { mode: data.verdict && data.verdict.mode || data.mode, firstId: (list.find(e => e.message_id)
    || {}).message_id };
  const note = list.length ? F.plural(list.length, 'event') + (list.length > 1
    ? ' in ' + F.dur(Math.max(0, list[list.length - 1].at - list[0].at)) : '') : '';
  const end = endText(data.remembered_until, nowMs);
  let before = null;
  const rows = items.flatMap((item, i) => {
    const at = item.run ? item.run[0].e.at : item.e.at, gap = before !== null && at - before > 60e3;
    const wait = at - before;
    before = item.run ? item.run[item.run.length - 1].e.at : at;
    const shown = item.run ? [html`<${Run} run=${item.run} open=${open.includes(i)} onOpen=${() => setOpen(o =>
      o.includes(i) ? o.filter(x => x !== i) : [...o, i])} />`,
    ...open.includes(i) ? item.run.map(x => html`<${Entry} ...${x} about=${about} />`) : []]
      : [html`<${Entry} ...${item} about=${about} />`];
    return [...gap ? [html`<li class="tl-gap"><span></span><span class="tl-dots"></span>
      <span>${F.dur(wait)} later</span></li>`]
      : [], ...shown];
  });
  return html`<${Panel} title="Timeline" note=${note} actions=${html`<${Seg} label="Events" value=${view}
    onChange=${setView}
    of=${[['all', 'All'], ['copies', 'Copies'], ['failures', 'Failures']]} />`}>
    ${data.history === false && html`<p
      class="note">Copies are counted but not recorded: <code>history</code> is off.</p>`}
    ${!rows.length && html`<p class="dim">${list.length ? 'None of this kind.'
      : 'Nothing is recorded of this key.'}</p>`}
    <ol class="timeline">${rows}${end && html`<li class="tl-end"><span></span><span class="tl-g">${G('clock')}</span>
      <span>${end}</span></li>`}</ol><//>`;
};
