/* Which clients retry or reuse keys? Which answers are unknown? */
import { html } from './ui.js';
import { G } from './glyphs.js';
import { Ago, Empty, Head, Mono, Panel, Rate, State, Took, Trouble, Zero } from './parts.js';
import { Table, TableBones } from './table.js';
import { useFeed } from './api.js';
import { keyText, link, messageLink } from './route.js';
import { show } from './safe.js';
import * as F from './format.js';

const sum = (row, names) => names.reduce((all, name) => all + ((row.outcomes || {})[name] || 0), 0);
const N = (names, tone) => row => {
  const n = sum(row, names);
  return n ? html`<span class=${tone ? 't-' + tone : ''} title=${F.int(n)}>${F.short(n)}</span>` : html`<${Zero} />`;
};
const methods = row => Array.isArray(row.methods) ? row.methods.join(', ') : row.methods || '';

const COLS = [
  { h: 'Route', cls: 'two', cell: r => html`<b class="mono">${show(methods(r) + ' ' + r.path)}</b>
    <span class="under">${show(r.kind)}${r.to ? html` to ${show(r.to)}` : ''}, ${r.kind === 'proxy'
      ? html`<a class="link" href=${link(['inboxes', 'gateway.' + r.name])}>keys of ${show(r.name)}</a>`
      : show(r.name)}</span>` },
  { h: 'Now', num: true, cell: r => html`<${Rate} n=${r.rate} />` },
  { h: 'First', num: true, hide: 's', tip: 'Requests that had an effect', cell: N(['executed', 'accepted']) },
  { h: 'Replayed', num: true, tip: 'Answered with the stored response, or taken as a copy', cell: N(['replayed'],
    'dup') },
  { h: '409', num: true, hide: 'm', tip: 'The first request was still in flight', cell: N(['conflict']) },
  { h: '422', num: true, hide: 'm', tip: 'Other content under a known key', cell: N(['mismatch'], 'fail') },
  { h: '400', num: true, hide: 'm', tip: 'No key, or a request that cannot be read', cell: N(['missing_key',
    'bad_request']) },
  { h: 'Signature', num: true, hide: 'm', tip: 'The signature did not hold', cell: N(['bad_signature'], 'fail') },
  { h: 'Refused', num: true, hide: 'm', tip: 'Too many, too large, or not available',
    cell: N(['limited', 'too_large', 'unavailable']) },
  { h: 'Unknown', num: true, hide: 's', tip: 'The upstream died in the middle: nobody knows whether it ran',
    cell: N(['unknown'], 'warn') },
  { h: 'p99', num: true, hide: 'm', cell: r => html`<${Took} ms=${r.p99_ms} />` }
];
const FLIGHT_COLS = [
  { h: 'Caller and key', cls: 'two', cell: r => html`<a class="link"
    href=${messageLink('gateway.' + r.route, r.key)}><${Mono}>${keyText(r.key)}<//></a><span
    class="under">${show(r.route)}${
    r.waiting ? `, ${F.plural(r.waiting, 'copy waits', 'copies wait')} for the answer` : ''}</span>` },
  { h: 'State', cell: r => html`<${State} of=${r.state} />` },
  { h: 'For', num: true, cell: r => html`<${Ago} t=${r.since} bare />` }
];

const How = () => html`<${Panel} title="How copies are answered"><dl class="answers">
  <dt>${G('processed')}<b>first</b></dt><dd>forwarded once; status, chosen headers and body are stored</dd>
  <dt>${G('replayed', 't-dup')}<b>replayed</b></dt><dd>the stored answer, with <span class="mono">Idempotent-Replayed:
    true</span></dd><dt>${G('progress')}<b>409</b></dt><dd>the first one is in flight: <span
      class="mono">Retry-After</span></dd>
  <dt>${G('mismatch', 't-fail')}<b>422</b></dt><dd>other content under the same key</dd>
  <dt>${G('unknown', 't-warn')}<b>unknown</b></dt><dd>the upstream died in the middle; never taken for “not run”</dd>
    </dl><//>`;

export const Gateway = () => {
  const feed = useFeed('gateway', 2000), { data } = feed, routes = data && data.routes, flight = data && data.in_flight
    || [];
  return html`<${Head} title="Gateway" sub=${data && data.listen
    ? html`<${Mono}>${data.listen}<//>, ${F.plural(routes.length,
      'route')}, counts since the start` : 'HTTP requests that take effect once.'} />
    ${feed.error && html`<${Panel} flush><${Trouble} feed=${feed} /><//>`}
    ${!routes ? !feed.error && html`<${Panel} flush title="Routes"><${TableBones} cols=${COLS} n=${4} label="Routes" />
      <//>`
    : !routes.length ? html`<${Panel}><${Empty} title="No route yet"
      cmd="semel config explain gateway.routes">The gateway
      receives webhooks once, and makes an HTTP service behind it idempotent. Add a route to the config:<//><//>`
    : html`<${Panel} flush title="Routes" note=${routes.length}><${Table} main label="Routes" cols=${COLS}
      rows=${routes}
        idOf=${r => r.name} /><//><div class="cols even wide-left"><${Panel} flush title="Keys in flight"
        note=${flight.length || ''}>${flight.length ? html`<${Table} label="Keys in flight" cols=${FLIGHT_COLS}
          rows=${flight} />` : html`<p class="panel-body dim">No request waits for its answer.</p>`}<//><${How} />
            </div>`}`;
};
