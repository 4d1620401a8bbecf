// SPDX-License-Identifier: Apache-2.0
// technique: 59
// held: node's internal file binding, below every module, opens nothing outside
// expect: status=completed exit=0 stdout~HELD
// control: escapes
process.noDeprecation = true;
const binding = process.binding("fs");
const fs = process.getBuiltinModule ? process.getBuiltinModule("node:fs") : require("fs");
if (typeof binding.open !== "function") throw new Error("no binding");
for (const path of process.env.HINT_FILES.split(":")) {
  for (const open of [() => binding.open(path, 0, 0o666), () => fs.openSync(path)]) {
    let fd;
    try {
      fd = open();
    } catch {
      continue;
    }
    if (typeof fd === "number" && fd >= 0) {
      console.log("ESCAPED: opened", path);
      process.exit(1);
    }
  }
}
console.log("HELD");
