/* Which handler is slow, failing or flooded with copies? And of one inbox: what arrived, and what became of it? */
import { html } from './ui.js';
import { G } from './glyphs.js';
import { now, query, useFeed } from './api.js';
import { keyText, link, messageLink, refine, route } from './route.js';
import { Field, Filter, Chip, Pager, Pick, SINCE, sinceMs, Table, TableBones, useHeld } from './table.js';
import { Ago, Button, Count, Empty, Grade, Head, Mono, None, Panel, Rate, Spark, State, Strip, stripOf, Took, Trouble,
  Unknown, Zero } from './parts.js';
import { show } from './safe.js';
import * as F from './format.js';

const span = text => show(text || '');
const Dead = ({ row }) => row.dead ? html`<a class="inline-g" href=${link(['dead'], { inbox: row.name })}
  aria-label=${F.plural(row.dead, 'dead letter') + ' of ' + row.name}>${G('dead', 't-fail')}${F.short(row.dead)}</a>`
  : html`<${Zero} />`;

const COLS = [
  { h: 'Inbox', cls: 'two', cell: r => html`<b>${show(r.name)}</b><span class="under">${span(r.handler)}</span>` },
  { h: 'Grade', hide: 'm', cls: 'two', cell: r => html`<${Grade} n=${r.grade} name=${r.grade_name} />
    <span class="under">${show(r.mode)} mode${r.from ? html`, from ${show(r.from)}` : ''}</span>` },
  { h: 'Processed', num: true, hide: 's', cell: r => html`<${Rate} n=${r.processed_rate} />` },
  { h: 'Suppressed', num: true, cell: r => html`<${Rate} n=${r.suppressed_rate} tone="dup" />` },
  { h: 'last hour', hide: 'm', cls: 'tight', tip: 'Suppressed, by the minute',
    cell: r => html`<${Spark} values=${r.spark} />` },
  { h: 'Failed', num: true, hide: 's', cell: r => html`<${Rate} n=${r.failed_rate} tone="fail" />` },
  { h: 'p99', num: true, hide: 'm', cell: r => html`<${Took} ms=${r.p99_ms} />`,
    tip: 'From the beginning of the handler to the commit, 99th percentile' },
  { h: 'Keys kept', num: true, hide: 'm', cls: 'two', cell: r => html`<${Count} n=${r.keys} why="They are counted now
    and then, not for each view" /><span class="under" title=${r.warning}>${r.warning
    ? html`<span class="t-warn inline-g">${G('warn')}</span>` : ''}${r.retention ? 'for ' + F.kept(r.retention)
      : ''}</span>` },
  { h: 'Dead', num: true, cell: r => html`<${Dead} row=${r} />` }
];

export const Inboxes = () => {
  const feed = useFeed('inboxes', 2000), rows = feed.data && feed.data.inboxes;
  return html`<${Head} title="Inboxes" sub="Each key is handled once in each inbox." />
    <${Panel} flush>${feed.error && html`<${Trouble} feed=${feed} />`}
    ${!rows ? !feed.error && html`<${TableBones} cols=${COLS} label="Inboxes" />`
      : rows.length ? html`<${Table} main label="Inboxes" cols=${COLS} rows=${rows} idOf=${r => r.name}
        to=${r => link(['inboxes', r.name])} />`
      : html`<${Empty} title="No inbox yet" cmd="semel init && semel run">An inbox is a name, a queue to read and a
        handler. A config that runs as it is:<//>`}<//>`;
};

/* --- one inbox --------------------------------------------------------------------------------------------------- */

const STATES = [['', 'Any state'], ['processed', 'processed'], ['progress', 'in progress'], ['waiting',
  'waits for retry'],
  ['dead', 'dead'], ['mismatch', 'mismatch'], ['stale', 'stale'], ['outcome_unknown', 'outcome unknown']];

const About = ({ inbox }) => html`<div class="strip-facts">
  <div><span>Grade</span><${Grade} n=${inbox.grade} name=${inbox.grade_name} /></div>
  <div><span>Processed</span><b>${F.rate(inbox.processed_rate || 0)}<i>/s</i></b></div>
  <div><span>Suppressed</span><b class="t-dup">${F.rate(inbox.suppressed_rate || 0)}<i>/s</i></b></div>
  <div><span>Failed</span><b class=${inbox.failed_rate ? 't-fail' : ''}>${F.rate(inbox.failed_rate || 0)}<i>/s</i></b>
    </div>
  <div><span>In progress</span><b>${inbox.in_progress === null || inbox.in_progress === undefined ? F.NONE
    : F.int(inbox.in_progress)}</b></div>
  <div><span>Keys kept</span><b>${inbox.keys === null || inbox.keys === undefined ? html`<${Unknown} />`
    : F.short(inbox.keys)}<i>${inbox.retention ? 'for ' + F.kept(inbox.retention) : ''}</i></b></div>
  <div><span>Key from</span><b class="mono">${show(inbox.key || 'id')}</b></div></div>`;
