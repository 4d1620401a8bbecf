// SPDX-License-Identifier: Apache-2.0
// A context of a session in JavaScript: cells come from a driver (src/runner/driver_node.c) through
// descriptor 4, and run one after the other in this process. Timers and servers of earlier cells go
// on meanwhile and between cells.
'use strict';
const fs = require('fs');
const net = require('net');
const util = require('util');
const { Writable } = require('stream');
const displays = require('./displays.js');
const { evaluate, guard, Interrupted, wasInterrupted } = require('./evaluate.js');
const handler = require('./handler.js');
const native = require('./native.js');
const { KEY, HANDLER, ...report } = require('./report.js');

// User code may replace the globals.
const { Buffer, setImmediate } = globalThis;

const LINK = 4;
const FRAME = { RUN: 1, SIGNAL: 4, READY: 16, DISPLAY: 18, DONE: 20, SIGNALLED: 23 };
const HEAD = 24; // type, length, and a token that the driver fills in
const INTERRUPTED = 130;
const COMPLAINTS_MAX = 20;

let cell = null; // { number, done } while one runs
let replaced = new Map(); // what the last cell's variables were before; undefined: absent
let stdin; // of this cell, once it is used
let user; // the module that cells are in
const complaints = []; // of what failed between cells

// ---- descriptors ----

// Writes at once and completely: what was printed before a kill is not lost.
class Output extends Writable {
  constructor(fd) {
    super({ decodeStrings: true });
    this.fd = fd;
  }

  _write(chunk, _, done) {
    try {
      for (let at = 0; at < chunk.length;) {
        try {
          at += fs.writeSync(this.fd, chunk, at);
        } catch (error) {
          if (error.code !== 'EAGAIN') throw error;
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
        }
      }
    } catch {
      // the reader is gone, and the cell with it
    }
    done();
  }
}

function openStdio(paths) {
  paths.forEach((name, to) => {
    const fd = fs.openSync(name, to === 0 ? 'r' : 'w');
    native.place(fd, to);
    fs.closeSync(fd);
  });
  stdin = undefined;
}

function mute() {
  openStdio(['/dev/null', '/dev/null', '/dev/null']);
}

function installStreams() {
  for (const [name, fd] of [['stdout', 1], ['stderr', 2]]) {
    const stream = new Output(fd);
    Object.defineProperty(process, name, { configurable: true, enumerable: true, value: stream });
  }
  Object.defineProperty(process, 'stdin', {
    configurable: true,
    enumerable: true,
    get() {
      stdin ??= new fs.ReadStream(null, { fd: 0, autoClose: false });
      return stdin;
    },
  });
}

// ---- the link ----

const link = new net.Socket({ fd: LINK, readable: true, writable: true });

function send(type, fields) {
  const body = report.encodeFields(fields);
  const head = Buffer.alloc(HEAD);
  head.writeUInt32LE(type, 0);
  head.writeUInt32LE(body.length, 4);
  link.write(Buffer.concat([head, body]));
}

function listen(onFrame) {
  let waiting = Buffer.alloc(0);
  link.on('data', (chunk) => {
    waiting = Buffer.concat([waiting, chunk]);
    while (waiting.length >= HEAD) {
      const end = HEAD + waiting.readUInt32LE(4);
      if (waiting.length < end) return;
      const body = waiting.subarray(HEAD, end);
      const type = waiting.readUInt32LE(0);
      waiting = waiting.subarray(end);
      onFrame(type, body);
    }
  });
  link.on('end', () => process.exit(0));
  link.on('error', () => process.exit(1));
}

// ---- what fails outside of a cell's own course ----

function complain(what, error) {
  const stack = error instanceof Error ? report.userStack(error) : `${util.inspect(error)}\n`;
  const text = `${what} ${stack}`;
  if (cell !== null) process.stderr.write(text);
  else if (complaints.length < COMPLAINTS_MAX) complaints.push(text);
}

process.on('uncaughtException', (error) => {
  if (!wasInterrupted(error)) complain('Uncaught', error);
});
process.on('unhandledRejection', (error) => complain('Uncaught (in promise)', error));

