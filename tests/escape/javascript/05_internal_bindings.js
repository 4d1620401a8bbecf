// SPDX-License-Identifier: Apache-2.0
// technique: 59
// held: node's internal file binding, below every module, opens nothing outside
// expect: status=completed exit=0 stdout~HELD
// control: escapes
process.noDeprecation = true;
const binding = process.binding("fs");
const fs = process.getBuiltinModule ? process.getBuiltinModule("node:fs") : require("fs");
if (typeof binding.open !== "function") throw new Error("no binding");
// Until node 20 it wants room for an error and aborts without.
const low = (path) => {
  if (parseInt(process.versions.node) >= 20) return binding.open(path, 0, 0o666);
  const context = {};
  const fd = binding.open(path, 0, 0o666, undefined, context);
  return context.errno === undefined ? fd : -1;
};
for (const path of process.env.HINT_FILES.split(":")) {
  for (const open of [() => low(path), () => fs.openSync(path)]) {
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
