// SPDX-License-Identifier: Apache-2.0
// A parked node: started ahead of its code, waits for one RUN body on descriptor 4, runs it, ends.
// PID 1 (src/runner/program.c) reads our report from the same descriptor after we are gone.
'use strict';
const { readSync, writeSync } = require('fs');
const util = require('util');
const vm = require('vm');
const handler = require('./handler.js');
const { KEY, SCRIPT, CELL, HANDLER, ...report } = require('./report.js');

// User code may replace the globals.
const { Buffer, setTimeout } = globalThis;

const LINK = 4;

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

function send(fields) {
  try {
    const all = report.encodeFields(fields);
    for (let at = 0; at < all.length;) at += writeSync(LINK, all, at); // a signal may cut one short
  } catch {
    // PID 1 is gone, and so are we in a moment
  }
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
    send([[KEY.VALUE, report.shown(answer)], [KEY.VALUE_JSON, handler.encode(answer)]]);
    isOver = true;
  } catch (error) {
    fail(error);
  }
  end();
}

function main() {
  const request = report.parseRequest(readExactly(readExactly(4).readUInt32LE(0)));
  for (const pair of request.env) {
    const at = pair.indexOf('=');
    process.env[pair.slice(0, at)] = pair.slice(at + 1);
  }
  process.argv = [process.execPath, request.name, ...request.args];
  const user = report.installModule(request.name);

  const fail = (error) => {
    send(report.errorFields(error));
    if (request.kind === SCRIPT) {
      process.stderr.write(
        (error instanceof Error ? report.userStack(error) : util.inspect(error)) + '\n');
    }
    process.exit(1);
  };
  if (request.kind === HANDLER) {
    runHandler(request, user, fail);
    return;
  }
  onUncaught(fail);
  const value = run(request);
  if (request.kind === CELL && value !== undefined) send(report.valueFields(value));
}

main();
