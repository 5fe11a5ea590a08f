/* Shortcuts. Each part of the page that is on the screen says which keys it answers; the last one that came is asked
 * first. Keys are ignored while a person types, with Ctrl, Alt or Meta, and behind a dialog. */
import { useLayoutEffect, useRef } from './ui.js';
import { go } from './route.js';

const layers = [];
const SCREENS = { o: 'overview', i: 'inboxes', b: 'outboxes', q: 'queues', d: 'dead', g: 'gateway', c: 'config',
  a: 'audit' };
let going = 0;

const typing = target => target.closest && target.closest('input:not([type=checkbox]),textarea,select');
const press = event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || typing(event.target)) return;
  if (document.querySelector('[aria-modal=true]')) return;
  if (going && Date.now() - going < 1200) {
    going = 0;
    if (SCREENS[event.key]) { event.preventDefault(); go([SCREENS[event.key]]); return; }
  }
  if (event.key === 'g') { going = Date.now(); return; }
  const button = event.target.closest && event.target.closest('button,a[href],summary,[role=radio]');
  if (button && (event.key === 'Enter' || event.key === ' ')) return; // theirs
  for (let i = layers.length - 1; i >= 0; i--) {
    const act = layers[i].current[event.key];
    if (!act) continue;
    event.preventDefault();
    act(event);
    return;
  }
};
addEventListener('keydown', press);

/* map: {key: function}; the functions may change with each drawing. They are exchanged with what is on the screen, not
 * after it: a key must not do what the screen before would have done. */
export const useKeys = map => {
  const held = useRef(map);
  held.current = map || {};
  useLayoutEffect(() => {
    layers.push(held);
    return () => { layers.splice(layers.indexOf(held), 1); };
  }, []);
};
