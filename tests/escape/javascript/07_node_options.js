// SPDX-License-Identifier: Apache-2.0
// technique: 59
// held: programs preloaded by NODE_OPTIONS and an inspector port reach nothing outside
// expect: status=completed exit=0 stdout~HELD
// control: escapes
const fs = require("fs");
const { spawnSync } = require("child_process");

fs.writeFileSync(
  "preload.js",
  `for (const p of process.env.HINT_FILES.split(":"))
     try { console.log(require("fs").readFileSync(p, "utf8")); } catch {}
   console.log("preloaded");`
);
const env = { ...process.env, NODE_OPTIONS: "--require ./preload.js" };
const child = spawnSync(process.execPath, ["-e", "0"], { env, encoding: "utf8" });
if (!child.stdout.includes("preloaded")) throw new Error(child.stderr);
const inspector = require("inspector");
inspector.open(0, "127.0.0.1");
const opened = inspector.url() || "";
inspector.close();
const leak = child.stdout.includes(process.env.HINT_MARK);
console.log(leak ? "ESCAPED: " + child.stdout : "HELD", opened.length > 0);
process.exit(leak ? 1 : 0);
