/* Are messages moving? Is anything wrong now? What has been resolved? */
import { html } from './ui.js';
import { G } from './glyphs.js';
import { Activity, ActivityBones } from './activity.js';
import { until } from './series.js';
import { Bones, Button, Empty, Grade, Head, Panel, State } from './parts.js';
import { now } from './api.js';
import { second, useCell, zone } from './state.js';
import { show } from './safe.js';
import * as F from './format.js';

const DAY = 86400e3;
const SEVERITY = {
  unreachable: ['failed', 't-fail', 'bad'], dead: ['dead', 't-fail', ''], stuck: ['warn', 't-warn', ''],
  config: ['warn', 't-warn', ''], resolved: ['ok', 't-quiet', 'over']
};
const ORDER = ['unreachable', 'dead', 'stuck', 'config', 'resolved'];
const hrefOf = item => /^#\//.test(item.link || '') ? item.link : '#/config';

const Attention = ({ data }) => {
  const items = [...data.attention || []].sort((a, b) => ORDER.indexOf(a.severity) - ORDER.indexOf(b.severity));
  const item = x => {
    const [glyph, tone, cls] = SEVERITY[x.severity] || SEVERITY.config;
    return html`<li class=${cls}><a href=${hrefOf(x)}>${G(glyph, tone)}<span>${x.title
      && html`<b>${show(x.title)}</b> `}
      ${show(x.text)}</span></a></li>`;
  };
  const calm = html`<p class="calm">${G('ok')}<span>Nothing needs attention. No dead letters, nothing waits longer than
    it
    should, all stores and brokers answer.</span></p>`;
  return html`<${Panel} title="Needs attention" flush cls="attention">${items.some(x => x.severity !== 'resolved') ? ''
    : calm}${items.length ? html`<ul class="items">${items.map(item)}</ul>` : ''}<//>`;
};

const Health = ({ data }) => {
  const entry = x => {
    const bad = x.state !== 'ok';
    return html`<li><div class="health-top"><b>${show(x.name)}</b><span class="mono dim">${show(x.url)}</span>
      <span class="grow"></span><${State} of=${x.state} /></div>
      <div class="health-sub"><${Grade} n=${x.grade} name=${x.grade_name} /><span class="grow"></span>
      <span title=${x.text}>${bad ? (x.since ? 'since ' + F.when(x.since, now()) : '')
        : x.ping_ms === null || x.ping_ms === undefined ? '' : F.dur(x.ping_ms)}</span></div></li>`;
  };
  return html`<${Panel} title="Stores and brokers" flush actions=${html`<a class="more" href="#/config">Checks</a>`}>
    <ul class="health">${(data.stores || []).map(entry)}</ul><//>`;
};

const Tile = ({ href, label, value, unit, sub, tone, glyph, old }) => html`<a class=${'tile' + (old ? ' old' : '')}
  href=${href}><span class="tile-l">${G(glyph, tone ? 't-' + tone : '')}${label}</span>
  <span class="tile-v"><b>${value}</b>${unit && html`<span>${unit}</span>`}</span><span class="tile-s">${sub}</span>
    </a>`;

/* "4 min 12 s" as a number and its unit. */
const split = text => { const [, value, unit] = /^(\S+?)\u202F(.*)$/.exec(text) || [null, text, '']; return [value,
  unit]; };
const ageOf = (outbox, t) => !outbox || !outbox.oldest_ms ? null
  : outbox.oldest_ms > 1e11 ? Math.max(0, t - outbox.oldest_ms) : outbox.oldest_ms;

const span = data => {
  const since = data.totals_since;
  if (!since || data.now - since > DAY - 120e3) return ['last 24 h', 'in 24 h'];
  return ['since ' + F.when(since, data.now), 'since ' + F.when(since, data.now)];
};

const Hero = ({ data }) => {
  const totals = data.totals || {}, { suppressed = 0, processed = 0 } = totals, [head] = span(data);
  const sentence = !suppressed ? (processed ? 'No copy has arrived yet.' : 'No message has arrived yet.')
    : `One delivery in ${F.int(Math.max(1, (suppressed + processed) / suppressed))} was a copy; none ran.`;
  return html`<div class="hero"><span class="hero-l">${G('duplicate', 't-dup')}Duplicates suppressed, ${head}</span>
    <span class=${'hero-v' + (suppressed > 99999999 ? ' long' : '')}>${F.int(suppressed)}</span>
    <span class="hero-s">${sentence}</span></div>`;
};

