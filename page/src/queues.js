/* Where do messages pile up? Is anybody reading the queue? */
import { html, useState } from './ui.js';
import { Button, Count, Empty, Head, None, Panel, Rate, State, Trouble, Unknown } from './parts.js';
import { Table, TableBones } from './table.js';
import { Confirm, useActions } from './confirm.js';
import { now, useFeed } from './api.js';
import { show } from './safe.js';
import * as F from './format.js';

const NOT_TOLD = 'A broker does not tell it';
const list = names => (names || []).map(n => typeof n === 'string' ? n : n.name).filter(Boolean);
const Oldest = ({ row }) => {
  const t = row.oldest_ms;
  if (t === null || t === undefined) return row.ready ? html`<${Unknown} why=${NOT_TOLD} />` : html`<${None} />`;
  return F.dur(t > 1e11 ? Math.max(0, now() - t) : t);
};

const colsOf = (actions, purge) => [
  { h: 'Queue', cls: 'two', cell: r => html`<b>${show(r.name)}</b><span class="under">${show(r.at || '')}${r.at ? ', '
    : ''}
    ${r.kind === 'store' ? 'in the store' : 'at a broker'}</span>` },
  { h: 'Read by', cls: 'two', hide: 's', cell: r => html`${list(r.readers).length ? show(list(r.readers).join(', '))
    : html`<${State} of="warn" text="nobody" />`}<span class="under">${r.warning ? show(r.warning)
    : list(r.writers).length ? html`written by ${show(list(r.writers).join(', '))}` : ' '}</span>` },
  { h: 'Ready', num: true, cell: r => html`<${Count} n=${r.ready} why=${NOT_TOLD} />` },
  { h: 'In flight', num: true, cell: r => html`<${Count} n=${r.leased} why=${NOT_TOLD} />` },
  { h: 'Delayed', num: true, hide: 'm', cell: r => html`<${Count} n=${r.delayed} why=${NOT_TOLD} />` },
  { h: 'Oldest', num: true, hide: 's', cell: r => html`<${Oldest} row=${r} />` },
  { h: 'Out', num: true, hide: 's', cell: r => html`<${Rate} n=${r.out_rate} />` },
  { h: '', label: 'Actions', cls: 'acts', hide: 's', cell: r => r.kind === 'store' ? html`<${Button} small
    disabled=${!actions.ready} title=${actions.why} label=${'Purge ' + r.name}
      onClick=${() => purge(r.name)}>Purge…<//>` : '' }
];

export const Queues = () => {
  const feed = useFeed('queues', 2000), rows = feed.data && feed.data.queues, actions = useActions();
  const [purging, setPurging] = useState(null), cols = colsOf(actions, setPurging);
  return html`<${Head} title="Queues" sub="Where messages wait before an inbox." />
    <${Panel} flush>${feed.error && html`<${Trouble} feed=${feed} />`}
    ${!rows ? !feed.error && html`<${TableBones} cols=${cols} n=${4} label="Queues" />` : rows.length ? html`<${Table}
      main
      label="Queues" cols=${cols} rows=${rows} idOf=${r => r.name} />` : html`<${Empty} title="No queue yet"
      cmd="semel config explain queues">A queue lives in the store itself or at a broker.<//>`}<//>
    ${purging && html`<${Confirm} action="queue.purge" filter=${{ queue: purging }} listed=${now()}
      onClose=${() => setPurging(null)} onDone=${() => feed.again()} />`}`;
};
