// SPDX-License-Identifier: Apache-2.0
// Calls a Lambda-style handler(event, context). The context has the names that Python handlers know
// (runtimes/python/handler.py).
'use strict';
const { performance } = require('perf_hooks');
const vm = require('vm');

// User code may replace the globals.
const { Buffer } = globalThis;
const { parse, stringify } = JSON;

const ANSWER_MAX = 16 << 20;
const OWN_TIMEOUT_MAX = 3600; // seconds
const DEFAULTS = {
  function_name: 'unknown-function',
  function_version: '$LATEST',
  log_group_name: '/lambda-sandbox/logs',
  memory_limit_in_mb: 256,
  invoked_function_arn: null,
  tenant_id: null,
  client_context: null,
};
const NAMES = [
  ...Object.keys(DEFAULTS),
  'request_id', 'aws_request_id', 'log_stream_name', 'remaining_time_in_millis', 'identity',
];
// The same by the names that Lambda's own node handlers know.
const LAMBDA_NAMES = {
  functionName: 'function_name',
  functionVersion: 'function_version',
  invokedFunctionArn: 'invoked_function_arn',
  memoryLimitInMB: 'memory_limit_in_mb',
  awsRequestId: 'aws_request_id',
  logGroupName: 'log_group_name',
  logStreamName: 'log_stream_name',
  clientContext: 'client_context',
};

class NoHandler extends Error {
  name = 'NoHandler';
}

// The second argument of a handler. Its remaining time counts down.
class Context {
  #deadline;

  constructor(fields, limitsMs) {
    const unknown = Object.keys(fields).filter((name) => !NAMES.includes(name));
    if (unknown.length > 0) {
      throw new TypeError(`unknown context field: ${unknown.sort().join(', ')}`);
    }
    const { remaining_time_in_millis: given, ...rest } = fields;
    // Ids that node makes ahead would be the same in every copy of this process.
    const uuid = () => require('crypto').randomUUID({ disableEntropyCache: true });
    Object.assign(this, DEFAULTS, { request_id: uuid(), log_stream_name: uuid() }, rest);
    this.aws_request_id ??= this.request_id;
    this.identity ??= { cognito_identity_id: null, cognito_identity_pool_id: null };
    this.callbackWaitsForEmptyEventLoop = true;
    for (const [name, own] of Object.entries(LAMBDA_NAMES)) {
      this[name] = this[own];
    }
    this.#deadline = performance.now() + Math.min(...limitsMs, given ?? Infinity);
  }

  get_remaining_time_in_millis() {
    return Math.max(0, Math.floor(this.#deadline - performance.now()));
  }

  getRemainingTimeInMillis() {
    return this.get_remaining_time_in_millis();
  }

  get remaining_time_in_millis() {
    return this.get_remaining_time_in_millis();
  }
}

// __timeout in the event, in seconds, can only shorten what the box enforces (0: nothing).
function limitsOf(event, timeoutMs) {
  const own = event?.__timeout;
  const counts = typeof own === 'number' && own > 0;
  return [counts ? Math.min(own, OWN_TIMEOUT_MAX) * 1000 : Infinity, timeoutMs || Infinity];
}

// A script's own name, which need not be a property of the global object, or what a module exports.
function find(exported) {
  const named = vm.runInThisContext("typeof handler === 'function' ? handler : undefined");
  return [named, exported?.handler, exported].find((f) => typeof f === 'function');
}

// Runs the source (run() does) and its handler; resolves to what that returns, or to what its promise does.
async function call(request, user, run, guard = (f) => f()) {
  await run(request);
  const handler = find(user.exports);
  if (handler === undefined) {
    throw new NoHandler(`${request.name} defines no function handler(event, context)`);
  }
  const event = parse(request.event);
  const context = new Context(parse(request.context), limitsOf(event, request.timeoutMs));
  return guard(() => handler(event, context));
}

// The answer as JSON. TypeError for a value that JSON cannot represent.
function encode(answer) {
  let json;
  try {
    json = answer === undefined ? 'null' : stringify(answer);
  } catch (error) {
    throw new TypeError(`the handler's answer cannot be said in JSON: ${error.message}`);
  }
  if (json === undefined) {
    throw new TypeError(`the handler's answer cannot be said in JSON: it is a ${typeof answer}`);
  }
  // Half a character outside the basic plane is left as an escape, which is not Unicode text.
  if (/(?<!\\)(?:\\\\)*\\ud[89a-f]/.test(json)) {
    throw new TypeError("the handler's answer cannot be said in JSON: it has a lone surrogate");
  }
  const length = Buffer.byteLength(json);
  if (length > ANSWER_MAX) {
    throw new RangeError(
      `the handler's answer is ${length} bytes long, at most ${ANSWER_MAX} are possible`);
  }
  return json;
}

module.exports = { call, encode };
