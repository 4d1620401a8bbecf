// SPDX-License-Identifier: Apache-2.0
// technique: 57
// held: process recovered from inside a vm context reads nothing outside
// expect: status=completed exit=0 stdout~HELD
// control: escapes
const vm = require("vm");

const context = vm.createContext({ log: console.log, host: { fail() { throw new Error("x"); } } });
const reached = vm.runInContext(
  `(() => {
     const ways = [() => this.constructor.constructor("return process")(),
                   () => host.constructor.constructor("return process")(),
                   () => { try { host.fail(); } catch (e) { return e.constructor.constructor("return process")(); } },
                   () => log.constructor("return process")()];
     return ways.map((way) => { try { return way(); } catch (e) { return undefined; } }).find(Boolean);
   })()`,
  context
);
if (!reached) throw new Error("no way out of the vm context");
const fs = reached.getBuiltinModule ? reached.getBuiltinModule("fs") : reached.mainModule.require("fs");
for (const path of reached.env.HINT_FILES.split(":")) {
  let text;
  try {
    text = fs.readFileSync(path, "utf8");
  } catch {
    continue;
  }
  console.log("ESCAPED:", text);
  process.exit(1);
}
console.log("HELD");
