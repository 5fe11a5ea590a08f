/* Was this order charged once? Why did it arrive five times? What was sent because of it? The answer is a sentence; the
 * timeline below it is the proof. */
import { html, useState } from './ui.js';
import { now, useFeed } from './api.js';
import { Timeline } from './timeline.js';
import { Body } from './body.js';
import { Ago, At, Bones, Button, Copy, copyText, Empty, Facts, Head, Mono, Panel, State, stateOf, Strip, Trouble } from
  './parts.js';
import { toast } from './dialog.js';
import { Confirm, useActions } from './confirm.js';
import { link, typed, keyText } from './route.js';
import { useKeys } from './keys.js';
import { useCell, zone } from './state.js';
import { show } from './safe.js';
import * as F from './format.js';

const copies = (n, before, after) => n ? html` <span class="t-dup">${F.plural(n, 'copy',
  'copies')}</span>${before}${after}` : '';
const sent = n => n ? ` ${F.plural(n, 'message was', 'messages were')} sent.` : '';
const attemptName = n => ['first', 'second', 'third', 'fourth', 'fifth', 'sixth', 'seventh', 'eighth', 'ninth',
  'tenth'][n - 1] || 'next';

/* The sentence that the person came for. A key that is not remembered is another matter than an outcome that nobody
 * knows. */
export const verdictOf = v => {
  const at = v.at ? html`, at ${F.when(v.at, now())}` : '', n = v.copies || 0;
  switch (v.state === 'unknown' ? 'none' : stateOf(v.state)) {
  case 'processed': return html`<b>${v.mode === 'claim' ? 'Completed once' : 'Handled once'}</b>${at}.${copies(n,
    ' arrived later and did not run.', '')}${v.runs > 1 ? ` The handler ran ${v.runs} times.` : ''}${sent(v.sent)}`;
  case 'waiting': return html`<b>Not handled yet.</b> ${F.plural(v.attempts || 0, 'attempt')} failed; the${' '}
    ${attemptName((v.attempts || 0) + 1)} is due ${v.due ? 'at ' + F.when(v.due, now())
      : 'soon'}. Nothing was committed.`;
  case 'progress': return html`<b>Being handled</b>${v.process ? html` by ${show(v.process)}` : ''}${v.at
    ? ` for ${F.dur(Math.max(0, now() - v.at))} so far` : ''}.${n ? ` ${F.plural(n, 'copy waits',
      'copies wait')} for it.` : ''}`;
  case 'dead': return html`<b>Given up</b>${v.attempts ? ' after ' + F.plural(v.attempts, 'attempt')
    : ''}${at}. Nothing was
    committed.${copies(n, n === 1 ? ' has arrived since and did not run.' : ' have arrived since and did not run.',
      '')}`;
  case 'mismatch': return html`<b>Refused</b>: this key was handled${v.at ? ' at ' + F.when(v.at, now())
    : ''} with different
    content.`;
  case 'stale': return html`<b>Stale</b>: a newer version was handled before${at}. Nothing was committed.`;
  case 'unknown': return html`<b>The outcome is unknown</b>${at}: the request was sent, and there is no
    answer.${copies(n, n === 1 ? ' was not sent.' : ' were not sent.', '')} Find out what the service has done; if it
    has done nothing, forget the key, and the next copy is sent.`;
  default: return html`<b>Not known.</b> This inbox does not remember the key.`;
  }
};

const headerOf = (message, name) => ((message && message.headers || []).find(([n]) => n.toLowerCase() === name)
  || [])[1];
const traceOf = message => {
  const parent = /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(headerOf(message, 'traceparent') || '');
  return parent ? parent[1] : null;
};

