// SPDX-License-Identifier: Apache-2.0
// Runs a cell as a console does: top-level await, const and let that may be declared again, the
// value of a last expression. V8 has this mode for debuggers only (replMode of Runtime.evaluate).
'use strict';
const { Session } = require('inspector');
const imports = require('./imports.js');
const native = require('./native.js');

const TAKER = "Symbol.for('husk.taker')"; // where the debugger's side finds a function of ours
const GROUP = 'husk';

const session = new Session();
let taken; // what the debugger's side has handed over
let taker; // its name of the function below

session.connect();
imports.install();

class Interrupted extends Error {}

// Runs f; an interrupt ends it by an exception, whatever it does.
function guard(f) {
  let result;
  let failure = null; // an exception must not cross the guard: it is the interrupt's way
  const stopped = native.guard(() => {
    try {
      result = f();
    } catch (error) {
      failure = { error };
    }
  });
  if (stopped) throw new Interrupted();
  if (failure !== null) throw failure.error;
  return result;
}

function wasInterrupted(error) {
  return error instanceof Interrupted;
}

// A value that the debugger's side describes, as itself.
function takeValue(remote) {
  const argument = remote.objectId !== undefined ? { objectId: remote.objectId }
    : remote.unserializableValue !== undefined
      ? { unserializableValue: remote.unserializableValue } : { value: remote.value };
  taken = undefined;
  session.post('Runtime.callFunctionOn', {
    objectId: taker,
    functionDeclaration: 'function (value) { this(value); }',
    arguments: [argument],
    silent: true,
  });
  session.post('Runtime.releaseObjectGroup', { objectGroup: GROUP });
  const value = taken;
  taken = undefined;
  return value;
}

globalThis[Symbol.for('husk.taker')] = (value) => {
  taken = value;
};
session.post('Runtime.evaluate', { expression: `globalThis[${TAKER}]` }, (_, answer) => {
  taker = answer.result.objectId;
});
delete globalThis[Symbol.for('husk.taker')];

// A syntax error has no place of its own; the debugger's side knows it.
function placed(error, details, name, code) {
  if (!(error instanceof SyntaxError) || details.stackTrace !== undefined ||
    !String(error.stack).includes('node:inspector')) {
    return error;
  }
  const line = code.split('\n')[details.lineNumber] ?? '';
  const place = `${name}:${details.lineNumber + 1}\n${line}\n${' '.repeat(details.columnNumber)}^\n`;
  error.stack = `${place}\n${error.stack}`;
  return error;
}

// Calls done({ value }) or done({ error }), unless an interrupt comes first: that is an exception,
// now, and a cell that waits is never done.
function evaluate(code, name, done) {
  const expression = `${imports.rename(code)}\n//# sourceURL=${name}`;
  guard(() => {
    session.post('Runtime.evaluate', {
      expression, replMode: true, awaitPromise: true, objectGroup: GROUP, silent: true,
    }, (problem, answer) => {
      if (problem !== null) {
        done({ error: new Error(problem.message) });
        return;
      }
      const value = takeValue(answer.result);
      const details = answer.exceptionDetails;
      done(details === undefined ? { value } : { error: placed(value, details, name, code) });
    });
  });
}

module.exports = { evaluate, guard, Interrupted, wasInterrupted };
