/* What is unsent, since when, and what is in its way? And of queues: where do messages pile up, and who reads them? */
import { html, useState } from './ui.js';
import { G } from './glyphs.js';
import { Ago, Button, Count, Empty, Grade, Head, Mono, None, Panel, Rate, Spark, State, Trouble,
  Unknown } from './parts.js';
import { Pager, Table, TableBones, usePicks } from './table.js';
import { Confirm, useActions } from './confirm.js';
import { now, query, useFeed } from './api.js';
import { keyText, link, route } from './route.js';
import { show } from './safe.js';
import * as F from './format.js';

const ageOf = (value, t) => value === null || value === undefined ? null : value > 1e11 ? Math.max(0, t - value)
  : value;
const Oldest = ({ row, waiting }) => {
  const age = ageOf(row.oldest_ms, now());
  if (!waiting) return html`<${None} />`;
  if (age === null) return html`<${Unknown} why="A broker does not tell the age of its oldest message" />`;
  return html`<span class=${age > 60e3 ? 'strong' : ''}>${F.dur(age)}</span>`;
};

const COLS = [
  { h: 'Outbox', cls: 'two', cell: r => html`<b>${show(r.name)}</b><span class="under">${r.to
    ? html`to ${show(r.to)}` : ' '}</span>` },
  { h: 'State', cls: 'two', cell: r => html`<${State} of=${r.state} text=${r.state === 'ok' ? 'sending' : null} />
    <span class="under clip-s" title=${r.error}>${r.error ? show(r.error) : ' '}</span>` },
  { h: 'Unsent', num: true, cell: r => html`<${Count} n=${r.unsent} />` },
  { h: 'Oldest', num: true, cell: r => html`<${Oldest} row=${r} waiting=${r.unsent} />` },
  { h: 'Sent', num: true, hide: 's', cell: r => html`<${Rate} n=${r.sent_rate} />` },
  { h: 'Failed', num: true, hide: 'm', cell: r => html`<${Rate} n=${r.failed_rate} tone="fail" />` },
  { h: 'last hour', hide: 'm', cls: 'tight', tip: 'Sent, by the minute',
    cell: r => html`<${Spark} values=${r.spark} tone="plot" />` },
  { h: 'Grade', hide: 'm', cell: r => html`<${Grade} n=${r.grade} name=${r.grade_name} />` }
];
const RELAY_COLS = [
  { h: 'Relay', cell: r => html`<b>${show(r.host || r.process)}</b>${r.pid ? html` <span
    class="dim">pid ${r.pid}</span>` : ''}` },
  { h: 'Outbox', cell: r => show(r.outbox) },
  { h: 'Process', hide: 's', cell: r => html`<${Mono} cls="dim">${r.process}<//>` }
];

const Stuck = ({ row }) => html`<section class="panel stuck" aria-label=${'Outbox ' + row.name}><header
  class="panel-head">
  ${G(row.state === 'unreachable' ? 'failed' : 'warn', row.state === 'unreachable' ? 't-fail' : 't-warn')}
  <h2>${show(row.name)}: ${row.state === 'unreachable' ? 'the broker is unreachable' : 'the head waits'}</h2>
  <span class="grow"></span><a class="btn small" href=${link(['outboxes', row.name])}><span>Show messages</span></a>
    </header>
  <div class="panel-body"><dl class="facts"><dt>Unsent</dt><dd>${F.int(row.unsent || 0)}, the oldest for${' '}
    ${F.dur(ageOf(row.oldest_ms, now()) || 0)}</dd>${row.error && html`<dt>Error</dt><dd
      class="mono">${show(row.error)}</dd>`}
  <dt>Meaning</dt><dd>Committed messages wait here and are sent when the way is free; nothing is lost.</dd></dl></div>
    </section>`;

