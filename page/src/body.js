/* The body of a message: as JSON, text or bytes. It is what others sent: text nodes only, and the parts of the JSON are
 * taken from the text itself, so that numbers and the order of members stay as they were sent. */
import { html, useMemo, useState } from './ui.js';
import { Copy, Panel, Seg, Button } from './parts.js';
import { show, showText } from './safe.js';
import { size } from './format.js';

const FIRST = 64 * 1024, MANY = 4000; // bytes at first; parts of JSON that are worth an element each

export const bytesOf = base64 => Uint8Array.from(atob(base64 || ''), c => c.charCodeAt(0));
const textOf = bytes => { try { return new TextDecoder('utf-8',
  { fatal: true }).decode(bytes); } catch { return null; } };

/* Indented, without a parser's idea of numbers: white space outside of strings is made anew. */
const PARTS = /"(?:\\.|[^"\\])*"|-?\d[\d.eE+-]*|true|false|null|[{}[\],:]/g;
const indent = text => {
  const out = [];
  let depth = 0, before = '';
  const line = () => '\n' + '  '.repeat(depth);
  for (const [part] of text.matchAll(PARTS)) {
    if (part === '}' || part === ']') { depth--; out.push(before === '{' || before === '[' ? '' : line(), part); }
    else {
      if (before === '{' || before === '[' || before === ',') out.push(line());
      if (part === '{' || part === '[') depth++;
      out.push(part === ':' ? ': ' : part);
    }
    before = part;
  }
  return out;
};
const isJson = text => { try { JSON.parse(text); return true; } catch { return false; } };

const coloured = parts => {
  if (parts.length > MANY) return showText(parts.join(''));
  return parts.map((part, i) => {
    const first = part[0];
    if (first === '"') return html`<span class=${parts[i + 1] === ': ' ? 'j-k' : 'j-s'}>${show(part)}</span>`;
    if (first === '-' || first >= '0' && first <= '9' || first === 't' || first === 'f' || first === 'n')
      return html`<span class="j-n">${part}</span>`;
    return part;
  });
};

const seen = b => b > 31 && b < 127 ? String.fromCharCode(b) : '·';
const hexOf = (bytes, width) => {
  const lines = [];
  for (let i = 0; i < bytes.length; i += width) {
    const row = [...bytes.subarray(i, i + width)];
    const hex = row.map(b => b.toString(16).padStart(2, '0'));
    if (width > 8 && hex.length > 8) hex.splice(8, 0, '');
    lines.push(i.toString(16).padStart(6, '0') + '  ' + hex.join(' ').padEnd(width * 3 + (width > 8 ? 1 : 0)) + ' ' +
      row.map(seen).join(''));
  }
  return lines.join('\n');
};

export const Body = ({ body, contentType }) => {
  const bytes = useMemo(() => bytesOf(body.base64), [body.base64]);
  const text = useMemo(() => textOf(bytes), [bytes]), json = useMemo(() => text !== null && isJson(text), [text]);
  const [chosen, choose] = useState(null), [all, setAll] = useState(false);
  const view = chosen || (json ? 'json' : text !== null ? 'text' : 'hex');
  const part = all ? bytes : bytes.subarray(0, FIRST), cut = part.length < bytes.length;
  const partText = () => cut ? new TextDecoder().decode(part) : text === null ? new TextDecoder().decode(part) : text;
  const content = useMemo(() => view === 'hex' ? hexOf(part, innerWidth >= 1000 ? 8 : innerWidth >= 640 ? 16 : 8)
    : view === 'json' && !cut ? coloured(indent(text)) : showText(partText()), [view, bytes, all]);
  const ways = [['json', 'JSON'], ['text', 'Text'], ['hex', 'Hex']].filter(([v]) => v !== 'json' || json);
  const missing = body.kept !== undefined && body.kept < body.len;
  const note = [size(body.len), contentType].filter(Boolean).join(', ');
  return html`<${Panel} title="Body" note=${show(note)} flush actions=${html`<${Seg} label="Show as" of=${ways}
    value=${view}
      onChange=${choose} /><${Copy} text=${text !== null ? text : body.base64} label=${text !== null ? 'Copy the body'
        : 'Copy the body as base64'} />`}>
    ${bytes.length ? html`<pre class="code" tabindex="0" role="region"
      aria-label="Body of the message">${content}</pre>`
      : html`<p class="panel-body dim">The body is empty.</p>`}
    ${cut && html`<p class="panel-foot">${size(bytes.length)}; showing the first ${size(FIRST)}.${' '}
      <${Button} small onClick=${() => setAll(true)}>Show all ${size(bytes.length)}<//></p>`}
    ${missing && html`<p class="panel-foot">The history keeps the first ${size(body.kept)} of a body
      of ${size(body.len)}.
      </p>`}<//>`;
};
