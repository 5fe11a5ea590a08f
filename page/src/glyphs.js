/* One shape for each meaning, so that colour is never alone. A grid of 16 px, strokes of 1.5. */
import { html } from './ui.js';

const P = {
  processed: html`<circle cx="8" cy="8" r="4.5" fill="currentColor" />`,
  duplicate: html`<circle cx="8" cy="8" r="4.1" fill="none" stroke="currentColor" stroke-width="1.7" />`,
  replayed: html`<path d="M12.1 8a4.1 4.1 0 1 1-1.3-3" /><path d="M11.3 2.2v3h-3" />`,
  failed: html`<path d="M4.3 4.3l7.4 7.4M11.7 4.3l-7.4 7.4" stroke-width="1.9" />`,
  dead: html`<path d="M8 2.4L13.6 8 8 13.6 2.4 8z" fill="currentColor" stroke="none" />`,
  mismatch: html`<path d="M3.5 6h9M3.5 10h9M10.6 3.2L5.4 12.8" />`,
  stale: html`
    <path d="M4.5 2.8h7M4.5 13.2h7M5.3 2.8c0 3 5.4 3.4 5.4 5.2s-5.4 2.2-5.4 5.2M10.7 2.8c0 3-5.4 3.4-5.4 5.2s5.4
      2.2 5.4 5.2" />`,
  waiting: html`<circle cx="8" cy="8" r="5" /><path d="M8 5.2V8l2 1.4" />`,
  progress: html`<circle cx="8" cy="8" r="4.3" />
    <path d="M8 3.7a4.3 4.3 0 0 1 0 8.6z" fill="currentColor" stroke="none" />`,
  unknown: html`<path d="M6 6.1a2 2 0 1 1 3 1.8c-.7.4-1 .8-1 1.6" />
    <circle cx="8" cy="12" r=".95" fill="currentColor" stroke="none" />`,
  warn: html`<path d="M8 3l5.6 9.8H2.4z" /><path d="M8 6.6v2.8" />
    <circle cx="8" cy="11.1" r=".8" fill="currentColor" stroke="none" />`,
  ok: html`<path d="M3.4 8.4l3 3 6.2-6.6" stroke-width="1.8" />`,
  send: html`<path d="M2.6 8h10M9 4.4L12.6 8 9 11.6" />`,
  receive: html`<path d="M13.4 8h-10M7 4.4L3.4 8 7 11.6" />`,
  clock: html`<circle cx="8" cy="8" r="5.2" /><path d="M8 5v3l2 1.3" />`,
  pause: html`<path d="M5.6 4v8M10.4 4v8" stroke-width="2" />`,
  play: html`<path d="M5.2 3.6v8.8L12.4 8z" fill="currentColor" stroke="none" />`,
  search: html`<circle cx="7" cy="7" r="4" /><path d="M10 10l3.4 3.4" />`,
  copy: html`<rect x="5.5" y="5.5" width="7.5" height="7.5" rx="1.5" /><path d="M3 10.5V4.2C3 3.5 3.5 3 4.2 3h6.3" />`,
  right: html`<path d="M6 3.6L10.4 8 6 12.4" />`,
  left: html`<path d="M10 3.6L5.6 8l4.4 4.4" />`,
  down: html`<path d="M3.6 6L8 10.4 12.4 6" />`,
  close: html`<path d="M4 4l8 8M12 4l-8 8" />`,
  sun: html`<circle cx="8" cy="8" r="2.8" />
    <path d="M8 1.6v1.6M8 12.8v1.6M1.6 8h1.6M12.8 8h1.6M3.5 3.5l1.1 1.1M11.4 11.4l1.1 1.1M12.5 3.5l-1.1 1.1M4.6
      11.4l-1.1 1.1" />`,
  moon: html`<path d="M13 9.6A5.4 5.4 0 0 1 6.4 3a5.4 5.4 0 1 0 6.6 6.6z" />`,
  keys: html`<rect x="1.8" y="4.2" width="12.4" height="7.6" rx="1.6" />
    <path d="M4.4 6.8h.01M6.8 6.8h.01M9.2 6.8h.01M11.6 6.8h.01M5.2 9.4h5.6" />`,
  overview: html`<path d="M2.4 12.6h11.2M4 10V7.4M7 10V4M10 10V6M13 10V3" />`,
  inbox: html`<path d="M2.4 9.2L4.2 3.6h7.6l1.8 5.6v3.2H2.4z" />
    <path d="M2.4 9.2h3.2c.3 1.3 1.2 2 2.4 2s2.1-.7 2.4-2h3.2" />`,
  outbox: html`<path d="M2.4 9.4v3.2h11.2V9.4M8 10V3M5.2 5.6L8 2.8l2.8 2.8" />`,
  queue: html`<rect x="2.4" y="3" width="11.2" height="2.6" rx=".8" />
    <rect x="2.4" y="7" width="11.2" height="2.6" rx=".8" /><path d="M3.2 12.6h9.6" />`,
  deadnav: html`<path d="M8 2.6L13.4 8 8 13.4 2.6 8z" />`,
  gateway: html`<path d="M2.4 5h7.2M7.4 2.8L9.6 5 7.4 7.2M13.6 11H6.4M8.6 8.8L6.4 11l2.2 2.2" />`,
  config: html`<path d="M2.6 4.6h5M11 4.6h2.4M2.6 11.4H5M8.4 11.4h5" /><circle cx="9.3" cy="4.6" r="1.7" />
    <circle cx="6.7" cy="11.4" r="1.7" />`,
  audit: html`<path d="M4 2.6h8v10.8H4zM6.2 5.6h3.6M6.2 8h3.6M6.2 10.4h2" />`,
  more: html`<circle cx="3.6" cy="8" r="1.1" fill="currentColor" stroke="none" />
    <circle cx="8" cy="8" r="1.1" fill="currentColor" stroke="none" />
    <circle cx="12.4" cy="8" r="1.1" fill="currentColor" stroke="none" />`,
  lock: html`<rect x="3.6" y="7" width="8.8" height="6" rx="1.4" /><path d="M5.6 7V5.2a2.4 2.4 0 0 1 4.8 0V7" />`,
  hand: html`<path d="M2.8 5.4h10.4v5.2H2.8z" /><path d="M5.4 8h5.2" />`,
  trace: html`<path d="M3 4h6M5 8h7M8 12h5" stroke-width="2" />`
};

export const G = (name, cls) => html`<svg class=${'g ' + (cls || '')} viewBox="0 0 16 16" width="16" height="16"
  fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"
  aria-hidden="true">${P[name]}</svg>`;
export const mark = () => html`<svg class="mark" viewBox="0 0 26 16" width="26" height="16" aria-hidden="true">
  <circle cx="7" cy="8" r="5.4" fill="currentColor" /><circle class="mark-ring" cx="19" cy="8" r="4.5" fill="none"
  stroke-width="1.8" /></svg>`;
