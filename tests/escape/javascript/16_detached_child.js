// SPDX-License-Identifier: Apache-2.0
// technique: 49 S7
// held: a detached child that ignores everything does not outlive the program
// expect: status=completed exit=0 stdout~HELD wall_s<=8
const { spawn } = require("child_process");

for (let i = 0; i < 3; i++) {
  const child = spawn("/bin/sh", ["-c", "trap '' TERM HUP INT; while :; do sleep 1; done"], {
    detached: true,
    stdio: ["ignore", "inherit", "inherit"],
  });
  child.unref();
}
console.log("HELD");
