// SPDX-License-Identifier: Apache-2.0
// technique: 58 S6
// held: globals overridden before the end cannot change the reported exit code
// expect: status=failed|crashed exit=3|125 value=None stdout!~FORGED
const lie = () => '{"status":"completed","exit_code":0,"value":"FORGED"}';
JSON.stringify = lie;
Object.prototype.toString = lie;
Array.prototype.push = () => 0;
Promise.prototype.then = lie;
globalThis.Buffer = undefined;
process.stdout.write = () => true;
process.emit = () => false;
process.on = lie;
const fs = require("fs");
for (let fd = 3; fd < 64; fd++) {
  try {
    const foreign = fs.readlinkSync("/proc/self/fd/" + fd).startsWith("socket:");
    // Node's own pipes carry pointers: garbage in them only crashes node.
    if (foreign) fs.writeSync(fd, lie());
  } catch {
    continue;
  }
}
process.reallyExit(3);
