/* uPlot in the colours of the page. One plot is one quantity, so there is no legend to decode. A gap in the data is a
 * gap in the line, never a zero. New data goes to the same instance; a new one is made when the theme changes, because
 * a canvas does not follow the stylesheet: its colours are read from the tokens, through an element nobody sees. */
import uPlot from 'uplot';
import { html, useLayoutEffect, useRef } from './ui.js';
import { hm, short } from './format.js';

let probe = null;
const colour = name => {
  if (!probe) { probe = document.createElement('span'); probe.hidden = true; document.body.append(probe); }
  probe.style.color = 'var(--' + name + ')';
  return getComputedStyle(probe).color;
};
const alpha = (of, a) => of.replace('rgb(', 'rgba(').replace(')', ', ' + a + ')');
const round = max => {
  const power = 10 ** Math.floor(Math.log10(Math.max(max, 1e-9)));
  return [1, 1.5, 2, 3, 4, 5, 7.5, 10].map(m => m * power).find(v => v >= max - 1e-12) || max;
};
const paths = { step: uPlot.paths.stepped({ align: 1 }), bars: uPlot.paths.bars({ size: [.7, 7, 1], align: 1 }) };

const minuteSplits = (u, i, from, to) => [0, 15, 30, 45, 60].map(s => to - 60 + s);
const daySplits = (u, i, from, to) => {
  const out = [];
  for (let t = Math.ceil(from / 14400) * 14400; t <= to; t += 14400) out.push(t);
  return out;
};
const axisText = v => short(v < 10 ? +v.toFixed(1) : v);

const axes = (axis, font, span) => {
  const stroke = colour('plot-axis'), none = { show: false };
  return [
    { show: axis, stroke, font, size: 22, gap: 4, align: 1, grid: none, ticks: none,
      splits: span === 'minute' ? minuteSplits : daySplits,
      values: (u, all) => all.map((t, i) => span === 'day' ? hm(t * 1000)
        : i === all.length - 1 ? 'now' : '−' + (60 - i * 15) + ' s') },
    { side: 1, stroke, font, size: 38, gap: 6, grid: { stroke: colour('plot-grid'), width: 1 }, ticks: none,
      splits: (u, i, from, to) => [0, to / 2, to], values: (u, all) => ['0', '', axisText(all[2])] }
  ];
};

/* Where a store or broker was away: dashed lines at its beginning and end. */
const drawMarks = marks => u => {
  const c = u.ctx, d = devicePixelRatio;
  for (const t of marks.current || []) {
    if (t < u.scales.x.min || t > u.scales.x.max) continue;
    const x = u.valToPos(t, 'x', true);
    c.save();
    c.strokeStyle = alpha(colour('warn'), .75);
    c.lineWidth = d;
    c.setLineDash([3 * d, 3 * d]);
    c.beginPath();
    c.moveTo(x, u.bbox.top);
    c.lineTo(x, u.bbox.top + u.bbox.height);
    c.stroke();
    c.restore();
  }
};

const optionsOf = ({ width, height, axis, span, tone, kind, min, marks, pointed }) => {
  const stroke = colour(tone), font = '11px ' + getComputedStyle(document.body).fontFamily;
  return {
    width, height, padding: [6, 0, axis ? 0 : 4, 0], legend: { show: false },
    cursor: { sync: { key: span, setSeries: false }, y: false, points: { size: 5, fill: stroke, width: 0 },
      drag: { x: false, y: false } },
    scales: { x: { time: false }, y: { range: (u, from, to) => [0, round(Math.max(to || 0, min || 1))] } },
    series: [{}, { stroke, width: kind === 'bars' ? 0 : span === 'day' ? 1.25 : 1.5, points: { show: false },
      paths: paths[kind], fill: kind === 'bars' ? stroke : alpha(stroke, kind === 'step' ? .07 : .13) }],
    axes: axes(axis, font, span),
    hooks: { drawAxes: [drawMarks(marks)],
      setCursor: [u => pointed.current && pointed.current(u.cursor.left < 0 ? null : u.cursor.idx)] }
  };
};

/* A key moves the cursor by a point; Home and End to the ends; Escape takes it away. */
const keyMoves = (u, event) => {
  const n = u.data[0].length, at = u.cursor.idx ?? n - 1;
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: n - 1 }[event.key];
  if (event.key === 'Escape') { u.setCursor({ left: -10, top: -10 }); return; }
  if (to === undefined) return;
  event.preventDefault();
  const x = u.data[0][Math.max(0, Math.min(n - 1, u.cursor.left < 0 ? n - 1 : to))];
  u.setCursor({ left: u.valToPos(x, 'x'), top: 10 }, true, true);
};

export const Plot = ({ xs, ys, tone, kind, span, height, axis, marks, min, theme, zone, label, onCursor, keys }) => {
  const ref = useRef(null), plot = useRef(null), data = useRef(null), pointed = useRef(null), held = useRef(null);
  pointed.current = onCursor;
  data.current = [xs, ys];
  held.current = marks;
  useLayoutEffect(() => {
    const element = ref.current;
    const options = optionsOf({ width: Math.max(60, element.clientWidth), height, axis: !!axis, span, tone, kind, min,
      marks: held, pointed });
    plot.current = new uPlot(options, data.current, element);
    const observer = new ResizeObserver(() => {
      const width = element.clientWidth;
      if (width && plot.current && Math.abs(width - plot.current.width) > 1) plot.current.setSize({ width, height });
    });
    observer.observe(element);
    return () => { observer.disconnect(); plot.current.destroy(); plot.current = null; };
  }, [theme, zone, height, kind, tone, span, axis]);
  useLayoutEffect(() => { if (plot.current) plot.current.setData([xs, ys]); }, [xs, ys, marks]);
  return html`<div class="plot" ref=${ref} role="img" aria-label=${label} tabindex=${keys ? 0 : null}
    onKeyDown=${keys ? event => keyMoves(plot.current, event) : null}
    onBlur=${keys ? () => plot.current && plot.current.setCursor({ left: -10, top: -10 }) : null}></div>`;
};
