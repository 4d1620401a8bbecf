// SPDX-License-Identifier: Apache-2.0
// A parked node: started ahead of its code, waits for one RUN body on descriptor 4, runs it, ends.
// PID 1 (src/runner/program.c) reads our report from the same descriptor after we are gone.
'use strict';
const { readSync, writeSync } = require('fs');
const path = require('path');
const util = require('util');
const vm = require('vm');
const Module = require('module');
const handler = require('./handler.js');

// User code may replace the globals.
const { Buffer, setTimeout } = globalThis;
const { stringify } = JSON;

const LINK = 4;
const KEY = {
  CODE: 1, NAME: 2, KIND: 3, ARG: 4, ENV: 5, EVENT: 8, CONTEXT: 9, TIMEOUT_MS: 10,
  VALUE: 14, VALUE_JSON: 15, ERROR_TYPE: 16, ERROR_MESSAGE: 17, TRACEBACK: 18,
};
const SCRIPT = 0;
const CELL = 1;
const HANDLER = 2;
const VALUE_MAX = 1 << 20;

function readExactly(n) {
  const buffer = Buffer.alloc(n);
  let got = 0;
  while (got < n) {
    const r = readSync(LINK, buffer, got, n - got, null);
    if (r === 0) process.exit(0); // the box was discarded unused
    got += r;
  }
  return buffer;
}

function readRequest() {
  const body = readExactly(readExactly(4).readUInt32LE(0));
  const request = {
    args: [], env: [], kind: SCRIPT, name: '<cell>', code: '',
    event: '{}', context: '{}', timeoutMs: 0,
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
    at = end;
  }
  return request;
}

function report(fields) {
  const parts = [];
  for (const [key, text] of fields) {
    // Cut JSON would be invalid: its writer has checked its length. A cut value has one byte more
    // than is kept, by which the reader sees that it was cut.
    const most = key === KEY.VALUE ? VALUE_MAX + 1 : key === KEY.VALUE_JSON ? undefined : VALUE_MAX;
    const data = Buffer.from(text, 'utf8').subarray(0, most);
    const head = Buffer.alloc(8);
    head.writeUInt32LE(key, 0);
    head.writeUInt32LE(data.length, 4);
    parts.push(head, data);
  }
  try {
    const all = Buffer.concat(parts);
    for (let at = 0; at < all.length;) at += writeSync(LINK, all, at); // a signal may cut one short
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

// Stack frames of these files are of no use to the author of the code.
function userStack(error) {
  const lines = String(error.stack).split('\n');
  const first = lines.findIndex((line) => line.includes(__dirname) || line.includes('node:vm'));
  return (first < 0 ? lines : lines.slice(0, first)).join('\n') + '\n';
}

function shown(value) {
  return util.inspect(value, { maxStringLength: VALUE_MAX, maxArrayLength: 10000, depth: 6 });
}

function reportValue(value) {
  const fields = [[KEY.VALUE, shown(value)]];
  try {
    const json = stringify(value);
    if (Buffer.byteLength(json) <= VALUE_MAX) fields.push([KEY.VALUE_JSON, json]);
  } catch {
    // cycles, big integers and functions have no JSON
  }
  report(fields);
}

// As CommonJS. Code that is in no file can import() only where node has a loader for it: from 20.12 on.
function run(request) {
  return vm.runInThisContext(request.code, {
    filename: request.name,
    importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
}

function onUncaught(fail) {
  process.on('uncaughtException', (error) => {
    if (process.listenerCount('uncaughtException') === 1) fail(error); // the program has none
  });
}

// A handler has answered: waits for its output, but not for timers that it left.
function end() {
  if ([process.stdout, process.stderr].some((s) => s.writableLength > 0 && !s.destroyed)) {
    setTimeout(end, 1);
    return;
  }
  try {
    process.exit();
  } catch {
    process.exit(); // a listener threw; none is called a second time
  }
}

async function runHandler(request, user, fail) {
  let isOver = false;
  const failOnce = (error) => {
    if (!isOver) fail(error);
  };
  onUncaught(failOnce);
  process.once('beforeExit', () => {
    failOnce(new Error('all work is done, but the promise of the handler is open'));
  });
  try {
    const answer = await handler.call(request, user, run);
    report([[KEY.VALUE, shown(answer)], [KEY.VALUE_JSON, handler.encode(answer)]]);
    isOver = true;
  } catch (error) {
    fail(error);
  }
  end();
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

  const fail = (error) => {
    reportError(error);
    if (request.kind === SCRIPT) {
      process.stderr.write((error instanceof Error ? userStack(error) : util.inspect(error)) + '\n');
    }
    process.exit(1);
  };
  if (request.kind === HANDLER) {
    runHandler(request, user, fail);
    return;
  }
  onUncaught(fail);
  const value = run(request);
  if (request.kind === CELL && value !== undefined) reportValue(value);
}

main();
