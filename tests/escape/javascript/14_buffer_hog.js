// SPDX-License-Identifier: Apache-2.0
// technique: R2 60
// held: buffers outside the JavaScript heap stop at the limit of the box
// expect: status=memory_exceeded|crashed peak_mb<=194
// limits: --memory 192M --timeout 8
const kept = [];
for (;;) kept.push(Buffer.alloc(4 << 20, 1));