export const Outboxes = () => {
  const feed = useFeed('outboxes', 2000), rows = feed.data && feed.data.outboxes;
  const relays = (rows || []).flatMap(o => (o.relays || []).map(r => ({ ...r, outbox: o.name })));
  const processes = new Set(relays.map(r => r.process || r.pid)).size;
  return html`<${Head} title="Outboxes and relays" sub="What was committed and has yet to be confirmed by a broker." />
    ${feed.error && html`<${Panel} flush><${Trouble} feed=${feed} /><//>`}
    ${!rows ? !feed.error && html`<${Panel} flush title="Outboxes"><${TableBones} cols=${COLS} n=${4}
      label="Outboxes" /><//>`
    : !rows.length ? html`<${Panel}><${Empty} title="No outbox yet" cmd="semel config explain outboxes">An outbox holds
      messages that commit with a business change, until a relay has sent them.<//><//>`
    : html`<${Panel} flush title="Outboxes" note=${rows.length}><${Table} main label="Outboxes" cols=${COLS}
      rows=${rows}
        idOf=${r => r.name} to=${r => link(['outboxes', r.name])} /><//>
      ${rows.filter(r => r.state === 'stuck' || r.state === 'unreachable').map(r => html`<${Stuck} row=${r} />`)}
      ${relays.length > 0 && html`<${Panel} flush title="Relays" note=${`${relays.length} in ${F.plural(processes,
        'process', 'processes')}`}><${Table} label="Relays" cols=${RELAY_COLS} rows=${relays} /><//>`}`}`;
};

const ROW_COLS = [
  { h: 'Message', cls: 'two', cell: r => html`<span class="mono">${show(r.id)}</span>
    <span class="under">${r.type ? show(r.type) : 'no type'}${r.topic && r.topic !== r.type
      ? html`, topic ${show(r.topic)}`
    : ''}</span>` },
  { h: 'State', cls: 'two', cell: r => html`<${State} of=${r.error ? 'waiting' : r.leased ? 'progress' : 'ok'}
    text=${r.error ? null : r.leased ? 'in flight' : 'waits'} /><span class="under clip-s" title=${r.error}>${r.error
    ? show(r.error) : ' '}</span>` },
  { h: 'Group', hide: 'm', cell: r => r.group ? html`<${Mono}>${keyText(r.group)}<//>` : html`<${None} />` },
  { h: 'Attempts', num: true, hide: 's', cell: r => F.int(r.attempts || 0) },
  { h: 'Committed', num: true, cell: r => html`<${Ago} t=${r.captured_ms} />` },
  { h: 'Due', num: true, hide: 'm', cell: r => !r.due_ms || r.due_ms <= now() ? 'now'
    : 'in ' + F.dur(r.due_ms - now()) }
];

export const Outbox = ({ name, filter }) => {
  const feed = useFeed(`outboxes/${encodeURIComponent(name)}` + query({ after: filter.after }), 2000), { data } = feed;
  const actions = useActions(), picks = usePicks(), [doing, setDoing] = useState(null);
  const rows = data && data.rows, some = picks.all.length;
  const one = some === 1 && rows ? rows.find(r => r.seq === picks.all[0]) : null;
  const skip = () => setDoing({ action: 'outbox.skip', filter: { outbox: name, id: one.id }, listed: now() });
  const requeue = () => setDoing({ action: 'outbox.requeue', filter: { outbox: name }, listed: now() });
  const older = data && data.next && (() => { location.hash = link(['outboxes', name], { ...route.get().query,
    after: String(data.next) }).slice(1); });
  return html`<${Head} crumbs=${[['Outboxes', '#/outboxes']]} title=${name} sub="Unsent messages, the oldest first."
      actions=${html`<${Button} disabled=${!actions.ready || !one} title=${actions.why || (one ? ''
        : 'Select one message first')}
        onClick=${skip}>Skip…<//><${Button} disabled=${!actions.ready}
        title=${actions.why} onClick=${requeue}>Send now…<//>`} />
    <${Panel} flush>${feed.error && html`<${Trouble} feed=${feed} />`}
    ${!rows ? !feed.error && html`<${TableBones} cols=${ROW_COLS} label="Messages" />` : rows.length ? html`<${Table}
      main
      label=${'Unsent messages of ' + name} picks=${picks} idOf=${r => r.seq} nameOf=${r => r.id} cols=${ROW_COLS}
      rows=${rows} foot=${html`<${Pager} text=${F.plural(rows.length, 'row')} older=${older}
        newer=${filter.after && (() => history.back())} />`} />`
      : html`<${Empty} title="Nothing is unsent">All that was committed has been confirmed.<//>`}<//>
    ${doing && html`<${Confirm} ...${doing} onClose=${() => { setDoing(null); picks.set([]); }}
      onDone=${() => feed.again()} />`}`;
};
