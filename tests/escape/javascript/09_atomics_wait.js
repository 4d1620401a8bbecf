// SPDX-License-Identifier: Apache-2.0
// technique: 60 S7
// held: a thread that waits for ever in Atomics.wait is ended at the limit
// expect: status=timeout
// cause: timeout
// limits: --timeout 2
process.on("SIGTERM", () => {});
process.on("SIGINT", () => {});
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
