// SPDX-License-Identifier: Apache-2.0
// A parked node: started ahead of its code, waits for one RUN body on descriptor 4, runs it, ends.
// PID 1 (src/runner/program.c) reads our report from the same descriptor after we are gone.
'use strict';
const fs = require('fs');
const path = require('path');
const util = require('util');
const vm = require('vm');
const Module = require('module');

const LINK = 4;
const KEY = {
  CODE: 1, NAME: 2, KIND: 3, ARG: 4, ENV: 5,
  VALUE: 14, VALUE_JSON: 15, ERROR_TYPE: 16, ERROR_MESSAGE: 17, TRACEBACK: 18,
};
const CELL = 1;
const VALUE_MAX = 1 << 20;

function readExactly(n) {
  const buffer = Buffer.alloc(n);
  let got = 0;
  while (got < n) {
    const r = fs.readSync(LINK, buffer, got, n - got, null);
    if (r === 0) process.exit(0); // the box was thrown away unused
    got += r;
  }
  return buffer;
}

function readRequest() {
  const body = readExactly(readExactly(4).readUInt32LE(0));
  const request = { args: [], env: [], kind: 0, name: '<cell>', code: '' };
  for (let at = 0; at + 8 <= body.length;) {
    const key = body.readUInt32LE(at);
    const end = at + 8 + body.readUInt32LE(at + 4);
    const data = body.subarray(at + 8, end);
    if (key === KEY.CODE) request.code = data.toString('utf8');
    else if (key === KEY.NAME) request.name = data.toString('utf8');
    else if (key === KEY.KIND) request.kind = data[0];
    else if (key === KEY.ARG) request.args.push(data.toString('utf8'));
    else if (key === KEY.ENV) request.env.push(data.toString('utf8'));
    at = end;
  }
  return request;
}

function report(fields) {
  const parts = [];
  for (const [key, text] of fields) {
    const data = Buffer.from(text, 'utf8').subarray(0, VALUE_MAX);
    const head = Buffer.alloc(8);
    head.writeUInt32LE(key, 0);
    head.writeUInt32LE(data.length, 4);
    parts.push(head, data);
  }
  try {
    fs.writeSync(LINK, Buffer.concat(parts));
  } catch {
    // PID 1 is gone, and so are we in a moment
  }
}

function reportError(error) {
  const isError = error instanceof Error;
  report([
    [KEY.ERROR_TYPE, isError ? error.name : typeof error],
    [KEY.ERROR_MESSAGE, isError ? error.message : util.inspect(error)],
    [KEY.TRACEBACK, isError ? userStack(error) : util.inspect(error)],
  ]);
}

// Frames of this file are of no use to whoever wrote the code.
function userStack(error) {
  const lines = String(error.stack).split('\n');
  const first = lines.findIndex((line) => line.includes(__filename) || line.includes('node:vm'));
  return (first < 0 ? lines : lines.slice(0, first)).join('\n') + '\n';
}

function reportValue(value) {
  const limits = { maxStringLength: VALUE_MAX, maxArrayLength: 10000, depth: 6 };
  const fields = [[KEY.VALUE, util.inspect(value, limits)]];
  try {
    const json = JSON.stringify(value);
    if (json !== undefined) fields.push([KEY.VALUE_JSON, json]);
  } catch {
    // cycles and big integers have no JSON
  }
  report(fields);
}

function main() {
  const request = readRequest();
  for (const pair of request.env) {
    const at = pair.indexOf('=');
    process.env[pair.slice(0, at)] = pair.slice(at + 1);
  }
  const filename = path.resolve(process.cwd(), request.name.replace(/[<>]/g, '_'));
  process.argv = [process.execPath, request.name, ...request.args];
  const user = new Module(filename, null);
  user.filename = filename;
  user.paths = Module._nodeModulePaths(process.cwd());
  globalThis.require = Module.createRequire(filename);
  globalThis.module = user;
  globalThis.exports = user.exports;
  globalThis.__filename = filename;
  globalThis.__dirname = path.dirname(filename);

  process.on('uncaughtException', (error) => {
    reportError(error);
    if (request.kind !== CELL) {
      process.stderr.write((error instanceof Error ? userStack(error) : util.inspect(error)) + '\n');
    }
    process.exit(1);
  });
  const value = vm.runInThisContext(request.code, { filename: request.name });
  if (request.kind === CELL && value !== undefined) reportValue(value);
}

main();
