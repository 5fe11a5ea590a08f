/* Is this setup safe? Where does this value come from? And of the audit: who changed something before me? */
import { html, useState } from './ui.js';
import { G } from './glyphs.js';
import { Ago, At, Bones, Button, Empty, Grade, Head, Mono, Panel, Seg, State, Trouble } from './parts.js';
import { Field, Filter, Pager, Pick, SINCE, sinceMs, Table, TableBones } from './table.js';
import { now, query, useFeed } from './api.js';
import { link, refine, route } from './route.js';
import { show } from './safe.js';
import * as F from './format.js';

const GLYPH = { ok: ['ok', 't-quiet'], warn: ['warn', 't-warn'], fail: ['failed', 't-fail'] };
const ORIGIN = { env: 'environment', secret: 'secret', flag: 'flag', file: 'file', default: 'default' };

const checksNote = checks => {
  const failing = checks.filter(c => c.state === 'fail').length,
    warnings = checks.filter(c => c.state === 'warn').length;
  return [failing ? failing + ' failing' : 'ready', warnings && F.plural(warnings,
    'warning')].filter(Boolean).join(', ');
};
const Check = ({ check }) => {
  const [glyph, tone] = GLYPH[check.state] || GLYPH.warn;
  return html`<li class=${check.state === 'fail' ? 'bad' : ''}>${G(glyph, tone)}<div><b>${show(check.what)}</b>
    <span>${show(check.text)}</span>${check.help && html`<em>${show(check.help)}</em>`}</div></li>`;
};

const COLS = [
  { h: 'Name', cell: r => html`<${Mono}>${r.path}<//>` },
  { h: 'Value', cls: 'value', cell: r => r.value === null || r.origin === 'secret'
    ? html`<span class="secret inline-g">${G('lock')}<span>masked</span></span>`
    : html`<${Mono}>${typeof r.value === 'string' ? r.value : JSON.stringify(r.value)}<//>` },
  { h: 'From', hide: 's', cell: r => html`<span class="origin">${ORIGIN[r.origin] || show(r.origin)}</span>` },
  { h: '', label: 'Place', hide: 's', cell: r => html`<${Mono} cls="dim">${r.place || ''}<//>` }
];

export const Config = ({ overview }) => {
  const feed = useFeed('config', 30000), inboxes = useFeed('inboxes', 30000), { data } = feed;
  const [which, setWhich] = useState('set'), [name, setName] = useState('');
  const all = data ? data.values || [] : [], checks = data ? data.checks || [] : [];
  const values = all.filter(v => (which === 'all' || v.origin !== 'default') && v.path.includes(name));
  const grades = inboxes.data ? inboxes.data.inboxes : [], process = overview && overview.process;
  return html`<${Head} title="Config and health" sub=${data ? html`<${Mono}>${data.path}<//>${process && process.since
      ? html`, running for ${F.dur(Math.max(1000, now() - process.since))}` : ''}${process && process.version
      ? `, semel ${process.version}` : ''}` : ' '} />
    ${feed.error && html`<${Panel} flush><${Trouble} feed=${feed} /><//>`}
    <div class="cols even"><${Panel} flush title="Checks" note=${data ? checksNote(checks) : ''}>${data
      ? html`<ul class="checks">${checks.map(check => html`<${Check} check=${check} />`)}</ul>`
      : html`<div class="panel-body"><${Bones} n=${6} /></div>`}<//>
    <${Panel} flush title="Grades" note="store, broker and mode together"><ul class="grades">${grades.map(b => html`<li>
      <b>${show(b.name)}</b><span class="dim">${show(b.mode)}</span><span class="grow"></span><${Grade} n=${b.grade}
      name=${b.grade_name} /></li>`)}</ul>${!inboxes.data && html`<div class="panel-body"><${Bones} n=${4} /></div>`}
      <p class="panel-foot">Claim mode is at most effectively once: across a crash the handler may run again, with the
        same
      key to pass on.</p><//></div>
    <${Panel} flush title="Effective config" note=${data ? F.plural(all.length, 'value') + ', each with its origin'
      : ''}
      actions=${html`<${Seg} label="Values" of=${[['set', 'Set'], ['all', 'All']]} value=${which}
        onChange=${setWhich} />
        <${Field} label="Filter by name" value=${name} onChange=${setName} />`}>${data ? html`<${Table} main
      label="Effective config" cols=${COLS} rows=${values} idOf=${r => r.path} />`
      : html`<${TableBones} cols=${COLS} label="Effective config" />`}<//>`;
};

/* --- audit -------------------------------------------------------------------------------------------------------- */

const Result = ({ text }) => /^refused|^failed|^error/.test(text || '') ? html`<${State} of="failed"
  text=${show(text)} />`
  : show(text || '');
const AUDIT_COLS = [
  { h: 'When', cls: 'two', cell: r => html`<span class="nowrap"><${At} t=${r.at} /></span>
    <span class="under"><${Ago} t=${r.at} /></span>` },
  { h: 'Who', cls: 'two', cell: r => html`<b>${show(r.who || 'unknown')}</b><span
    class="under">${show(r.how)}</span>` },
  { h: 'What', cls: 'two', cell: r => html`<span class="wrap mono">${show(r.what)}</span><span class="under">${r.why
    ? html`“${show(r.why)}”` : ' '}</span>` },
  { h: 'Count', num: true, hide: 's', cell: r => F.int(r.count || 0) },
  { h: 'Result', hide: 's', cell: r => html`<span class="wrap"><${Result} text=${r.result} /></span>` }
];
const WHAT = [['', 'Any action'], ['retry', 'retry'], ['discard', 'discard'], ['forget', 'forget'], ['requeue',
  'requeue'],
  ['skip', 'skip'], ['purge', 'purge']];

export const Audit = ({ filter }) => {
  const { who, what, since, before } = filter;
  const feed = useFeed('audit' + query({ who, what, before, since: sinceMs(since, now()) }), before ? 30000 : 5000);
  const rows = feed.data && feed.data.entries, filtered = who || what || since;
  const older = feed.data && feed.data.next && (() => { location.hash = link(['audit'], { ...route.get().query,
    before: String(feed.data.next) }).slice(1); });
  const nothing = filtered ? html`<${Empty} title="No entry matches" action=${html`<${Button}
      onClick=${() => refine({ who: '', what: '', since: '' })}>Clear filter<//>`}>No action matches this filter.<//>`
    : html`<${Empty} title="Nobody has changed anything by hand">Retries, discards, purges and forgotten keys will be
      listed
      here, with who did it and why.<//>`;
  return html`<${Head} title="Audit" sub="Every action by hand, from this page and from commands." />
    <${Panel} flush><${Filter} count="newest first"><${Field} label="Who" value=${who}
        onChange=${v => refine({ who: v, before: '' })} /><${Pick} label="What" of=${WHAT} value=${what}
        onChange=${v => refine({ what: v, before: '' })} /><${Pick} label="Since" of=${SINCE} value=${since}
        onChange=${v => refine({ since: v, before: '' })} /><//>
      ${feed.error && html`<${Trouble} feed=${feed} />`}
      ${!rows ? !feed.error && html`<${TableBones} cols=${AUDIT_COLS} label="Audit" />` : !rows.length ? nothing
        : html`<${Table} main label="Audit" cols=${AUDIT_COLS} rows=${rows} idOf=${r => r.id}
          foot=${html`<${Pager} older=${older} newer=${before && (() => history.back())} text=${`${F.plural(rows.length,
            'row')}, back to ${F.when(rows[rows.length - 1].at, now())}`} />`} />`}<//>`;
};
