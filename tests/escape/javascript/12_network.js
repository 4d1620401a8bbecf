// SPDX-License-Identifier: Apache-2.0
// technique: E10
// held: no host port and no abstract socket answers; only loopback exists
// expect: status=completed exit=0 stdout~HELD
// control: escapes
const net = require("net");
const os = require("os");

const targets = [
  { port: Number(process.env.HINT_PORT), host: "127.0.0.1" },
  { port: 80, host: "169.254.169.254" },
  { path: "\0" + process.env.HINT_SOCKET },
  { path: process.env.HINT_SOCKET_PATH },
  { path: "/var/run/docker.sock" },
];
const reached = Object.keys(os.networkInterfaces()).filter((name) => name !== "lo");
const attempt = (target) =>
  new Promise((done) => {
    const socket = net.connect({ ...target, timeout: 1000 }, () => {
      reached.push(JSON.stringify(target));
      socket.destroy();
    });
    socket.on("timeout", () => socket.destroy());
    socket.on("error", () => {});
    socket.on("close", done);
  });
Promise.all(targets.map(attempt)).then(() => {
  console.log(reached.length ? "ESCAPED: " + reached : "HELD");
  process.exit(reached.length ? 1 : 0);
});
