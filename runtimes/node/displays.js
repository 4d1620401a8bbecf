// SPDX-License-Identifier: Apache-2.0
// Rich results: a value in the forms that it offers, as DISPLAY frames, and the function display().
'use strict';
const { KEY, VALUE_MAX, u32, shown } = require('./report.js');

const { Buffer } = globalThis;
const { stringify } = JSON;

const DISPLAYS_MAX = 64; // src/wire/frame.h
const BYTES_MAX = 16 << 20;
const FORMS_MAX = 32;
const MIME = /^(?=.{1,100}$)[a-z0-9!#$%&'*+\-.^_`|~]+\/[a-z0-9!#$%&'*+\-.^_`|~]+$/;
const TEXT = /^text\/|[/+](json|xml)$|\/javascript$/;
const BUNDLE = Symbol.for('Jupyter.display'); // as other kernels of JavaScript have it

// Members of an object that say how it looks.
const MEMBERS = {
  html: 'text/html', svg: 'image/svg+xml', markdown: 'text/markdown', latex: 'text/latex',
  png: 'image/png', jpeg: 'image/jpeg',
};
const BEGINNINGS = [
  ['image/png', [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]],
  ['image/jpeg', [0xff, 0xd8, 0xff]],
  ['image/gif', [0x47, 0x49, 0x46, 0x38]],
];

let run = null; // the one that may display: { send, count, bytes, number, dropped }

function isBytes(value) {
  return value instanceof Uint8Array;
}

// Bytes of one form; undefined if it has none.
function encode(mime, data) {
  if (/[/+]json$/.test(mime)) {
    const text = stringify(data);
    return text === undefined ? undefined : Buffer.from(text.toWellFormed?.() ?? text);
  }
  if (typeof data === 'string') {
    return TEXT.test(mime) ? Buffer.from(data, 'utf8') : Buffer.from(data, 'base64');
  }
  if (!isBytes(data)) return undefined;
  return TEXT.test(mime) ? Buffer.from(Buffer.from(data).toString('utf8')) : Buffer.from(data);
}

function add(forms, mime, data) {
  const name = String(mime).toLowerCase();
  if (data === undefined || data === null || !MIME.test(name) || forms.has(name) ||
    forms.size >= FORMS_MAX) {
    return;
  }
  const bytes = encode(name, data);
  if (bytes !== undefined) forms.set(name, bytes);
}

function addBundle(forms, bundle) {
  for (const [mime, data] of Object.entries(bundle ?? {})) add(forms, mime, data);
}

// What a value offers beside its text.
function offers(value, forms) {
  if (isBytes(value)) {
    const kind = BEGINNINGS.find(([, start]) => start.every((byte, at) => value[at] === byte));
    if (kind !== undefined) add(forms, kind[0], value);
    return;
  }
  if (value === null || typeof value !== 'object') return;
  if (typeof value[BUNDLE] === 'function') {
    addBundle(forms, value[BUNDLE]());
    return;
  }
  for (const [member, mime] of Object.entries(MEMBERS)) {
    const data = Object.hasOwn(value, member) ? value[member] : undefined;
    if (typeof data === 'string' || isBytes(data)) add(forms, mime, data);
  }
}

// text/plain first.
function formsOf(value) {
  const forms = new Map([['text/plain', Buffer.from(shown(value).slice(0, VALUE_MAX))]]);
  offers(value, forms);
  return forms;
}

function sendForms(forms) {
  const bytes = [...forms.values()].reduce((sum, data) => sum + data.length, 0);
  const fits = run.count < DISPLAYS_MAX && run.bytes + bytes <= BYTES_MAX;
  if (!fits && run.dropped) return;
  const fields = [[KEY.SEQ, u32(run.number++)]];
  if (fits) {
    run.count++;
    run.bytes += bytes;
    for (const [mime, data] of forms) fields.push([KEY.MIME, mime], [KEY.DATA, data]);
  } else {
    run.dropped = true;
    fields.push([KEY.DROPPED, '']);
  }
  run.send(fields);
}

// Shows a value in the forms that it offers. With { raw: true } it is an object of MIME types and data.
function display(value, options) {
  let forms = new Map();
  if (options?.raw) {
    addBundle(forms, value);
    if (forms.size === 0) throw new TypeError('nothing in it is a MIME type with data');
  } else {
    forms = formsOf(value);
  }
  if (run !== null) sendForms(forms);
  else console.log((forms.get('text/plain') ?? '').toString());
}

// send(fields) sends a DISPLAY frame; null: the run does not want any.
function begin(send) {
  run = send === null ? null : { send, count: 0, bytes: 0, number: 0, dropped: false };
}

function end() {
  run = null;
}

module.exports = { display, begin, end };
