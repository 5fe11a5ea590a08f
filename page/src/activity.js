/* Five quantities, each as a minute by the second and a day by the minute. Pointing at one plot moves the cursor of its
 * column: the numbers on the left are those of that moment, the heading says when it was. */
import { html, useMemo, useState } from './ui.js';
import { G } from './glyphs.js';
import { Plot } from './plot.js';
import { Seg } from './parts.js';
import { last, mean, seconds, times } from './series.js';
import { shownTheme, useCell, zone } from './state.js';
import * as F from './format.js';

export const ROWS = [
  { k: 'suppressed', name: 'Duplicates suppressed', glyph: 'duplicate', tone: 'dup', unit: '/s', fmt: F.rate, big: true,
    min: 10 },
  { k: 'processed', name: 'Processed', glyph: 'processed', tone: 'plot-processed', unit: '/s', fmt: F.rate, min: 10 },
  { k: 'failed', name: 'Failed', glyph: 'failed', tone: 'fail', unit: '/s', fmt: F.rate, kind: 'bars', min: 2 },
  { k: 'lag', name: 'Outbox lag', glyph: 'send', tone: 'plot-processed', unit: ' unsent', fmt: F.int, min: 10,
    stored: true },
  { k: 'dead', name: 'Dead letters', glyph: 'dead', tone: 'fail', unit: '', fmt: F.int, kind: 'step', min: 5,
    stored: true }
];

const HEADS = { minute: 'Last minute, by the second', day: 'Last 24 hours, by the minute' };
const useMarks = outages => useMemo(() => (outages || []).flatMap(o => [o.from, o.to]).filter(Boolean).map(seconds),
  [JSON.stringify(outages)]);

const Now = ({ row, values, pointed, old, at }) => {
  const now = row.stored ? last(values) : mean(old ? values.filter(v => v !== null) : values),
    shown = pointed === undefined ? now : pointed;
  const since = old && pointed === undefined && at ? ' at ' + F.hms(at) : '';
  return html`<div class=${'act-now' + (old ? ' old' : '')}><b>${shown === null ? 'no data' : row.fmt(shown)}</b>
    <span>${shown === null ? '' : row.unit}${since}</span></div>`;
};

export const Activity = ({ data, phone, stale, down }) => {
  const [range, setRange] = useState('minute'), [at, setAt] = useState(null);
  const theme = useCell(shownTheme), clock = useCell(zone), marks = useMarks(data.outages);
  const point = span => i => setAt(o => i == null ? (o && o.span === span ? null : o)
    : o && o.span === span && o.i === i ? o : { span, i });
  const xs = { minute: useMemo(() => times(data.minute), [data.minute]),
    day: useMemo(() => data.day ? times(data.day) : [], [data.day]) };
  const head = (span, format) => at && at.span === span && xs[span][at.i]
    ? html`<b>at ${format(xs[span][at.i] * 1000)}</b>` : HEADS[span];
  const plot = (row, span, height, axis, first) => html`<div class=${'act-plot ' + span[0]}><${Plot} xs=${xs[span]}
    ys=${data[span][row.k]} tone=${row.tone} kind=${span === 'day' && row.kind === 'bars' ? undefined : row.kind}
    span=${span} height=${height} axis=${axis} min=${row.min} theme=${theme} zone=${clock} marks=${marks} keys=${first}
    onCursor=${first ? point(span) : null} label=${span === 'day' ? row.name + ' in the last 24 hours'
      : row.name + ' in the last minute, now ' + row.fmt(mean(data.minute[row.k]) || 0) + row.unit} /></div>`;
  const line = (row, i) => {
    const final = i === ROWS.length - 1, old = stale || (down && row.stored);
    const height = (row.big ? (phone ? 96 : 126) : phone ? 64 : 82) + (final ? 22 : 0);
    const pointed = at && data[at.span] ? data[at.span][row.k][at.i] : undefined;
    return html`<div class=${'act-row' + (row.big ? ' big' : '') + (final ? ' last' : '')}>
      <div class="act-name">${G(row.glyph, row.tone.startsWith('plot') ? '' : 't-' + row.tone)}<span>${row.name}</span>
        </div>
      <${Now} row=${row} values=${data.minute[row.k]} pointed=${pointed} old=${old} at=${old ? data.storedAt : null} />
      ${plot(row, 'minute', height, final || phone, i === 0)}${data.day && plot(row, 'day', height, final || phone,
        i === 0)}
    </div>`;
  };
  return html`<section class=${'panel activity r-' + range} aria-labelledby="act-h">
    <header class="panel-head act-head"><h2 id="act-h">Activity</h2>
      <span class="col-h only-wide">${head('minute', F.hms)}</span><span class="col-h only-wide">${head('day',
        F.hm)}</span>
      <span class="only-phone"><${Seg} label="Range" of=${[['minute', 'Minute'], ['day', 'Day']]} value=${range}
        onChange=${setRange} /></span></header>${ROWS.map(line)}</section>`;
};

export const ActivityBones = ({ phone }) => html`<section class="panel activity r-minute" aria-busy="true"
  aria-labelledby="act-h"><header class="panel-head act-head"><h2 id="act-h">Activity</h2>
  <span class="col-h only-wide">${HEADS.minute}</span><span class="col-h only-wide">${HEADS.day}</span></header>
  ${ROWS.map((row, i) => {
    const final = i === ROWS.length - 1;
    const bone = html`<div class=${'bone plot-bone' + (row.big ? ' tall' : '') + (final ? ' base' : phone ? ' axis'
      : '')}></div>`;
    return html`<div class=${'act-row' + (row.big ? ' big' : '') + (final ? ' last' : '')}>
      <div class="act-name">${G(row.glyph, 't-quiet')}<span>${row.name}</span></div>
      <div class="act-now"><b><span class="bone w1 inline"></span></b></div>
      <div class="act-plot m">${bone}</div><div class="act-plot d">${bone}</div></div>`;
  })}</section>`;