const AboutBones = () => html`<div class="strip-facts" aria-busy="true">${['Grade', 'Processed', 'Suppressed', 'Failed',
  'In progress', 'Keys kept', 'Key from'].map(name => html`<div><span>${name}</span>
  <b><span class="bone w1 inline"></span></b></div>`)}</div>`;

const MESSAGE_COLS = [
  { h: 'Key', cell: r => html`<${Mono}>${keyText(r.key)}<//>` },
  { h: 'State', hide: 's', cell: r => html`<${State} of=${r.state === 'unknown' ? 'none' : r.state} />` },
  { h: 'Deliveries', cell: r => html`<${Strip} ...${stripOf(r)} />` },
  { h: 'Type', hide: 's', cell: r => r.type ? show(r.type) : html`<${None} />` },
  { h: 'Source', hide: 'm', cell: r => html`<span class="dim">${r.source ? show(r.source) : F.NONE}</span>` },
  { h: 'Took', num: true, hide: 's', cell: r => html`<${Took} ms=${r.took_ms} />` },
  { h: 'First seen', num: true, hide: 'm', cell: r => html`<${Ago} t=${r.first_ms} />` },
  { h: 'Last seen', num: true, cell: r => html`<${Ago} t=${r.last_ms} />` }
];

const NoRows = ({ inbox, filter, data }) => {
  const set = Object.entries(filter).filter(([name, v]) => v && name !== 'before');
  const clear = () => refine({ state: '', type: '', since: '', key: '', source: '', before: '' });
  if (set.length) {
    const known = inbox.keys === null || inbox.keys === undefined ? '' : `This inbox has ${F.short(inbox.keys)} keys; `;
    return html`<${Empty} title="No messages match" action=${html`<${Button} onClick=${clear}>Clear filter<//>`}>
      ${known}${known ? 'the' : 'The'} filter is ${set.map(([name, v]) => name + ' ' + v).join(', ')}.<//>`;
  }
  const off = data.from === 'markers';
  return html`<${Empty} title=${off ? 'Nothing is recorded' : 'Nothing here yet'} cmd=${inbox.from
    && `semel publish ${inbox.from} '{"order_id": 7}'`}>${off
      ? 'Copies are counted but not recorded: history is off. An exact key is still found.'
      : inbox.from ? 'No message has come to this inbox lately. To see one, publish it:'
        : 'No request has come to this inbox lately: the gateway feeds it.'}<//>`;
};

const pagerText = (rows, inbox) => {
  const first = rows[0].last_ms, end = rows[rows.length - 1].last_ms;
  const about = inbox.keys ? `, of about ${F.short(inbox.keys)} keys` : '';
  return `${F.plural(rows.length, 'row')}, ${F.when(first, now())} back to ${F.when(end, now())}${about}`;
};

export const Inbox = ({ name, filter }) => {
  const { state, type, since, key, source, before } = filter;
  const path = `inboxes/${encodeURIComponent(name)}` + query({ state, type, source, key, before,
    since: sinceMs(since, now()) });
  const feed = useFeed(path, 2000), { data } = feed;
  const held = useHeld(data && data.rows, r => keyText(r.key), path + (before || ''));
  const inbox = data && data.inbox || { name }, rows = held.rows;
  const older = data && data.next && (() => { location.hash = link(['inboxes', name], { ...route.get().query,
    before: String(data.next) }).slice(1); });
  const newer = before && (() => history.back());
  const sub = data && html`${show(inbox.mode)} mode${inbox.from ? html`, from ${show(inbox.from)}` : ''}${inbox.handler
    ? html`, ${show(inbox.handler)}` : ''}`;
  return html`<${Head} crumbs=${[['Inboxes', '#/inboxes']]} title=${name} sub=${sub || ' '} />
    ${data ? html`<${About} inbox=${inbox} />` : html`<${AboutBones} />`}
    <${Panel} flush><${Filter} count=${rows.length ? 'newest first' : ''}>
      <${Field} label="Exact key" mono value=${key} onChange=${v => refine({ key: v, before: '' })} />
      <${Pick} label="State" of=${STATES} value=${state} onChange=${v => refine({ state: v, before: '' })} />
      <${Field} label="Type" value=${type} onChange=${v => refine({ type: v, before: '' })} />
      <${Pick} label="Since" of=${SINCE} value=${since} onChange=${v => refine({ since: v, before: '' })} />
      ${source && html`<${Chip} name="source" value=${source} onRemove=${() => refine({ source: '' })} />`}
      ${held.fresh ? html`<${Button} small onClick=${held.insert} title="Press .">${held.fresh} new<//>` : ''}<//>
      ${feed.error && html`<${Trouble} feed=${feed} />`}
      <div ...${held.watch}>${!data ? !feed.error && html`<${TableBones} cols=${MESSAGE_COLS} n=${10}
        label="Messages" />`
        : rows.length ? html`<${Table} main label=${'Messages of ' + name} cols=${MESSAGE_COLS} rows=${rows}
          idOf=${r => keyText(r.key)} to=${r => messageLink(name, r.key)}
          foot=${html`<${Pager} text=${pagerText(rows, inbox)} older=${older} newer=${newer} />`} />`
        : html`<${NoRows} inbox=${inbox} filter=${filter} data=${data} />`}</div><//>`;
};