const Side = ({ data }) => {
  const { message, verdict: v = {} } = data, trace = traceOf(message), first = message || {};
  const type = first.type || data.type, source = first.source || data.source;
  const deliveries = 1 + (v.copies || 0);
  const facts = [['State', html`<${State} of=${v.state === 'unknown' ? 'none' : v.state || data.state} />`],
    first.id && ['Id', html`${show(first.id)}<${Copy} text=${first.id} label="Copy the id" />`, true],
    type && ['Type', show(type)], source && ['Source', show(source)],
    first.topic && first.topic !== first.type && ['Topic', show(first.topic), true],
    first.group && ['Group', html`<${Mono}>${keyText(first.group)}<//>`],
    first.time && ['Sent', html`<${At} t=${first.time} />, <${Ago} t=${first.time} />`],
    ['Deliveries', v.copies ? `${F.int(deliveries)} (1 first, ${F.plural(v.copies, 'copy', 'copies')})` : '1'],
    v.attempts ? ['Attempts', F.int(v.attempts)] : null,
    v.dead_letter ? ['Letter', html`<a class="link" href=${link(['dead', String(v.dead_letter)])}>dead letter
      ${' ' + v.dead_letter}</a>`] : null,
    trace && ['Trace', html`${trace.slice(0, 16)}…<${Copy} text=${trace} label="Copy the trace id" />`, true]];
  return html`<div class="rail wide"><${Panel} title="Facts"><${Facts} of=${facts} /><//>
    ${message && message.body && html`<${Body} body=${message.body} contentType=${message.content_type} />`}
    ${!message && html`<${Panel} title="Body"><p class="dim">${data.history === false
      ? html`Bodies are not kept: <code>history</code> is off.`
      : data.keeps_messages === false ? 'Headers and body of a proxied request are not kept: they may have secrets ' +
        'of its caller. Its checksum is, to know a copy from other content under the same key.'
        : 'The history does not have this message any more.'}</p><//>`}
    ${message && message.headers && message.headers.length > 0 && html`<${Panel} title="Headers"
      note=${message.headers.length} flush><table class="kv" aria-label="Headers"><tbody>${message.headers.map(([n,
        value]) =>
        html`<tr><th scope="row">${show(n)}</th><td>${show(value)}</td></tr>`)}</tbody></table><//>`}</div>`;
};

const Wait = () => html`<div class="verdict" aria-busy="true"><p><span class="bone w2 inline"></span></p></div>
  <div class="cols msg"><${Panel} title="Timeline"><${Bones} n=${9} /><//><div class="rail wide"><${Panel}
  title="Facts"><${Bones} n=${6} /><//><${Panel} title="Body"><${Bones} n=${6} /><//></div></div>`;

export const Message = ({ inbox, keyName }) => {
  useCell(zone);
  const feed = useFeed(`messages?inbox=${encodeURIComponent(inbox)}&key=${encodeURIComponent(keyName)}`, 2000),
    { data } = feed;
  const [forget, setForget] = useState(false), actions = useActions();
  const name = data && data.key ? keyText(data.key) : keyName, asked = data && data.key ? typed(data.key) : keyName;
  const verdict = data && (data.verdict || { state: data.state });
  const command = `semel inbox show ${inbox} ${/^[\w.:-]+$/.test(asked) ? asked : `'${asked.replaceAll("'",
    `'\\''`)}'`}`;
  const copyCommand = async () => { if (await copyText(command)) toast('The command is in the clipboard.'); };
  useKeys({ y: () => copyText(name).then(done => done && toast('The key is in the clipboard.')),
    D: () => actions.ready && setForget(true) });
  const gone = feed.error && feed.error.status === 404;
  const known = data && verdict.state !== 'unknown';
  return html`<${Head} crumbs=${[['Inboxes', '#/inboxes'], [inbox, link(['inboxes', inbox])]]} mono title=${name}
    copy=${name}
      actions=${html`<${Button} glyph="copy" onClick=${copyCommand}>Copy as command<//>
        <${Button} disabled=${!actions.ready || !known} title=${known ? actions.why
          : 'This inbox does not remember the key'}
          onClick=${() => setForget(true)}>Forget key…<//>`} />
    ${feed.error && !gone && html`<${Panel} flush><${Trouble} feed=${feed} /><//>`}
    ${gone && html`<${Panel}><${Empty} title="No such key here">The inbox ${show(inbox)} does not remember it.${' '}
      <a class="link" href=${link(['find', keyName])}>Why that may be</a><//><//>`}
    ${!data && !feed.error && html`<${Wait} />`}
    ${data && html`<div class="verdict"><span class="verdict-strip"><${Strip} state=${verdict.state}
        failures=${verdict.failures ?? (data.timeline || []).filter(e => e.kind === 'failed').length}
        copies=${verdict.copies || 0} /></span><p>${verdictOf(verdict)}</p></div>
      <div class="cols msg"><${Timeline} data=${data} nowMs=${now()} /><${Side} data=${data} /></div>`}
    ${forget && html`<${Confirm} action="inbox.forget" filter=${{ inbox, key: asked }} one=${name}
      onClose=${() => setForget(false)} onDone=${() => feed.again()} />`}`;
};
