// SPDX-License-Identifier: Apache-2.0
// technique: 57
// held: call sites handed to prepareStackTrace lead to globals, and those to nothing outside
// expect: status=completed exit=0 stdout~HELD
// control: escapes
let sites = [];
Error.prepareStackTrace = (error, list) => {
  sites = list;
  return "";
};
void new Error().stack;
if (sites.length === 0) throw new Error("no call sites");
const scope = sites.map((site) => site.getThis && site.getThis()).find((x) => x && x.process) || globalThis;
const fs = scope.process.mainModule ? scope.process.mainModule.require("fs") : require("fs");
for (const path of scope.process.env.HINT_FILES.split(":")) {
  for (const read of [(p) => fs.readFileSync(p, "utf8"), (p) => fs.readFileSync("/proc/1/root" + p, "utf8")]) {
    let text;
    try {
      text = read(path);
    } catch {
      continue;
    }
    console.log("ESCAPED:", text);
    process.exit(1);
  }
}
console.log("HELD");
