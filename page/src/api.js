/* The way to the server: what is asked for, how often, and what happens when there is no answer.
 *
 * A feed asks again and again for one resource. There are at most two requests at once and two a second, none in a
 * hidden tab or while the page is paused, and fewer after each failure (1, 2, 4 … 30 s). Answers that have not changed
 * are empty (ETag). `net` says whether the server answers at all; a feed has an error of its own when the server
 * answers, but not with what was asked for. */
import { useEffect, useRef, useState } from './ui.js';
import { cell, person, token } from './state.js';

const BASE = 'api/v1/';
const PATIENCE = 15000; // the server answers within 10 s, whatever its store does
export const paused = cell(false);
/* lost: since when there is no answer (by the server's clock); tried: failures in a row; next: when it is tried. */
export const net = cell({ lost: null, tried: 0, last: null, next: null });

let offset = 0; // the server's clock minus ours
export const now = () => Date.now() + offset;

const answered = (sent, serverNow) => {
  if (serverNow) offset = serverNow - (sent + Date.now()) / 2;
  net.set({ lost: null, tried: 0, last: now(), next: null });
};
const silent = delay => {
  const { lost, tried, last } = net.get();
  net.set({ lost: lost || last || now(), tried: tried + 1, last, next: Date.now() + delay });
};

export class Problem extends Error {
  constructor(status, title, detail) {
    super(title);
    Object.assign(this, { status, title, detail, network: status === 0 });
  }
}

const problemOf = async response => {
  let body = {};
  try { body = await response.json(); } catch { /* not ours */ }
  return new Problem(response.status, body.title || 'The server answered ' + response.status, body.detail);
};

const ask = async (path, options) => {
  const sent = Date.now();
  let response;
  try {
    response = await fetch(BASE + path, { cache: 'no-store', credentials: 'same-origin',
      signal: AbortSignal.timeout(PATIENCE), ...options });
  } catch {
    throw new Problem(0, 'semel is not responding');
  }
  if (response.status === 304) { answered(sent); return { same: true }; }
  if (!response.ok) { answered(sent); throw await problemOf(response); }
  let data;
  try { data = await response.json(); } catch { throw new Problem(0, 'semel stopped in the middle of an answer'); }
  answered(sent, data.now);
  return { data, etag: response.headers.get('ETag') };
};

/* What a person asks for, once: not held back by the limits of feeds. */
export const get = async path => (await ask(path)).data;

const hex = bytes => [...bytes].map(b => b.toString(16).padStart(2, '0')).join('');
export const requestId = () => {
  if (crypto.randomUUID) return crypto.randomUUID();
  const id = hex(crypto.getRandomValues(new Uint8Array(16)));
  return [id.slice(0, 8), id.slice(8, 12), '4' + id.slice(13, 16), '8' + id.slice(17, 20), id.slice(20)].join('-');
};

/* A change. The id makes a second click, or a second try, the same request. */
export const post = async (path, body, id) => (await ask(path, {
  method: 'POST',
  headers: { 'Content-Type': 'application/json', 'X-Semel-Token': token.get(), 'X-Semel-Request': id || requestId() },
  body: JSON.stringify({ ...body, ...(person.get() ? { who: person.get() } : {}) })
})).data;

/* Whether the server takes this token. */
export const tokenHolds = async entered => (await ask('session',
  { headers: { 'X-Semel-Token': entered } })).data.token_valid;

/* --- the gate: two at once, two a second -------------------------------------------------------------------------- */

const waiting = [], begun = [];
let running = 0, timer = null;
const open = () => {
  clearTimeout(timer);
  while (waiting.length && running < 2) {
    const t = Date.now();
    while (begun.length && t - begun[0] >= 1000) begun.shift();
    if (begun.length >= 2) { timer = setTimeout(open, 1000 - (t - begun[0])); return; }
    begun.push(t);
    running++;
    waiting.shift()();
  }
};
const enter = () => new Promise(pass => { waiting.push(pass); open(); });
const leave = () => { running--; open(); };

/* --- feeds ------------------------------------------------------------------------------------------------------- */

const feeds = new Set(), seen = new Map(); // what was seen last, so that a way back shows something at once
const remember = (path, entry) => {
  seen.delete(path);
  seen.set(path, entry);
  if (seen.size > 24) seen.delete(seen.keys().next().value);
};

export class Feed {
  constructor(path, every, changed, { query, merge } = {}) {
    Object.assign(this, { path, every, changed, query, merge, fails: 0, error: null, on: false, busy: false });
    const before = seen.get(path);
    this.data = before ? before.data : null;
    this.etag = before ? before.etag : null;
    this.at = before ? before.at : null;
  }

  start() { this.on = true; feeds.add(this); this.next(0); }
  stop() { this.on = false; feeds.delete(this); clearTimeout(this.timer); }
  again() { this.fails = 0; this.next(0); }
  idle() { return document.hidden || (paused.get() && this.data); } // a new screen has its first answer

  next(delay) {
    clearTimeout(this.timer);
    if (this.on && !this.idle()) this.timer = setTimeout(() => this.run(), delay);
  }

  async run() {
    if (this.busy) return;
    this.busy = true;
    await enter();
    try {
      if (this.on && !this.idle()) await this.once();
    } finally {
      this.busy = false;
      leave();
    }
  }

  async once() {
    try {
      const known = this.data && this.etag && !this.query;
      const answer = await ask(this.path + (this.query ? this.query(this.data) : ''),
        known ? { headers: { 'If-None-Match': this.etag } } : undefined);
      this.accept(answer);
    } catch (error) {
      this.refuse(error);
    }
    if (this.on) this.changed();
  }

  accept({ same, data, etag }) {
    this.fails = 0;
    this.error = null;
    this.at = now();
    if (!same) {
      this.data = this.merge ? this.merge(this.data, data) : data;
      this.etag = etag;
    }
    remember(this.path, { data: this.data, etag: this.etag, at: this.at });
    this.next(this.every);
  }

  refuse(error) {
    this.fails++;
    this.error = error instanceof Problem ? error : new Problem(-1, 'This page has a fault', String(error));
    const delay = Math.max(Math.min(30000, 1000 * 2 ** (this.fails - 1)), error.status === 404 ? this.every : 0);
    if (error.network) silent(delay);
    this.next(delay);
  }
}

export const tryNow = () => { for (const feed of feeds) feed.again(); };
document.addEventListener('visibilitychange', () => { if (!document.hidden) tryNow(); });
paused.watch(is => { if (!is) tryNow(); });

/* {data, error, at, again()} of a path; null as the path asks for nothing. */
export const useFeed = (path, every, options) => {
  const [, redraw] = useState(0), held = useRef(null);
  if (path && (!held.current || held.current.path !== path))
    held.current = new Feed(path, every, () => redraw(n => n + 1), options);
  if (!path) held.current = null;
  const feed = held.current;
  useEffect(() => {
    if (!feed) return undefined;
    feed.every = every;
    feed.start();
    return () => feed.stop();
  }, [feed]);
  useEffect(() => {
    if (!feed || feed.every === every) return;
    const sooner = every < feed.every;
    feed.every = every;
    if (sooner) feed.next(0);
  }, [every]);
  return feed || { data: null, error: null, at: null, again: () => {} };
};

/* A query string of what is set. */
export const query = of => {
  const all = new URLSearchParams();
  for (const [name, value] of Object.entries(of)) if (value !== undefined && value !== null && value !== '')
    all.set(name, value);
  const text = all.toString();
  return text ? '?' + text : '';
};