const asOf = at => 'as of ' + F.hms(at);
const Tiles = ({ data, down }) => {
  const { rates = {}, totals = {}, outbox = {}, dead = {} } = data, [, inSpan] = span(data);
  const age = ageOf(outbox, data.now), [value, unit] = age === null ? [F.NONE, ''] : split(F.dur(age));
  const late = age !== null && age > 60e3;
  return html`<${Tile} href="#/inboxes" label="Failed" glyph="failed" tone=${rates.failed ? 'fail' : ''}
      value=${F.rate(rates.failed || 0)} unit="/s" sub=${F.int(totals.failed || 0) + ' ' + inSpan} />
    <${Tile} href="#/outboxes" label="Outbox lag" glyph="send" old=${down} unit="unsent"
      value=${outbox.unsent === null || outbox.unsent === undefined ? F.NONE : F.int(outbox.unsent)}
      sub=${down && outbox.at ? asOf(outbox.at) : F.int(totals.sent || 0) + ' sent ' + inSpan} />
    <${Tile} href="#/outboxes" label="Oldest unsent" glyph="clock" tone=${late ? 'warn' : ''} old=${down} value=${value}
      unit=${unit} sub=${down && outbox.at ? asOf(outbox.at) : age === null ? 'nothing waits' : late
        ? 'waits for a broker'
        : 'on its way'} />
    <${Tile} href="#/dead" label="Dead letters" glyph="dead" tone=${dead.letters ? 'fail' : ''} old=${down}
      value=${dead.letters === null || dead.letters === undefined ? F.NONE : F.int(dead.letters)}
      sub=${down && dead.at ? asOf(dead.at) : dead.letters ? F.int(totals.dead || 0) + ' ' + inSpan : 'none'} />`;
};

const LABELS = [['Failed', 'failed'], ['Outbox lag', 'send'], ['Oldest unsent', 'clock'], ['Dead letters', 'dead']];
const Loading = ({ phone }) => html`<${Head} title="Overview" sub=${html`<span class="bone w2 inline"></span>`} />
  <div class="hero-row" aria-busy="true"><div class="hero"><span class="hero-l">${G('duplicate', 't-dup')}Duplicates
    suppressed</span><span class="hero-v"><span class="bone hero-bone"></span></span>
    <span class="hero-s"><span class="bone w3 inline"></span></span></div>
  ${LABELS.map(([label, glyph]) => html`<div class="tile"><span class="tile-l">${G(glyph)}${label}</span>
    <span class="tile-v"><span class="bone tile-bone"></span></span>
    <span class="tile-s"><span class="bone w2 inline"></span></span></div>`)}</div>
  <div class="cols"><${ActivityBones} phone=${phone} /><div class="rail">
    <${Panel} title="Needs attention" cls="hold-a"><${Bones} n=${6} /><//>
    <${Panel} title="Stores and brokers" cls="hold-h"><${Bones} n=${5} /><//></div></div>`;

const publish = `semel publish orders --type order.placed --copies 3 '{"order_id": 7}'`;
const Nothing = () => html`<${Panel} title="Activity"><${Empty} title="No messages yet" cmd=${publish}>Publish a message
  three times and watch two copies being suppressed:<//><//>`;

const where = ({ process: p = {}, processes }) => [p.host || p.id, p.since && 'up ' + F.dur(Math.max(1000,
  now() - p.since)),
  processes > 1 && F.plural(processes, 'process', 'processes')].filter(Boolean).join(', ');

export const Overview = ({ feed, phone, stale, down }) => {
  useCell(second);
  useCell(zone);
  const { data } = feed;
  if (!data) {
    if (feed.fails < 4) return html`<${Loading} phone=${phone} />`;
    return html`<${Head} title="Overview" /><${Panel}><${Empty} title="No answer yet"
      action=${html`<${Button} onClick=${() => feed.again()}>Try now<//>`}>${show(feed.error ? feed.error.title
        : '')}.<//><//>`;
  }
  const { totals = {} } = data, moved = totals.processed || totals.suppressed || totals.failed || totals.sent
    || totals.dead;
  const shown = { ...data, storedAt: stale ? feed.at : data.outbox && data.outbox.at };
  if (stale) shown.minute = until(data.minute, now());
  return html`<${Head} title="Overview" sub=${show(where(data))} />
    <div class="hero-row"><${Hero} data=${data} /><${Tiles} data=${data} down=${down} /></div>
    <div class="cols">${moved && data.minute ? html`<${Activity} data=${shown} phone=${phone} stale=${stale}
      down=${down} />`
      : html`<${Nothing} />`}<div class="rail"><${Attention} data=${data} /><${Health} data=${data} /></div></div>`;
};
