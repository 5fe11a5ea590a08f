/* One dialog for every action. It says what will happen before it happens: the count and the first keys come from the
 * server's dry run, the filter is bound to what was listed, and the command that does the same is shown. Then it shows
 * how far the work is, lets it be stopped, and counts the outcomes; the audit has a row of it. */
import { html, useEffect, useRef, useState } from './ui.js';
import { Bones, Button, Cmd, Copy, Facts } from './parts.js';
import { Dialog, toast } from './dialog.js';
import { get, now, post, requestId } from './api.js';
import { keyText } from './route.js';
import { show } from './safe.js';
import * as F from './format.js';

export { useActions } from './actions.js';

/* verb: on the button; past: in the result; thing: what is counted; harm: the count has to be typed. */
const ACTIONS = {
  'dead.retry': { verb: 'Retry', past: 'Retried', thing: 'dead letter', why: 'the cause was fixed',
    what: 'Each runs through its handler once more.' },
  'dead.discard': { verb: 'Discard', past: 'Discarded', thing: 'dead letter', harm: true,
    why: 'wrong addresses, shop was told',
    what: 'They are removed for good, with their bodies.' },
  'inbox.forget': { verb: 'Forget', past: 'Forgot', thing: 'key', harm: true, why: 'test order, to be sent again',
    what: 'The inbox forgets that it handled this key. A copy that arrives later runs again.' },
  'outbox.requeue': { verb: 'Send', past: 'Requeued', thing: 'message', why: 'the broker is back',
    what: 'They are due at once, and their attempts count from the beginning.' },
  'outbox.skip': { verb: 'Skip', past: 'Skipped', thing: 'message', harm: true, why: 'nobody reads this topic any more',
    what: 'They are not sent and become dead letters; what waits behind them goes on.' },
  'queue.purge': { verb: 'Purge', past: 'Purged', thing: 'message', harm: true, why: 'test messages',
    what: 'They are removed from the queue for good; no inbox sees them.' }
};
const MANY = 1000;
const OUTCOMES = { failed: 'failed again', duplicate: 'duplicates', gone: 'gone before' };
const outcomesText = of => {
  const parts = Object.entries(of || {}).filter(([, n]) => n);
  return parts.length ? parts.map(([name, n]) => F.int(n) + ' ' + (n === 1 && name === 'duplicate' ? name
    : OUTCOMES[name] || name.replaceAll('_', ' '))).join(', ') : '';
};

const NAMES = { inbox: 'Inbox', name: 'Name', origin: 'Of', error: 'Error', type: 'Type', since: 'Since',
  cause: 'Cause',
  key: 'Key', outbox: 'Outbox', queue: 'Queue', group: 'Group', text: 'Error', id: 'Id' };
const filterFacts = (filter, labels, count, listed) => [
  ...Object.entries(labels || filter).filter(([name, v]) => v && NAMES[name]).map(([name, v]) => [NAMES[name],
    show(name === 'since' ? F.exact(Number(v)) : v), true]),
  ['Until', F.exact(listed), true], ['Count', html`<b>${F.int(count)}</b>`]];

const LOST = 'The server does not know the job any more; the audit has its result.';
const useJob = (job, onEnd) => {
  const [state, setState] = useState(null), end = useRef(onEnd);
  end.current = onEnd;
  useEffect(() => {
    if (!job) return undefined;
    let on = true, fails = 0, timer;
    const look = async () => {
      try {
        const next = await get('jobs/' + encodeURIComponent(job));
        fails = 0;
        if (!on) return;
        setState(next);
        if (next.state !== 'running') { end.current(next); return; }
      } catch (error) {
        if (error.status === 404) { if (on) end.current({ state: 'failed', error: LOST }); return; }
        fails++;
      }
      if (on) timer = setTimeout(look, Math.min(30000, 600 * 2 ** Math.min(fails, 6)));
    };
    look();
    return () => { on = false; clearTimeout(timer); };
  }, [job]);
  return state;
};

const Progress = ({ state, total, onStop, stopping }) => {
  const done = state ? state.done || 0 : 0, all = state && state.total || total;
  return html`<div class="dialog-body"><p role="status"><b>${F.int(done)}</b> of ${F.int(all)}${outcomesText(state &&
      state.outcomes) ? ': ' + outcomesText(state.outcomes) : ''}</p>
    <progress max=${all || 1} value=${done} aria-label="Progress"></progress></div>
    <footer class="dialog-foot"><span class="note">Each step is committed by itself; what is done stays done.</span>
      <span class="grow"></span><${Button} disabled=${stopping} onClick=${onStop}>${stopping ? 'Stopping' : 'Stop'}<//>
    </footer>`;
};

const Result = ({ end, about, onClose }) => html`<div class="dialog-body"><p role="alert">${end.state === 'failed'
    ? html`<b>It ended with an error.</b> ${show(end.error)}` : html`<b>Stopped</b> after ${F.int(end.done
      || 0)} of${' '}
      ${F.int(end.total || 0)}.`} ${outcomesText(end.outcomes) ? `${about.past}: ${outcomesText(end.outcomes)}.`
        : ''}</p>
    ${(end.notes || []).map(note => html`<p class="note">${show(note)}</p>`)}${end.rest && html`<${Cmd}
      text=${end.rest} />`}
    </div><footer class="dialog-foot"><span class="note">${end.audit_id ? html`<a class="link"
      href="#/audit">Show in audit</a>` : ''}</span><span class="grow"></span><${Button} kind="primary"
      onClick=${onClose}>Close<//></footer>`;

