// SPDX-License-Identifier: Apache-2.0
// technique: E1 E18
// held: kernel settings do not open for writing and the leaky files are empty
// expect: status=completed exit=0 stdout~HELD
const fs = require("fs");

const reached = [];
const writable = ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger"];
writable.push("/proc/sys/kernel/hostname");
writable.push("/proc/sys/vm/overcommit_memory", "/proc/sys/net/ipv4/ip_forward", "/proc/1/mem");
writable.push("/proc/sys/user/max_user_namespaces", "/etc/passwd", process.execPath);
for (const path of writable) {
  try {
    fs.closeSync(fs.openSync(path, fs.constants.O_WRONLY));
    reached.push(path);
  } catch {
    continue;
  }
}
for (const name of ["kcore", "keys", "timer_list", "kallsyms", "modules", "cmdline", "kmsg"]) {
  try {
    const fd = fs.openSync("/proc/" + name, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
    if (fs.readSync(fd, Buffer.alloc(16)) > 0) reached.push(name);
  } catch {
    continue;
  }
}
console.log(reached.length ? "ESCAPED: " + reached : "HELD");
process.exit(reached.length ? 1 : 0);
