// SPDX-License-Identifier: Apache-2.0
// technique: S6 53
// held: an exit code written in the wire format to every socket does not replace the true one
// expect: status=failed|crashed exit=3|125 error=none value=None
const fs = require("fs");

const KEY_SIGNAL = 12;
const KEY_EXIT = 13;
const field = (key, value) => {
  const bytes = Buffer.alloc(12);
  bytes.writeUInt32LE(key, 0);
  bytes.writeUInt32LE(4, 4);
  bytes.writeUInt32LE(value, 8);
  return bytes;
};
const lie = Buffer.concat([field(KEY_EXIT, 0), field(KEY_SIGNAL, 0)]);
for (const name of fs.readdirSync("/proc/self/fd")) {
  try {
    const isSocket = fs.readlinkSync("/proc/self/fd/" + name).startsWith("socket:");
    if (isSocket && Number(name) > 2) fs.writeSync(Number(name), lie);
  } catch {
    continue;
  }
}
process.reallyExit(3);
