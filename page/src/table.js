/* Tables, their filters and their pages. A real table, with one link in the first cell of a row; j and k move a cursor
 * over the rows, Enter opens, x selects. Pages are by key: no numbers, no total that would need a scan. */
import { html, useEffect, useRef, useState } from './ui.js';
import { G } from './glyphs.js';
import { Button } from './parts.js';
import { useKeys } from './keys.js';
import { plain } from './safe.js';

const clsOf = col => (col.num ? 'num ' : '') + (col.hide ? 'hide-' + col.hide + ' ' : '') + (col.cls || '');

const useCursor = ({ rows, to, picks, idOf, main }) => {
  const [at, setAt] = useState(-1), from = useRef(-1), wrap = useRef(null);
  const cursor = Math.min(at, rows.length - 1);
  const move = by => {
    const next = Math.max(0, Math.min(rows.length - 1, cursor + by));
    setAt(next);
    const row = wrap.current && wrap.current.querySelectorAll('tbody tr')[next];
    if (row) row.scrollIntoView({ block: 'nearest' });
  };
  const pick = event => {
    if (!picks || cursor < 0) return;
    if (event.shiftKey && from.current >= 0) {
      const [a, b] = [from.current, cursor].sort((x, y) => x - y);
      picks.set([...new Set([...picks.all, ...rows.slice(a, b + 1).map(idOf)])]);
      return;
    }
    from.current = cursor;
    picks.toggle(idOf(rows[cursor]));
  };
  const open = () => { if (to && rows[cursor]) location.hash = to(rows[cursor]).slice(1); };
  useKeys(main && rows.length
    ? { j: () => move(1), k: () => move(-1), Enter: open, x: pick, X: pick,
      Escape: () => { setAt(-1); if (picks) picks.set([]); } } : null);
  return { cursor, wrap };
};

const PickAll = ({ rows, picks, idOf }) => html`<th class="pick"><input type="checkbox"
  aria-label="Select the rows of this page" checked=${rows.length > 0 && picks.all.length === rows.length}
  onChange=${event => picks.set(event.target.checked ? rows.map(idOf) : [])} /></th>`;
const PickOne = ({ row, picks, idOf, nameOf }) => html`<td class="pick"><input type="checkbox"
  aria-label=${'Select ' + plain(nameOf ? nameOf(row) : idOf(row))} checked=${picks.all.includes(idOf(row))}
  onClick=${event => event.stopPropagation()} onChange=${() => picks.toggle(idOf(row))} /></td>`;

/* cols: {h, num, hide: 'm' or 's', cell: row => content, label, tip, cls}; picks: usePicks(); main: it has the keys. */
export const Table = ({ cols, rows, to, label, picks, idOf, nameOf, foot, main, rowClass }) => {
  const { cursor, wrap } = useCursor({ rows, to, picks, idOf, main });
  const open = (event, row) => {
    if (!to || event.target.closest('a,button,input') || getSelection().toString()) return;
    location.hash = to(row).slice(1);
  };
  const head = col => html`<th scope="col" class=${clsOf(col)} title=${col.tip}>
    ${col.h || html`<span class="sr">${col.label || 'Actions'}</span>`}</th>`;
  const cell = (col, j, row) => html`<td class=${clsOf(col)}>${j === 0 && to
    ? html`<a class="rowlink" href=${to(row)}>${col.cell(row)}</a>` : col.cell(row)}</td>`;
  return html`<div class="table-wrap" ref=${wrap} tabindex="0" role="region" aria-label=${label + ', table'}>
    <table class="table" aria-label=${label}>
    <thead><tr>${picks && html`<${PickAll} rows=${rows} picks=${picks} idOf=${idOf} />`}${cols.map(head)}</tr></thead>
    <tbody>${rows.map((row, i) => html`<tr key=${idOf ? idOf(row) : i} onClick=${event => open(event, row)}
      class=${(to ? 'go ' : '') + (cursor === i ? 'cursor ' : '') + (rowClass ? rowClass(row) : '')}
      aria-current=${cursor === i ? 'true' : null}>
      ${picks && html`<${PickOne} row=${row} picks=${picks} idOf=${idOf} nameOf=${nameOf} />`}
      ${cols.map((col, j) => cell(col, j, row))}</tr>`)}</tbody></table></div>${foot}`;
};

/* The grid of a table before its rows are there. */
export const TableBones = ({ cols, n = 6, label }) => html`<div class="table-wrap" aria-busy="true">
  <table class="table" aria-label=${label}><thead><tr>${cols.map(col => html`<th scope="col" class=${clsOf(col)}>
    ${col.h || html`<span class="sr">${col.label || 'Actions'}</span>`}</th>`)}</tr></thead>
  <tbody>${Array.from({ length: n }, () => html`<tr>${cols.map((col, j) => html`<td class=${clsOf(col)}>
    <div class=${'bone ' + (j ? 'w1' : 'w2') + (col.num ? ' right' : '')}></div></td>`)}</tr>`)}</tbody></table></div>`;

