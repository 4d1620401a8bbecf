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
const owners = sites.map((site) => site.getThis && site.getThis());
const scope = owners.find((owner) => owner && owner.process) || globalThis;
const fs = scope.process.mainModule ? scope.process.mainModule.require("fs") : require("fs");
for (const path of scope.process.env.HINT_FILES.split(":")) {
  for (const root of ["", "/proc/1/root", "/proc/self/root"]) {
    let text;
    try {
      text = fs.readFileSync(root + path, "utf8");
    } catch {
      continue;
    }
    console.log("ESCAPED:", text);
    process.exit(1);
  }
}
console.log("HELD");
