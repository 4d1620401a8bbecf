# SPDX-License-Identifier: Apache-2.0
# technique: 17 18
# held: eval found under other names and look-alike letters reaches nothing outside
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import os

seen = []
ways = [
    vars(__import__("builtins"))["ev" + "al"],
    getattr(__import__("builtins"), "".join(map(chr, (101, 118, 97, 108)))),
    globals().get("ｅval") or 𝑒𝓿𝖺𝚕,
    lambda text: eval(compile(text, "", "eval")),
    lambda text: (exec("global got; got = " + text) or globals()["got"]),
]
for path in os.environ["HINT_FILES"].split(":"):
    for way in ways:
        try:
            seen.append(way("op" "en(%r).re" "ad()" % path))
        except OSError:
            pass
print("ESCAPED: %s" % seen if seen else "HELD")
raise SystemExit(bool(seen))
