/* Text that others wrote. It becomes text nodes, never markup; characters that are not seen, or that turn the order
 * of others around, are shown as their code points, so that what is read is what is there. */
import { html } from './ui.js';

const C0 = '\\u0000-\\u001F\\u007F-\\u009F';
const HIDDEN = '\\u00AD\\u061C\\u115F\\u1160\\u17B4\\u17B5\\u180B-\\u180E\\u200B-\\u200F\\u2028-\\u202E' +
  '\\u2060-\\u206F\\u3164\\uFE00-\\uFE0F\\uFEFF\\uFFA0\\uFFF0-\\uFFFB\\u{E0000}-\\u{E0FFF}';
const LONE = '\\uD800-\\uDFFF'; // a half of a pair; with the flag u, pairs do not match
const inLine = new RegExp('[' + C0 + HIDDEN + LONE + ']', 'gu');
const inText = new RegExp('(?![\\n\\t])[' + C0 + HIDDEN + LONE + ']', 'gu');

const point = c => 'U+' + c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0');
const split = (text, pattern) => {
  const out = [];
  let last = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > last) out.push(text.slice(last, match.index));
    out.push(html`<span class="cp">${point(match[0])}</span>`);
    last = match.index + match[0].length;
  }
  if (!last) return text;
  out.push(text.slice(last));
  return out;
};

export const show = text => split(String(text ?? ''), inLine);       // one line
export const showText = text => split(String(text ?? ''), inText);   // with its lines and tabs
export const plain = text => String(text ?? '').replace(inLine, point); // for titles and names
