// SPDX-License-Identifier: Apache-2.0
// technique: 60 R2
// held: WebAssembly memory stops at the limit of the box
// expect: status=memory_exceeded|completed|crashed|failed stdout!~ESCAPED peak_mb<=194
// limits: --memory 192M --timeout 8
const kept = [];
for (let i = 0; i < 64; i++) {
  try {
    const memory = new WebAssembly.Memory({ initial: 256, maximum: 65536 });
    new Uint8Array(memory.buffer).fill(1);
    memory.grow(256);
    new Uint8Array(memory.buffer).fill(1);
    kept.push(memory);
  } catch (error) {
    console.log("HELD", i, String(error));
    process.exit(0);
  }
}
console.log("ESCAPED: 2 GiB of WebAssembly memory");