export const usePicks = () => {
  const [all, set] = useState([]);
  const toggle = id => set(list => list.includes(id) ? list.filter(x => x !== id) : [...list, id]);
  return { all, set, toggle };
};

export const Pager = ({ text, newer, older }) => {
  useKeys({ n: () => older && older(), p: () => newer && newer() });
  return html`<footer class="pager"><span>${text}</span><span class="grow"></span>
    <${Button} small glyph="left" disabled=${!newer} onClick=${newer} title="p">Newer<//>
    <${Button} small after="right" disabled=${!older} onClick=${older} title="n">Older<//></footer>`;
};

export const Filter = ({ children, count }) => {
  const ref = useRef(null);
  useKeys({ f: () => { const first = ref.current
    && ref.current.querySelector('input,select'); if (first) first.focus(); } });
  return html`<div class="filters" role="group" aria-label="Filters" ref=${ref}>${children}<span class="grow"></span>
    ${count && html`<span class="note nowrap">${count}</span>`}</div>`;
};

/* A field that tells what was typed after a quarter of a second, or at once on Enter. */
export const Field = ({ label, value, onChange, mono, wide }) => {
  const [text, setText] = useState(value || ''), timer = useRef(null), told = useRef(value || '');
  useEffect(() => { if ((value || '') !== told.current) { told.current = value || ''; setText(value || ''); } },
    [value]);
  const tell = next => { clearTimeout(timer.current); told.current = next; onChange(next); };
  const input = event => {
    const next = event.target.value;
    setText(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => tell(next), 250);
  };
  const key = event => {
    if (event.key === 'Enter') tell(text);
    if (event.key === 'Escape') { if (text) { setText(''); tell(''); } else event.target.blur(); }
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  return html`<input class=${'field ' + (mono ? 'mono ' : '') + (wide ? 'wide' : '')} placeholder=${label} value=${text}
    aria-label=${label} spellcheck="false" autocomplete="off" onInput=${input} onKeyDown=${key} />`;
};

export const Pick = ({ label, of, value, onChange }) => {
  const all = of.some(([v]) => v === (value || '')) ? of : [...of, [value, plain(value)]];
  return html`<label class="pick-field"><span class="sr">${label}</span>
    <select aria-label=${label} value=${value || ''} onChange=${event => onChange(event.target.value)}>
    ${all.map(([v, text]) => html`<option value=${v} selected=${v === (value || '')}>${text}</option>`)}</select>
    ${G('down')}</label>`;
};
export const Chip = ({ name, value, onRemove }) => html`<span class="chip"><span class="chip-k">${name}</span>
  <span class="chip-v">${plain(value)}</span>
  <button type="button" aria-label=${'Remove the filter ' + name} onClick=${onRemove}>${G('close')}</button></span>`;

const HOUR = 3600e3;
export const SINCE = [['', 'All that is kept'], ['1h', 'Last hour'], ['1d', 'Last day'], ['7d', 'Last week']];
export const sinceMs = (value, nowMs) => {
  const match = /^(\d+)([hd])$/.exec(value || '');
  if (!match) return /^\d+$/.test(value || '') ? value : '';
  return Math.floor((nowMs - Number(match[1]) * (match[2] === 'h' ? HOUR : 24 * HOUR)) / 60e3) * 60e3;
};

/* Rows do not move under the pointer: while it is on the list, or the page is scrolled, new rows are counted, and put
 * in when asked for. `key` says which list it is; another list is shown at once. */
export const useHeld = (rows, idOf, key) => {
  const shown = useRef({ key: null, rows: [] }), over = useRef(false), [, redraw] = useState(0);
  const before = shown.current;
  const first = before.rows.length ? idOf(before.rows[0]) : null;
  const at = rows && first !== null ? rows.findIndex(row => idOf(row) === first) : 0;
  const still = over.current || scrollY > 160;
  let fresh = 0;
  if (rows && before.key === key && still && at !== 0) {
    fresh = at < 0 ? rows.length : at;
    const now = new Map(rows.map(row => [idOf(row), row]));
    before.rows = before.rows.map(row => now.get(idOf(row)) || row); // what is shown is kept up to date
  } else if (rows) shown.current = { key, rows };
  const insert = () => { if (rows) { shown.current = { key, rows }; scrollTo(0, 0); redraw(n => n + 1); } };
  const watch = { onPointerEnter: () => { over.current = true; },
    onPointerLeave: () => { over.current = false; redraw(n => n + 1); } };
  useKeys(fresh ? { '.': insert } : null);
  return { rows: shown.current.rows, fresh, insert, watch };
};
