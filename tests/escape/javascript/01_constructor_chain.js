// SPDX-License-Identifier: Apache-2.0
// technique: 57
// held: process recovered from inside a vm context reads nothing outside
// expect: status=completed exit=0 stdout~HELD
// control: escapes
const vm = require("vm");

const context = vm.createContext({ log: console.log, host: { fail() { throw new Error("x"); } } });
const reached = vm.runInContext(
  `(() => {
     const find = (thing) => thing.constructor.constructor("return process")();
     const ways = [() => this.constructor.constructor("return process")(),
                   () => host.constructor.constructor("return process")(),
                   () => { try { host.fail(); } catch (e) { return find(e); } },
                   () => log.constructor("return process")()];
     const attempt = (way) => { try { return way(); } catch (e) { return undefined; } };
     return ways.map(attempt).find(Boolean);
   })()`,
  context
);
if (!reached) throw new Error("no way out of the vm context");
const { getBuiltinModule, mainModule } = reached;
const fs = getBuiltinModule ? getBuiltinModule("fs") : mainModule.require("fs");
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
