// SPDX-License-Identifier: Apache-2.0
// technique: 57
// held: objects smuggled through promises, species and proxies read nothing outside
// expect: status=completed exit=0 stdout~HELD
// control: escapes
const vm = require("vm");

const seen = [];
class Thief extends Promise {
  static get [Symbol.species]() {
    return function (executor) {
      executor((value) => seen.push(value), () => {});
    };
  }
}
const outer = new Proxy(() => require("fs"), { apply: (target) => target() });
const context = vm.createContext({ outer, Thief });
vm.runInContext("new Thief((done) => done(outer())).then((x) => x)", context);
setTimeout(() => {
  const fs = outer();
  for (const path of process.env.HINT_FILES.split(":")) {
    try {
      const fd = fs.openSync(path, "r");
      console.log("ESCAPED:", path, fd);
      process.exitCode = 1;
    } catch {
      continue;
    }
  }
  if (!process.exitCode) console.log("HELD", seen.length);
}, 20);
