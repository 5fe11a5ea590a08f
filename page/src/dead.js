/* What failed, how many letters, since when? How can a thousand be fixed at once? Letters are grouped by their error;
 * retry and discard are for one, some, a group, or all that match. */
import { html, useState } from './ui.js';
import { Ago, At, Button, Empty, Facts, Head, Mono, None, Panel, Spark, Trouble } from './parts.js';
import { Field, Filter, Pager, Pick, SINCE, sinceMs, Table, TableBones, usePicks } from './table.js';
import { Body } from './body.js';
import { Confirm, useActions } from './confirm.js';
import { now, query, useFeed } from './api.js';
import { keyText, link, messageLink, refine, route } from './route.js';
import { useKeys } from './keys.js';
import { show } from './safe.js';
import * as F from './format.js';

const SUB = 'Messages given up on, with all that is needed to try again.';
const textOf = group => group.text || group.cause;

const LETTER_COLS = [
  { h: 'Key', cell: r => html`<${Mono}>${r.key ? keyText(r.key) : r.message_id || '#' + r.id}<//>` },
  { h: 'Error', hide: 's', cls: 'clip', cell: r => html`<span class="mono dim">${show(r.error)}</span>` },
  { h: 'Type', hide: 'm', cell: r => r.type ? show(r.type) : html`<${None} />` },
  { h: 'Attempts', num: true, hide: 'm', cell: r => F.int(r.attempts || 0) },
  { h: 'Given up', num: true, cell: r => html`<${Ago} t=${r.at} />` }
];

const Group = ({ group, chosen, query: kept }) => html`<li><a class="group" aria-current=${chosen ? 'true' : null}
  href=${link(chosen ? ['dead'] : ['dead', 'g', group.cause], kept)}><span
    class="group-n">${F.short(group.letters)}</span>
  <span class="group-b"><span class="group-e mono">${show(textOf(group))}</span>
    <span class="group-m"><span>${show(group.origin)} <b>${show(group.name)}</b></span>${(Array.isArray(group.types)
      ? group.types : [group.types]).filter(Boolean).slice(0, 3).map(type => html`<span>${show(type)}</span>`)}</span>
        </span>
  <span class="group-s"><${Spark} values=${group.spark} tone="fail" bars width=${120} /></span>
  <span class="group-t"><${Ago} t=${group.last_ms} /><i>first <${Ago} t=${group.first_ms} /></i></span></a></li>`;

/* The letters of one group, or of all; retry and discard for those that were selected, else for the whole. */
const Letters = ({ filter, group, groups, until, actions, onAct, after }) => {
  const [page, setPage] = useState([]), picks = usePicks();
  const at = page[page.length - 1] || after;
  const path = 'dead' + query({ ...filter, until_id: until, after: at });
  const feed = useFeed(path, 2000), rows = feed.data ? feed.data.letters : null;
  const some = picks.all.length, count = group ? group.letters : groups.total;
  const act = verb => onAct(verb, some ? picks.all : null, group);
  useKeys({ r: () => actions.ready && act('dead.retry'), D: () => actions.ready && act('dead.discard') });
  const older = feed.data && feed.data.next ? () => { setPage([...page, feed.data.next]); picks.set([]); } : null;
  const newer = page.length ? () => { setPage(page.slice(0, -1)); picks.set([]); } : null;
  const n = F.int(some || count);
  return html`<section class="panel group-open" aria-label="Letters"><header class="panel-head tall"><div>
    <h2 class=${group ? 'mono' : ''}>${group ? show(textOf(group)) : 'All letters'}</h2><span class="note">${group
      ? html`${F.plural(group.letters, 'letter')} of ${show(group.origin)} ${show(group.name)}, last <${Ago}
        t=${group.last_ms} />`
      : F.plural(count, 'letter')}${some ? html`, <b>${F.int(some)} selected</b>` : ''}</span></div><span class="grow">
        </span>
    <${Button} disabled=${!actions.ready} title=${actions.why || 'Shift d'} id="discard"
      onClick=${() => act('dead.discard')}>Discard ${n}…<//>
    <${Button} kind="primary" glyph="replayed" disabled=${!actions.ready} title=${actions.why || 'r'} id="retry"
      onClick=${() => act('dead.retry')}>Retry ${n}…<//></header>
    ${feed.error && html`<${Trouble} feed=${feed} />`}
    ${rows ? html`<${Table} main label="Letters" picks=${picks} idOf=${r => r.id} nameOf=${r => keyText(r.key) || r.id}
      rows=${rows} cols=${LETTER_COLS} to=${r => link(['dead', String(r.id)])}
      foot=${html`<${Pager} text=${F.plural(rows.length, 'row') + (count > rows.length ? ` of ${F.int(count)}` : '')}
        older=${older} newer=${newer} />`} />` : !feed.error && html`<${TableBones} cols=${LETTER_COLS}
          label="Letters" />`}
    </section>`;
};

