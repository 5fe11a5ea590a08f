/* The overview's numbers as they come: the first answer has all points, later ones only those behind the last. */
export const SERIES = ['suppressed', 'processed', 'failed', 'lag', 'dead'];
export const seconds = t => t > 1e11 ? Math.floor(t / 1000) : t;

/* The last `room` points, of what was known and of what came; where neither has a point, a gap. */
const extend = (old, part, room) => {
  if (!part || !part.end) return old || null;
  const step = part.step || 1, end = seconds(part.end), from = end - (room - 1) * step;
  const next = { end, step };
  for (const name of SERIES) {
    const came = part[name] || [], had = old && old[name] || [], values = new Array(room).fill(null);
    const put = (list, last) => list.forEach((value, i) => {
      const at = Math.round((last - (list.length - 1 - i) * step - from) / step);
      if (at >= 0 && at < room) values[at] = value;
    });
    if (old) put(had, old.end);
    put(came, end);
    next[name] = values;
  }
  return next;
};

/* Without an answer time goes on, and the lines end where the data ended. */
export const until = (minute, nowMs) => minute && extend(minute, { end: Math.floor(nowMs / 1000), step: 1 }, 61);

export const merge = (old, came) => ({
  ...came,
  minute: extend(old && old.minute, came.minute, 61),
  day: extend(old && old.day, came.day, 1440)
});
export const after = data => data && data.minute ? '?after=' + data.minute.end : '';

export const times = part => {
  const n = part.suppressed.length;
  return Array.from({ length: n }, (_, i) => part.end - (n - 1 - i) * part.step);
};
/* A rate is the mean of the last ten seconds that are known. */
export const mean = list => {
  const known = list.slice(-10).filter(v => v !== null);
  return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
};
export const last = list => {
  for (let i = list.length - 1; i >= 0; i--) if (list[i] !== null) return list[i];
  return null;
};
