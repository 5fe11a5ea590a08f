/* Dialogs and toasts. A dialog has the focus until it is closed, and gives it back; toasts say what was done. */
import { html, useEffect, useLayoutEffect, useRef } from './ui.js';
import { G } from './glyphs.js';
import { cell, useCell } from './state.js';

const reachable = 'button,input,textarea,select,a[href],[tabindex="0"]';

export const Dialog = ({ title, children, onClose, wide }) => {
  const ref = useRef(null), close = useRef(onClose);
  close.current = onClose;
  useLayoutEffect(() => {
    const before = document.activeElement, element = ref.current;
    (element.querySelector('[data-first]') || element).focus();
    const key = event => {
      if (event.key === 'Escape') { event.stopPropagation(); close.current(); }
      if (event.key !== 'Tab') return;
      const all = [...element.querySelectorAll(reachable)].filter(x => !x.disabled && x.offsetParent);
      const at = all.indexOf(document.activeElement);
      if (event.shiftKey && at <= 0) { event.preventDefault(); all[all.length - 1].focus(); }
      if (!event.shiftKey && at === all.length - 1) { event.preventDefault(); all[0].focus(); }
    };
    element.addEventListener('keydown', key);
    return () => {
      element.removeEventListener('keydown', key);
      if (before && before.isConnected) before.focus({ preventScroll: true });
    };
  }, []);
  return html`<div class="scrim" onClick=${event => event.target === event.currentTarget && onClose()}>
    <div class=${'dialog ' + (wide ? 'wide' : '')} role="dialog" aria-modal="true" aria-labelledby="dialog-title"
      tabindex="-1" ref=${ref}>
      <div class="dialog-head"><h2 id="dialog-title">${title}</h2><span class="grow"></span>
        <button type="button" class="copy" aria-label="Close" onClick=${onClose}>${G('close')}</button></div>
      ${children}</div></div>`;
};

/* --- toasts ------------------------------------------------------------------------------------------------------ */

const toasts = cell([]);
let count = 0;
const drop = id => toasts.set(toasts.get().filter(toast => toast.id !== id));
export const toast = (text, link) => toasts.set([...toasts.get().slice(-1), { id: ++count, text, link }]);

/* Eight seconds, and longer while somebody reads it with the pointer or the focus on it. */
const Toast = ({ of }) => {
  const timer = useRef(null);
  const start = () => { clearTimeout(timer.current); timer.current = setTimeout(() => drop(of.id), 8000); };
  const hold = () => clearTimeout(timer.current);
  useEffect(() => { start(); return hold; }, []);
  return html`<div class="toast" onPointerEnter=${hold} onPointerLeave=${start} onFocusIn=${hold} onFocusOut=${start}>
    ${G('ok')}<span>${of.text}</span>${of.link && html`<a class="link" href=${of.link[1]}>${of.link[0]}</a>`}
    <button type="button" class="copy" aria-label="Dismiss" onClick=${() => drop(of.id)}>${G('close')}</button></div>`;
};
export const Toasts = () => html`<div class="toasts" role="status">${useCell(toasts).map(of =>
  html`<${Toast} key=${of.id} of=${of} />`)}</div>`;
