// SPDX-License-Identifier: Apache-2.0
// technique: 59
// held: a shared library loaded as an addon gains no right, and a broken one only fails
// expect: status=completed exit=0 stdout~HELD
const fs = require("fs");

const maps = fs.readFileSync("/proc/self/maps", "utf8").split("\n");
const line = maps.find((text) => /libc\.so\.6$|libc-/.test(text));
const library = line ? line.slice(line.indexOf("/")) : process.execPath;
fs.copyFileSync(library, "mine.node");
fs.chmodSync("mine.node", 0o755);
let refused = 0;
for (const path of ["./mine.node", "/workspace/mine.node"]) {
  try {
    process.dlopen({ exports: {} }, path);
  } catch {
    refused++;
  }
}
const status = fs.readFileSync("/proc/self/status", "utf8");
const gained = [0].filter(() => !/^CapEff:\t0+$/m.test(status));
try {
  process.setuid(0);
  gained.push("setuid");
} catch {
  refused++;
}
console.log(gained.length ? "ESCAPED: " + gained : "HELD", refused);
process.exit(gained.length ? 1 : 0);
