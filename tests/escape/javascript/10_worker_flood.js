// SPDX-License-Identifier: Apache-2.0
// technique: 60 R1
// held: worker threads stop at the process limit or the memory limit
// expect: status=timeout|memory_exceeded|failed|crashed peak_mb<=194 processes<=64
// limits: --timeout 3 --memory 192M --pids 64
const { Worker } = require("worker_threads");

const start = () => {
  const worker = new Worker("for (;;) {}", { eval: true });
  worker.on("error", () => {});
};
setInterval(() => {
  for (let i = 0; i < 5; i++) {
    try {
      start();
    } catch (error) {
      console.log(String(error));
    }
  }
}, 10);
