/* Routes are fragments: they work below any base path and keep keys out of the logs of servers. A filter is part of
 * the route, so that a link shows another person the same rows. */
import { cell } from './state.js';

const decode = text => { try { return decodeURIComponent(text); } catch { return text; } };
const parse = () => {
  const [path, search] = location.hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const query = Object.fromEntries(new URLSearchParams(search));
  return { path: path ? path.split('/').map(decode) : ['overview'], query };
};

export const route = cell(parse());
addEventListener('hashchange', () => route.set(parse()));

const searchOf = query => {
  const all = new URLSearchParams();
  for (const [name, value] of Object.entries(query || {})) if (value) all.set(name, value);
  return all.toString() ? '?' + all : '';
};
export const link = (path, query) => '#/' + path.map(encodeURIComponent).join('/') + searchOf(query);
export const go = (path, query) => { location.hash = link(path, query).slice(1); };
/* The same screen with another filter: no new entry for the way back. */
export const refine = changes => {
  const { path, query } = route.get();
  history.replaceState(null, '', link(path, { ...query, ...changes }));
  route.set(parse());
};

/* Keys as the API has them: {text} or {hex}, and the form that can be typed. */
export const typed = key => typeof key === 'string' ? key
  : key ? key.shown ?? (key.text !== undefined ? key.text : 'hex:' + key.hex) : '';
export const keyText = key => typeof key === 'string' ? key : key ? key.text ?? 'hex:' + key.hex : '';
export const messageLink = (inbox, key) => link(['inboxes', inbox, 'k', typed(key)]);