// ---- cells ----

// Applies the variables of this cell and removes those of an earlier one.
function setEnvironment(pairs) {
  for (const [name, value] of replaced) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
  replaced = new Map();
  for (const pair of pairs) {
    const at = pair.indexOf('=');
    const name = pair.slice(0, at);
    if (!replaced.has(name)) replaced.set(name, process.env[name]);
    process.env[name] = pair.slice(at + 1);
  }
}

// A value's own methods run here, so it may fail or be interrupted.
function valueFields(request, outcome) {
  if (request.kind === HANDLER) {
    return [[KEY.VALUE, report.shown(outcome.value)],
      [KEY.VALUE_JSON, handler.encode(outcome.value)]];
  }
  if (outcome.value === undefined) return [];
  if (request.rich) displays.display(outcome.value);
  return report.valueFields(outcome.value);
}

function fieldsOf(request, outcome) {
  let { error } = outcome;
  if (!('error' in outcome)) {
    try {
      return [...guard(() => valueFields(request, outcome)), [KEY.EXIT, report.u32(0)]];
    } catch (raised) {
      error = raised;
    }
  }
  if (wasInterrupted(error)) {
    return [[KEY.ERROR_TYPE, 'KeyboardInterrupt'], [KEY.ERROR_MESSAGE, ''],
      [KEY.EXIT, report.u32(INTERRUPTED)]];
  }
  try {
    return [...guard(() => report.errorFields(error)), [KEY.EXIT, report.u32(1)]];
  } catch {
    return [[KEY.ERROR_TYPE, 'Error'], [KEY.ERROR_MESSAGE, 'the error cannot be shown'],
      [KEY.EXIT, report.u32(1)]];
  }
}

// The answer leaves one turn of the loop later: what the cell has rejected is reported before.
function finish(request, outcome) {
  const fields = fieldsOf(request, outcome);
  setImmediate(() => {
    displays.end();
    native.begin(0);
    cell = null;
    send(FRAME.DONE, [[KEY.SEQ, report.u32(request.number)], ...fields]);
    mute();
  });
}

function start(request, name, done) {
  if (request.kind !== HANDLER) {
    evaluate(request.code, name, done);
    return;
  }
  const run = () => new Promise((resolve, reject) => {
    evaluate(request.code, name, ({ error, ...rest }) => ('value' in rest ? resolve() : reject(error)));
  });
  user.exports = {};
  globalThis.exports = user.exports;
  handler.call({ ...request, name }, user, run, guard)
    .then((value) => done({ value }), (error) => done({ error }));
}

function runCell(request) {
  const { number } = request;
  const name = request.name !== '<cell>' ? request.name.replace(/\s/g, '_')
    : number === 1 ? '<cell>' : `<cell-${number}>`;
  let isOver = false;
  const done = (outcome) => {
    if (isOver) return;
    isOver = true;
    finish(request, outcome);
  };
  cell = { number, done };
  native.begin(number);
  displays.begin(request.rich ? (fields) => send(FRAME.DISPLAY, fields) : null);
  try {
    openStdio(request.stdio);
    setEnvironment(request.env);
    process.argv = [process.execPath, name, ...request.args];
    for (const text of complaints.splice(0)) process.stderr.write(text);
    start(request, name, done);
  } catch (error) {
    done({ error });
  }
}

// ---- interrupts ----

// A cell that computes is stopped by guard(); this is for one that waits. Number 0: the driver only
// wants to know that everything before has arrived.
function interrupt(number) {
  if (number === 0) send(FRAME.SIGNALLED, []);
  else if (cell?.number === number) cell.done({ error: new Interrupted() });
}

native.watch();
native.closeOnExec(LINK);
installStreams();
user = report.installModule('<cell>');
globalThis.display = displays.display;
listen((type, body) => {
  if (type === FRAME.RUN) runCell(report.parseRequest(body));
  else if (type === FRAME.SIGNAL) interrupt(report.parseRequest(body).number);
});
send(FRAME.READY, []);