const finish = (end, about, count) => {
  const counted = outcomesText(end.outcomes);
  toast(`${about.past} ${F.int(end.done ?? count)}${counted ? ': ' + counted : ''}.`, ['Show in audit', '#/audit']);
};

const Ask = ({ about, look, filter, labels, one, ids, listed, error, busy, onClose, onGo, sample }) => {
  const [why, setWhy] = useState(''), [text, setText] = useState('');
  const count = look.count, word = one && about.thing === 'key' ? one : String(count);
  const typed = about.harm || count > MANY, ready = count > 0 && !busy && (!typed || text === word);
  const go = () => ready && onGo(why);
  const noEnter = event => { if (event.key === 'Enter') { event.preventDefault(); if (!about.harm) go(); } };
  const consequences = look.consequences && look.consequences.length ? look.consequences : [about.what];
  return html`<div class="dialog-body">
    <div>${consequences.map(line => html`<p>${show(line)}</p>`)}</div>
    <div class="filterbox"><div class="filterbox-h">${ids ? 'What was selected' : 'All that match'}, as listed at
      ${' ' + F.hms(listed)}</div><${Facts} of=${filterFacts(filter, labels, count, listed)} />
      ${sample.length > 0 && html`<p class="sample">${sample.map((key, i) => html`${i ? ', ' : ''}${show(key)}`)}
        ${count > sample.length ? ` and ${F.int(count - sample.length)} more` : ''}</p>`}</div>
    <label class="labelled"><span>Why <i>for the audit</i></span><input class="field" placeholder=${about.why}
      data-first
      value=${why} onInput=${e => setWhy(e.target.value)} onKeyDown=${noEnter} autocomplete="off" id="why" /></label>
    ${typed && html`<label class="labelled"><span>Type <b>${show(word)}</b> to go on</span><input id="typed"
      class=${'field ' + (word.length < 9 ? 'short' : 'mono')} value=${text} onKeyDown=${noEnter}
      onInput=${e => setText(e.target.value)} autocomplete="off" /></label>`}
    ${look.command && html`<${Cmd} text=${look.command} />`}
    ${error && html`<p class="t-fail" role="alert"><b>${show(error.title)}</b> ${show(error.detail)}</p>`}</div>
  <footer class="dialog-foot"><span class="note">${about.harm && about.thing === 'dead letter' && look.command
    ? html`Cannot be undone. Export first: <${Copy} text=${look.command.replace(' discard', ' export')}
      label="Copy the command that exports them" />` : about.harm ? 'Cannot be undone.'
      : `What comes after ${F.hms(listed)} is not touched.`}</span><span class="grow"></span>
    <${Button} onClick=${onClose}>Cancel<//>
    <${Button} kind=${about.harm ? 'danger' : 'primary'} disabled=${!ready} busy=${busy} id="go" onClick=${go}>
      ${about.verb} ${F.int(count)}<//></footer>`;
};

export const Confirm = ({ action, filter = {}, ids, labels, one, listed, onClose, onDone }) => {
  const about = ACTIONS[action], [look, setLook] = useState(null), [error, setError] = useState(null);
  const [busy, setBusy] = useState(false), [job, setJob] = useState(null), [end, setEnd] = useState(null);
  const [stopping, setStopping] = useState(false), id = useRef(requestId()), at = useRef(listed || now());
  const body = { action, filter, ...(ids ? { ids } : {}) };
  const preview = async () => {
    try { setLook(await post('actions/preview', body)); } catch (problem) { setError(problem); }
  };
  useEffect(() => { preview(); }, []);
  const state = useJob(job, over => {
    if (onDone) onDone();
    if (over.state === 'done') { finish(over, about, look.count); onClose(); } else setEnd(over);
  });
  const start = async reason => {
    setBusy(true);
    setError(null);
    try {
      setJob((await post('actions', { ...body, filter: look.filter || { ...filter, until_id: look.until_id },
        count: look.count, ...(reason ? { reason } : {}) }, id.current)).job);
    } catch (problem) {
      setError(problem);
      id.current = requestId();
      if (problem.status === 409) await preview(); // somebody was faster: what is there now
    }
    setBusy(false);
  };
  const stop = async () => { setStopping(true); try { await post(`jobs/${job}/stop`,
    {}); } catch { setStopping(false); } };
  const count = look ? look.count : null;
  const title = one ? `${about.verb} ${one.length > 40 ? 'this ' + about.thing : one}?`
    : count === null ? about.verb + '…' : `${about.verb} ${F.plural(count, about.thing)}?`;
  const inner = end ? html`<${Result} end=${end} about=${about} onClose=${onClose} />`
    : job ? html`<${Progress} state=${state} total=${count} onStop=${stop} stopping=${stopping} />`
    : look ? html`<${Ask} about=${about} look=${look} filter=${filter} labels=${labels} one=${one} ids=${ids}
        listed=${at.current} error=${error} busy=${busy} onClose=${onClose} onGo=${start}
        sample=${(look.sample || []).map(keyText)} />`
    : html`<div class="dialog-body">${error ? html`<p class="t-fail" role="alert"><b>${show(error.title)}</b>${' '}
        ${show(error.detail)}</p>` : html`<${Bones} n=${5} />`}</div><footer class="dialog-foot"><span class="grow">
          </span>
        <${Button} onClick=${onClose}>Close<//></footer>`;
  return html`<${Dialog} key=${look ? 'ask' : 'wait'} title=${show(title)} onClose=${onClose}>${inner}<//>`;
};
