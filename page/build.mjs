/* node build.mjs OUT.c: bundles the page with esbuild and writes it as one C file.
 *
 * Script and stylesheet are named by a digest of their content, so that a browser may keep them for ever and a new
 * version is a new name. All files are stored compressed; index.html is stored plainly as well, for whoever asks for
 * it without gzip (a person with curl). It runs beside node_modules, with SOURCE (default: its own directory) as the
 * place of the sources, and fails if the page outgrows its budget. */
import esbuild from 'esbuild';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';

const source = process.env.SOURCE || import.meta.dirname;
const modules = path.resolve(process.env.MODULES || path.join(import.meta.dirname, 'node_modules'));
const out = process.argv[2];
const BUDGET = 80 * 1024; // PAGE.md: usable within a second on a phone

const digest = bytes => createHash('sha256').update(bytes).digest('hex').slice(0, 16);
const read = name => fs.readFileSync(path.join(source, name));

const bundle = async entry => {
  const result = await esbuild.build({
    entryPoints: [path.join(source, entry)], bundle: true, minify: true, write: false, format: 'iife',
    target: ['es2022'], nodePaths: [modules], legalComments: 'none', charset: 'utf8', logLevel: 'warning'
  });
  return Buffer.from(result.outputFiles[0].contents);
};

/* Conditions of the licences of what is bundled: their notices go along. */
const notice = () => {
  const names = Object.keys(JSON.parse(read('package.json')).dependencies);
  const of = name => {
    const { version, license } = JSON.parse(fs.readFileSync(path.join(modules, name, 'package.json')));
    const file = fs.readdirSync(path.join(modules, name)).find(f => /^licen[cs]e/i.test(f));
    const text = file ? fs.readFileSync(path.join(modules, name, file), 'utf8').trim() : '';
    return `${name} ${version}, ${license}\n\n${text}\n`;
  };
  return Buffer.from(names.map(of).join('\n\n'));
};

const script = await bundle('src/app.js'), style = await bundle('css/index.css'), icon = read('icon.svg');
const assets = [
  { path: `assets/app-${digest(script)}.js`, type: 'text/javascript; charset=utf-8', bytes: script, keep: true },
  { path: `assets/page-${digest(style)}.css`, type: 'text/css; charset=utf-8', bytes: style, keep: true },
  { path: `assets/icon-${digest(icon)}.svg`, type: 'image/svg+xml', bytes: icon, keep: true },
  { path: 'assets/licenses.txt', type: 'text/plain; charset=utf-8', bytes: notice() }
];
const index = assets.slice(0, 3).reduce((text, asset, i) => text.replace(['{script}', '{style}', '{icon}'][i],
  asset.path), read('index.html').toString().replace(/<!--.*?-->\n?/gs, ''));
assets.unshift({ path: '', type: 'text/html; charset=utf-8', bytes: Buffer.from(index), plain: true });

for (const asset of assets) asset.gzip = gzipSync(asset.bytes, { level: 9 });
const total = assets.slice(0, 4).reduce((sum, asset) => sum + asset.gzip.length, 0);
if (total > BUDGET) {
  console.error(`the page has ${total} bytes compressed; it may have ${BUDGET}`);
  process.exit(1);
}

const array = (name, bytes) => {
  const lines = [];
  for (let i = 0; i < bytes.length; i += 24) lines.push([...bytes.subarray(i, i + 24)].join(','));
  return `static const unsigned char ${name}[] = {\n${lines.join(',\n')}\n};\n`;
};
const row = (asset, i) => `    {"/${asset.path}", "${asset.type}", "\\"${digest(asset.bytes)}\\"", ${asset.keep ? 1
  : 0}, ` +
  `gzip_${i}, ${asset.gzip.length}, ${asset.plain ? `plain_${i}, ${asset.bytes.length}` : 'NULL, 0'}},\n`;
const text = '/* Generated from page/ by page/build.mjs. */\n#include "program/admin/page_assets.h"\n\n' +
  assets.map((a, i) => array(`gzip_${i}`, a.gzip) + (a.plain ? array(`plain_${i}`, a.bytes) : '')).join('') +
  `\nconst page_asset page_assets[] = {\n${assets.map(row).join('')}    {0},\n};\n` +
  'const char *const page_missing = NULL;\n';
fs.mkdirSync(path.dirname(path.resolve(out)), { recursive: true });
fs.writeFileSync(out, text);
fs.writeFileSync(out.replace(/\.c$/, '.size'), `${(total / 1024).toFixed(1)} KiB compressed\n`);
if (process.env.PLAIN) { // for the server of the tests, which has no program
  for (const asset of assets) {
    const file = path.join(process.env.PLAIN, asset.path || 'index.html');
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, asset.bytes);
  }
}
