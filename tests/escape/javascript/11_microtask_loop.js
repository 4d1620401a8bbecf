// SPDX-License-Identifier: Apache-2.0
// technique: 60 S7
// held: microtasks that escape a vm timeout do not escape the time limit of the run
// expect: status=timeout
// cause: timeout
// limits: --timeout 2
const vm = require("vm");

const loop = "const again = () => Promise.resolve().then(again); again();";
try {
  vm.runInNewContext(loop, {}, { timeout: 50 });
} catch (error) {
  console.log(String(error));
}
const again = () => process.nextTick(again);
again();
