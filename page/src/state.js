/* A value that several parts of the page watch, and what the page remembers between visits: theme, zone, name. The
 * token is remembered for this tab only. A browser that refuses storage forgets; nothing else changes. */
import { useEffect, useState } from './ui.js';

export const cell = value => {
  const watchers = new Set();
  return {
    get: () => value,
    set: next => {
      if (Object.is(next, value)) return;
      value = next;
      for (const watcher of [...watchers]) watcher(value);
    },
    watch: watcher => { watchers.add(watcher); return () => watchers.delete(watcher); }
  };
};

export const useCell = of => {
  const [value, set] = useState(of.get());
  useEffect(() => { set(of.get()); return of.watch(set); }, [of]);
  return value;
};

const kept = (storage, name, first) => {
  let value = first;
  try { value = storage().getItem(name) ?? first; } catch { /* forgets */ }
  const all = cell(value);
  all.watch(next => {
    try {
      if (next === null || next === '') storage().removeItem(name); else storage().setItem(name, next);
    } catch { /* forgets */ }
  });
  return all;
};

export const theme = kept(() => localStorage, 'semel.theme', '');
export const zone = kept(() => localStorage, 'semel.zone', 'local');
export const person = kept(() => localStorage, 'semel.name', '');
/* Whether the server had a token the last time: what is drawn before its first answer is of the same size. */
export const hadToken = kept(() => localStorage, 'semel.asks', '');
export const token = kept(() => sessionStorage, 'semel.token', '');

/* The process that answers, so that others can be told from it: {id, host, pid}. */
export const ownProcess = cell(null);

/* The theme that is seen: the person's choice, else the system's. */
const system = matchMedia('(prefers-color-scheme: dark)');
export const seenTheme = () => theme.get() || (system.matches ? 'dark' : 'light');
export const shownTheme = cell(seenTheme());
const applyTheme = () => {
  if (theme.get()) document.documentElement.dataset.theme = theme.get();
  else delete document.documentElement.dataset.theme;
  shownTheme.set(seenTheme());
};
theme.watch(applyTheme);
system.addEventListener('change', applyTheme);
applyTheme();

/* A tick that ages are drawn by: each second up to a minute, then each minute; none in a hidden tab. */
export const second = cell(0);
setInterval(() => { if (!document.hidden) second.set(Math.floor(Date.now() / 1000)); }, 1000);
