// SPDX-License-Identifier: Apache-2.0
// import() in a cell. V8's mode for cells has none, so the call is given another name of the same
// length, which is a global function here. Positions in messages stay what they are.
'use strict';
const path = require('path');
const vm = require('vm');

const NAME = '$mport';
const CALL = /(?<![.\w$#])import(?=\s*\()/g;

// It is experimental that code in no file can import(), which is not the cell's concern.
function hushWarning() {
  const { emitWarning } = process;
  process.emitWarning = function (warning, ...rest) {
    if (!String(warning).includes('USE_MAIN_CONTEXT_DEFAULT_LOADER')) {
      emitWarning.call(process, warning, ...rest);
    }
  };
}

function install() {
  hushWarning();
  const load = vm.runInThisContext('(specifier, options) => import(specifier, options)', {
    filename: path.join(process.cwd(), '[import]'), // names are looked up from here
    importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  Object.defineProperty(globalThis, NAME, { value: load });
}

function parses(code) {
  try {
    new vm.Script(`(async () => {${code}\n})`);
    return true;
  } catch {
    return false;
  }
}

// An `import` is a call if the code is not valid without it, unlike one in a text, a comment or a
// pattern, and valid with another expression in its place, unlike the name of a method.
function isCall(code, at) {
  const rest = code.slice(at + NAME.length);
  const head = code.slice(0, at);
  return !parses(`${head}@@@@@@${rest}`) && parses(`${head}(0)${rest}`);
}

function rename(code) {
  const places = [...code.matchAll(CALL)].map((match) => match.index);
  if (places.length === 0 || !parses(code)) return code;
  let renamed = code;
  for (const at of places) {
    if (isCall(code, at)) {
      renamed = renamed.slice(0, at) + NAME + renamed.slice(at + NAME.length);
    }
  }
  return renamed;
}

module.exports = { install, rename };
