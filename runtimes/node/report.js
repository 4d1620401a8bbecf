// SPDX-License-Identifier: Apache-2.0
// Values and errors as fields of frames (src/wire/frame.h), for programs and for cells.
'use strict';
const path = require('path');
const util = require('util');
const Module = require('module');

// User code may replace the globals.
const { Buffer } = globalThis;
const { stringify } = JSON;

const KEY = {
  CODE: 1, NAME: 2, KIND: 3, ARG: 4, ENV: 5, EVENT: 8, CONTEXT: 9, TIMEOUT_MS: 10, EXIT: 13,
  VALUE: 14, VALUE_JSON: 15, ERROR_TYPE: 16, ERROR_MESSAGE: 17, TRACEBACK: 18,
  MIME: 19, DATA: 20, SEQ: 21, DROPPED: 22, RICH: 23,
};
const SCRIPT = 0;
const CELL = 1;
const HANDLER = 2;
const VALUE_MAX = 1 << 20;

// The fields of a RUN frame.
function parseRequest(body) {
  const request = {
    args: [], env: [], stdio: [], kind: SCRIPT, name: '<cell>', code: '',
    event: '{}', context: '{}', timeoutMs: 0, rich: false,
  };
  for (let at = 0; at + 8 <= body.length;) {
    const key = body.readUInt32LE(at);
    const end = at + 8 + body.readUInt32LE(at + 4);
    const data = body.subarray(at + 8, end);
    if (key === KEY.CODE) request.code = data.toString('utf8');
    else if (key === KEY.NAME) request.name = data.toString('utf8');
    else if (key === KEY.KIND) request.kind = data[0];
    else if (key === KEY.ARG) request.args.push(data.toString('utf8'));
    else if (key === KEY.ENV) request.env.push(data.toString('utf8'));
    else if (key === KEY.EVENT) request.event = data.toString('utf8');
    else if (key === KEY.CONTEXT) request.context = data.toString('utf8');
    else if (key === KEY.TIMEOUT_MS) request.timeoutMs = Number(data.readBigUInt64LE(0));
    else if (key === KEY.DATA) request.stdio.push(data.toString('utf8'));
    else if (key === KEY.RICH) request.rich = true;
    else if (key === KEY.SEQ) request.number = data.readUInt32LE(0);
    at = end;
  }
  return request;
}

function u32(number) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(number >>> 0, 0);
  return bytes;
}

// [key, text or bytes] pairs as bytes.
function encodeFields(fields) {
  const parts = [];
  for (const [key, content] of fields) {
    // Cut JSON would be invalid: its writer has checked its length. A cut value has one byte more
    // than is kept, by which the reader sees that it was cut.
    const most = key === KEY.VALUE ? VALUE_MAX + 1
      : key >= KEY.ERROR_TYPE && key <= KEY.TRACEBACK ? VALUE_MAX : undefined;
    const data = Buffer.from(content, 'utf8').subarray(0, most);
    parts.push(u32(key), u32(data.length), data);
  }
  return Buffer.concat(parts);
}

// Stack frames of these files, and of what they call, are of no use to the author of the code.
function userStack(error) {
  const lines = String(error.stack).split('\n');
  const first = lines.findIndex((line) => line.includes(__dirname) || line.includes('node:vm') ||
    line.includes('node:inspector'));
  return (first < 0 ? lines : lines.slice(0, first)).join('\n') + '\n';
}

function errorFields(error) {
  const isError = error instanceof Error;
  return [
    [KEY.ERROR_TYPE, isError ? String(error.name) : typeof error],
    [KEY.ERROR_MESSAGE, isError ? String(error.message) : util.inspect(error)],
    [KEY.TRACEBACK, isError ? userStack(error) : util.inspect(error)],
  ];
}

function shown(value) {
  return util.inspect(value, { maxStringLength: VALUE_MAX, maxArrayLength: 10000, depth: 6 });
}

function valueFields(value) {
  const fields = [[KEY.VALUE, shown(value)]];
  try {
    const json = stringify(value);
    if (Buffer.byteLength(json) <= VALUE_MAX) fields.push([KEY.VALUE_JSON, json]);
  } catch {
    // cycles, big integers and functions have no JSON
  }
  return fields;
}

// What a CommonJS module has, as globals. Returns the module.
function installModule(name) {
  const filename = path.resolve(process.cwd(), name.replace(/[<>]/g, '_'));
  const user = new Module(filename, null);
  user.filename = filename;
  user.paths = Module._nodeModulePaths(process.cwd());
  globalThis.require = Module.createRequire(filename);
  globalThis.module = user;
  globalThis.exports = user.exports;
  globalThis.__filename = filename;
  globalThis.__dirname = path.dirname(filename);
  return user;
}

module.exports = {
  KEY, SCRIPT, CELL, HANDLER, VALUE_MAX, parseRequest, u32, encodeFields, userStack, errorFields,
  shown, valueFields, installModule,
};
