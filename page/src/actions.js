/* What may be changed from here, and why not if not. Read-only is the default: without a token in the configuration
 * there are no actions; with one they wait until it is entered. It is kept for this tab, and sent as a header. */
import { html, useState } from './ui.js';
import { Button } from './parts.js';
import { Dialog } from './dialog.js';
import { tokenHolds } from './api.js';
import { cell, person, token, useCell } from './state.js';
import { show } from './safe.js';

/* configured: whether the server has a token (null: not known yet); down: whether the store cannot be reached. */
export const allowed = cell({ configured: null, down: false });
export const asking = cell(false); // for the token

export const useActions = () => {
  const { configured, down } = useCell(allowed), entered = useCell(token);
  const why = configured === false ? 'Read-only: no admin.token is configured'
    : !entered ? 'Read-only: enter the token first' : down ? 'The store is unreachable' : '';
  return { ready: !why && configured === true, why, configured, entered: !!entered };
};


export const TokenDialog = () => {
  const [text, setText] = useState(''), [name, setName] = useState(person.get()), [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const close = () => asking.set(false);
  const enter = async event => {
    event.preventDefault();
    if (!text || busy) return;
    setBusy(true);
    let wrong = null;
    try {
      if (!await tokenHolds(text)) wrong = 'The server does not take this token.';
    } catch (problem) {
      wrong = problem.title;
    }
    if (!wrong) { // only now is there anything to act with
      person.set(name.trim());
      token.set(text);
      close();
      return;
    }
    setError(wrong);
    setBusy(false);
  };
  return html`<${Dialog} title="Enter the token" onClose=${close}><form onSubmit=${enter}><div class="dialog-body">
    <p>It is <code>admin.token</code> of the configuration. This tab keeps it until it is closed; it is sent with
      actions
      only, as a header.</p>
    <label class="labelled"><span>Token</span><input class="field mono" type="password" data-first autocomplete="off"
      value=${text} onInput=${e => setText(e.target.value)} /></label>
    <label class="labelled"><span>Your name <i>for the audit</i></span><input class="field" value=${name}
      autocomplete="off" onInput=${e => setName(e.target.value)} /></label>
    ${error && html`<p class="t-fail" role="alert">${show(error)}</p>`}</div>
    <footer class="dialog-foot"><span class="note">The commands work without it.</span><span class="grow"></span>
      <${Button} onClick=${close}>Cancel<//><button type="submit" class="btn primary" aria-disabled=${!text || busy
        ? 'true' : null}><span>Enter</span></button></footer></form><//>`;
};
