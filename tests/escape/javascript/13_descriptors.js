// SPDX-License-Identifier: Apache-2.0
// technique: E3
// held: node sees its standard streams and its own event descriptors, no file of the host
// expect: status=completed exit=0 stdout~HELD
const fs = require("fs");

const strange = [];
for (const name of fs.readdirSync("/proc/self/fd")) {
  let target;
  try {
    target = fs.readlinkSync("/proc/self/fd/" + name);
  } catch {
    continue;
  }
  const own = /^(pipe:|socket:|anon_inode:)/.test(target) || target === "/dev/null";
  const ours = /^\/(workspace|tmp|proc\/\d+\/fd)/.test(target) || /^\/(usr|bin|lib)/.test(target);
  if (!own && !ours) strange.push(name + "=" + target);
}
if (process.cwd() !== "/workspace") strange.push("cwd=" + process.cwd());
console.log(strange.length ? "ESCAPED: " + strange : "HELD");
process.exit(strange.length ? 1 : 0);
