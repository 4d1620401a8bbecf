// SPDX-License-Identifier: Apache-2.0
// technique: 56 S6
// held: unhandled errors, aborts of children and exits in handlers give the true exit code
// expect: status=failed exit=4 stdout~HELD
const { spawnSync } = require("child_process");

const child = spawnSync(process.execPath, ["-e", "process.abort()"]);
console.log("HELD", child.signal);
process.on("uncaughtException", () => process.exit(4));
process.on("exit", () => {
  process.exitCode = 4;
});
Promise.reject(new Error("nobody listens"));
