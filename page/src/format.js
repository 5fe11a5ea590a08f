/* Numbers and times as people read them here: thousands by a narrow space, at most two units, ages in whole ones. */
import { zone } from './state.js';

export const NB = '\u202F', NBSP = '\u00A0', NONE = '–';

const group = digits => digits.replace(/\B(?=(\d{3})+(?!\d))/g, NB);
export const int = n => group(String(Math.round(n)));
export const rate = n => !n ? '0' : n >= 100 ? int(n) : n >= 10 ? n.toFixed(1) : n < 0.005 ? '<0.01' : n.toFixed(2);
export const short = n => n < 10000 ? int(n) : n < 1e6 ? (n / 1e3).toFixed(n < 1e5 ? 1 : 0) + NB + 'k'
  : n < 1e9 ? (n / 1e6).toFixed(n < 1e7 ? 2 : 1) + NB + 'M' : (n / 1e9).toFixed(2) + NB + 'G';
export const plural = (n, one, many) => int(n) + NBSP + (n === 1 ? one : many || one + 's');
export const size = n => n < 1024 ? n + NB + 'B' : n < 1048576 ? (n / 1024).toFixed(1) + NB + 'KiB'
  : (n / 1048576).toFixed(1) + NB + 'MiB';

const two = (ms, big, name, small, smallName) => {
  const rest = Math.floor(ms % big / small);
  return Math.floor(ms / big) + NB + name + (rest ? ' ' + rest + NB + smallName : '');
};
const S = 1e3, MIN = 60e3, H = 3600e3, D = 86400e3;
export const dur = ms => ms > 0 && ms < .05 ? '<0.1' + NB + 'ms' : ms < 10 ? Math.max(0, ms).toFixed(1) + NB + 'ms'
  : ms < S ? Math.round(ms) + NB + 'ms'
  : ms < 10 * S ? (ms / S).toFixed(1) + NB + 's' : ms < MIN ? Math.floor(ms / S) + NB + 's'
  : ms < H ? two(ms, MIN, 'min', S, 's') : ms < D ? two(ms, H, 'h', MIN, 'min') : two(ms, D, 'd', H, 'h');
export const coarse = ms => ms < S ? 'now' : ms < MIN ? Math.floor(ms / S) + NB + 's'
  : ms < H ? Math.floor(ms / MIN) + NB + 'min' : ms < D ? Math.floor(ms / H) + NB + 'h' : Math.floor(ms / D) + NB + 'd';

const pad = (n, width) => String(n).padStart(width || 2, '0');
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
/* The fields of a time in the chosen zone: those of UTC of a time that is shifted by the zone. */
const shifted = t => {
  const d = new Date(t);
  return zone.get() === 'utc' ? d : new Date(t - d.getTimezoneOffset() * MIN);
};
export const zoneName = t => {
  if (zone.get() === 'utc') return 'UTC';
  const minutes = -new Date(t).getTimezoneOffset();
  if (!minutes) return 'UTC';
  const abs = Math.abs(minutes);
  return 'UTC' + (minutes < 0 ? '−' : '+') + Math.floor(abs / 60) + (abs % 60 ? ':' + pad(abs % 60) : '');
};
export const hms = t => shifted(t).toISOString().slice(11, 19);
export const hm = t => hms(t).slice(0, 5);
export const ms = t => pad(new Date(t).getUTCMilliseconds(), 3);
export const day = t => { const d = shifted(t); return d.getUTCDate() + NBSP + MONTHS[d.getUTCMonth()]; };
export const exact = t => shifted(t).toISOString().replace('T', ' ').replace('Z', ' ') + zoneName(t);
/* A time of today is its clock; another one has its day as well. */
export const when = (t, now) => day(t) === day(now) ? hms(t) : day(t) + ' ' + hm(t);
/* How long keys are remembered: milliseconds, or a text of the configuration. */
export const kept = value => typeof value === 'number' ? dur(value) : value || '';
export const iso = t => new Date(t).toISOString();