const namesOf = (groups, pick) => [...new Set((groups || []).map(pick).flat().filter(Boolean))].sort();

export const Dead = ({ cause, filter }) => {
  const { inbox, outbox, error, type, since } = filter, from = sinceMs(since, now());
  const asked = { inbox, outbox, error, type, since: from };
  const feed = useFeed('dead/groups' + query(asked), 2000), { data } = feed, actions = useActions();
  const [doing, setDoing] = useState(null);
  const groups = data ? data.groups : [], group = cause ? groups.find(g => g.cause === cause) : null;
  const act = (action, ids, of) => setDoing({
    action, ids, listed: now(),
    filter: ids ? {} : { ...Object.fromEntries(Object.entries(asked).filter(([, v]) => v)),
      ...(of ? { cause: of.cause } : {}), until_id: data.until_id },
    labels: ids ? { text: of ? textOf(of) : '' } : { inbox: of && of.origin !== 'outbox' ? of.name : inbox,
      outbox: of && of.origin === 'outbox' ? of.name : outbox, text: of ? textOf(of) : error, type, since: from }
  });
  const filtered = inbox || outbox || error || type || since;
  const actionsHead = data && data.total > 0 && html`<${Button} glyph="replayed" disabled=${!actions.ready}
    title=${actions.why} onClick=${() => act('dead.retry', null, null)}>Retry all ${F.int(data.total)}…<//>`;
  const places = [['', 'Everywhere'], ...namesOf(groups, g => (g.origin === 'outbox' ? 'outbox '
    : '') + g.name).map(n => [n, n])];
  const place = outbox ? 'outbox ' + outbox : inbox;
  const choose = v => refine(v.startsWith('outbox ') ? { inbox: '', outbox: v.slice(7) } : { inbox: v, outbox: '' });
  const types = [['', 'Any type'], ...namesOf(groups, g => g.types).map(n => [n, n])];
  if (data && !data.total && !filtered) return html`<${Head} title="Dead letters" sub=${SUB} /><${Panel}><${Empty}
    title="No dead letters">Every message was handled or is still being retried. Messages that fail too often are listed
    here, grouped by error.<//><//>`;
  return html`<${Head} title="Dead letters" sub=${data ? `${F.int(data.total)} in ${F.plural(groups.length,
    'group')}. ${SUB}`
      : SUB} actions=${actionsHead} />
    <${Panel} flush><${Filter} count="bars: last 24 h"><${Pick} label="Where" of=${places} value=${place}
        onChange=${choose} /><${Field} label="Error contains" value=${error}
        onChange=${v => refine({ error: v })} /><${Pick} label="Type" of=${types} value=${type}
        onChange=${v => refine({ type: v })} /><${Pick} label="Since" of=${SINCE} value=${since}
        onChange=${v => refine({ since: v })} /><//>
      ${feed.error && html`<${Trouble} feed=${feed} />`}
      ${data ? html`<ul class="groups" aria-label="Groups by error">${groups.map(g => html`<${Group} key=${g.cause}
        group=${g} chosen=${g.cause === cause} query=${route.get().query} />`)}</ul>`
        : !feed.error && html`<${TableBones} cols=${LETTER_COLS.slice(0, 2)} n=${3} label="Groups" />`}
      ${data && !groups.length && html`<${Empty} title="No letters match" action=${html`<${Button}
        onClick=${() => refine({ inbox: '', outbox: '', error: '', type: '',
          since: '' })}>Clear filter<//>`}>No dead letter matches
        this filter.<//>`}<//>
    ${data && groups.length > 0 && cause && !group && html`<${Panel}><${Empty}
      title="This group is gone">Its letters were
      retried or discarded; the <a class="link" href="#/audit">audit</a> has it.${' '}<a class="link" href="#/dead">All
      letters</a><//><//>`}
    ${data && groups.length > 0 && (group || !cause) && html`<${Letters} key=${cause || 'all'} filter=${{ ...asked,
      cause: cause || '' }}
      group=${group} groups=${data} until=${data.until_id} actions=${actions} onAct=${act} />`}
    ${doing && html`<${Confirm} ...${doing} onClose=${() => setDoing(null)} onDone=${() => feed.again()} />`}`;
};

/* --- one letter --------------------------------------------------------------------------------------------------- */

export const Letter = ({ id }) => {
  const feed = useFeed('dead/' + encodeURIComponent(id), 5000), actions = useActions(), [doing,
    setDoing] = useState(null);
  const data = feed.data && (feed.data.letter || feed.data), gone = feed.error && feed.error.status === 404;
  const act = action => setDoing({ action, ids: [Number(id)], listed: now(), labels: { text: data.error } });
  const ready = actions.ready && data && !gone;
  useKeys({ r: () => ready && act('dead.retry'), D: () => ready && act('dead.discard') });
  const message = data && data.message, key = data && keyText(data.key);
  const facts = data && [['Where', html`${show(data.origin)} <b>${show(data.name)}</b>`],
    key && ['Key', data.origin === 'outbox' ? html`<${Mono}>${key}<//>`
      : html`<a class="link mono" href=${messageLink(data.name, data.key)}>${show(key)}</a>`],
    ['Given up', html`<${At} t=${data.at} full />`], ['Attempts', F.int(data.attempts || 0)],
    data.type && ['Type', show(data.type)], message && message.id && ['Id', show(message.id), true],
    data.cause && ['Cause', show(data.cause), true]];
  return html`<${Head} crumbs=${[['Dead letters', '#/dead']]} title=${'Letter ' + id} sub=${data
    ? html`${show(data.origin)}
      ${' '}${show(data.name)}` : ' '} actions=${data && !gone && html`<${Button} disabled=${!ready}
        title=${actions.why}
      onClick=${() => act('dead.discard')}>Discard…<//><${Button} kind="primary" glyph="replayed" disabled=${!ready}
      title=${actions.why} onClick=${() => act('dead.retry')}>Retry…<//>`} />
    ${gone ? html`<${Panel}><${Empty} title="This letter is gone">It was retried or discarded; the${' '}
      <a class="link" href="#/audit">audit</a> has it.<//><//>` : feed.error && html`<${Panel} flush><${Trouble}
        feed=${feed} /><//>`}
    ${data && !gone && html`<div class="cols msg"><div class="rail"><${Panel} title="Error"><p class="mono wrap">
        ${show(data.error)}</p><//><${Panel} title="Facts"><${Facts} of=${facts} /><//></div>
      <div class="rail wide">${message && message.body && html`<${Body} body=${message.body}
        contentType=${message.content_type} />`}${message && message.headers && message.headers.length > 0
        && html`<${Panel} title="Headers" note=${message.headers.length} flush><table class="kv" aria-label="Headers">
          <tbody>
        ${message.headers.map(([n, v]) => html`<tr><th scope="row">${show(n)}</th><td>${show(v)}</td></tr>`)}</tbody>
        </table><//>`}</div></div>`}
    ${doing && html`<${Confirm} ...${doing} onClose=${() => setDoing(null)} onDone=${() => feed.again()} />`}`;
};
