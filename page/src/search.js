/* Find by exact key, in all inboxes and dead letters. One result opens with Enter; none leads to the reasons. */
import { html, useEffect, useRef, useState } from './ui.js';
import { G } from './glyphs.js';
import { Ago, Head, Kbd, Mono, Panel, State, Strip, stripOf, Trouble } from './parts.js';
import { get, useFeed } from './api.js';
import { go, keyText, link, messageLink } from './route.js';
import { show } from './safe.js';
import * as F from './format.js';

const to = hit => hit.letter && !hit.inbox ? link(['dead', String(hit.letter)]) : messageLink(hit.inbox, hit.key);
const count = (hits, what) => hits.filter(hit => !!hit.letter === what).length;
const summary = hits => {
  const inboxes = count(hits, false), letters = count(hits, true);
  return `In ${F.plural(inboxes, 'inbox', 'inboxes')} and ${letters ? F.plural(letters, 'dead letter')
    : 'no dead letter'}.`;
};

const Hit = ({ hit, chosen, index }) => html`<a role="option" id=${'hit-' + index} aria-selected=${chosen ? 'true'
  : 'false'}
  tabindex="-1" href=${to(hit)}><b>${show(hit.inbox || hit.name)}</b>${hit.letter ? html`<${State} of="dead"
  text="dead letter" />` : html`<${Strip} ...${stripOf(hit)} />`}<span class="grow"></span><span class="dim"><${Ago}
  t=${hit.last_ms || hit.at} /></span></a>`;

/* What was typed, asked a quarter of a second later; an answer to something older is dropped. */
const useHits = text => {
  const [found, setFound] = useState(null), turn = useRef(0);
  useEffect(() => {
    const mine = ++turn.current;
    setFound(null);
    if (!text) return undefined;
    const timer = setTimeout(async () => {
      let next;
      try { next = { hits: (await get('find?key=' + encodeURIComponent(text))).results
        || [] }; } catch (error) { next = { error }; }
      if (mine === turn.current) setFound({ text, ...next });
    }, 250);
    return () => clearTimeout(timer);
  }, [text]);
  return found;
};

export const Search = ({ inputRef }) => {
  const [text, setText] = useState(''), [open, setOpen] = useState(false), [at, setAt] = useState(0),
    box = useRef(null);
  const found = useHits(text.trim()), hits = found && found.hits || [], shown = open && text.trim();
  const leave = () => { setOpen(false); setText(''); inputRef.current.blur(); };
  const key = async event => {
    if (event.key === 'Escape') { event.preventDefault(); leave(); }
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      setAt(i => hits.length ? (i + (event.key === 'ArrowDown' ? 1 : -1) + hits.length) % hits.length : 0);
    }
    if (event.key !== 'Enter' || !text.trim()) return;
    event.preventDefault();
    const asked = text.trim(), list = found && !found.error ? hits
      : (await get('find?key=' + encodeURIComponent(asked)).catch(() => ({ results: [] }))).results;
    leave();
    if (list.length) location.hash = to(list[Math.min(at, list.length - 1)]).slice(1); else go(['find', asked]);
    document.getElementById('main').focus();
  };
  const away = event => { if (!box.current.contains(event.relatedTarget)) setOpen(false); };
  const none = html`<p>No inbox remembers <${Mono}>${text.trim()}<//>, and no dead letter has it.${' '}
    <a href=${link(['find', text.trim()])} onClick=${leave}>Why that may be</a></p>`;
  return html`<div class="search" role="search" aria-label="Find by key" ref=${box} onFocusOut=${away}>
    <span class="search-g">${G('search')}</span><input ref=${inputRef} id="search" role="combobox"
      aria-autocomplete="list"
      aria-expanded=${shown ? 'true' : 'false'} aria-controls="hits" aria-label="Find by exact key"
      aria-activedescendant=${shown && hits.length ? 'hit-' + at : null} placeholder="Find by exact key"
        spellcheck="false"
      autocomplete="off" value=${text} onInput=${e => { setText(e.target.value); setAt(0); setOpen(true); }}
      onFocus=${() => setOpen(true)} onKeyDown=${key} />${!text && html`<${Kbd}>/<//>`}
    ${shown && html`<div class="hits"><div id="hits" role="listbox" aria-label="Results">${hits.map((hit,
      i) => html`<${Hit}
      hit=${hit} index=${i} chosen=${i === at} />`)}</div>${!found ? html`<p role="status">Looking…</p>` : found.error
      ? html`<p role="alert">${show(found.error.title)}.</p>` : hits.length ? html`<p
        role="status">${summary(hits)} Keys are
        compared byte by byte; bytes as <span class="mono">hex:</span> or <span class="mono">base64:</span>.</p>`
          : none}</div>`}
    </div>`;
};

/* --- the results as a screen: a link to share, and the reasons when there is none --------------------------------- */

export const Find = ({ text }) => {
  const feed = useFeed('find?key=' + encodeURIComponent(text), 5000), inboxes = useFeed('inboxes', 30000);
  const hits = feed.data && feed.data.results, all = inboxes.data ? inboxes.data.inboxes : [];
  const kept = all.filter(b => b.retention).map(b => `${b.name} remembers keys for ${F.kept(b.retention)}`).join(', ');
  const none = html`<div class="prose">
    <p>No inbox remembers this key, and no dead letter has it. One of these is true:</p><ul>
    <li>It never came here.</li><li>It came, and was forgotten${kept ? ': ' + kept : ''}.</li>
      <li>It is another key. Keys are
    compared byte by byte; give bytes as <code>hex:6f7264</code> or <code>base64:b3Jk</code>.</li></ul></div>`;
  return html`<${Head} title=${hits && hits.length ? 'Key found' : hits ? 'No such key' : 'Find a key'}
    sub=${html`<${Mono}>
    ${text}<//>`} />${feed.error && html`<${Panel} flush><${Trouble} feed=${feed} /><//>`}
    ${hits && html`<${Panel} flush=${hits.length > 0}>${hits.length ? html`<ul class="found">${hits.map(hit => html`<li>
      <a href=${to(hit)}><b>${show(hit.inbox || hit.name)}</b><${Mono}>${keyText(hit.key)}<//>${hit.letter
      ? html`<${State} of="dead" text="dead letter" />` : html`<${Strip} ...${stripOf(hit)} />`}<span class="grow">
        </span>
      <${Ago} t=${hit.last_ms || hit.at} /></a></li>`)}</ul>` : none}<//>`}`;
};
