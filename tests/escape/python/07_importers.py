# SPDX-License-Identifier: Apache-2.0
# technique: 7 8
# held: posix loaded by name from the builtin importer reads nothing outside
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import json
import sys

importer = next(i for i in sys.meta_path if getattr(i, "__name__", "") == "BuiltinImporter")
posix = importer.load_module("posix")
frozen = next(i for i in sys.meta_path if getattr(i, "__name__", "") == "FrozenImporter")
assert frozen.find_spec("importlib._bootstrap") or frozen.find_spec("_frozen_importlib")
assert json.__spec__.loader.get_data(json.__file__)

for path in posix.environ[b"HINT_FILES"].split(b":"):
    try:
        print("ESCAPED:", posix.read(posix.open(path, 0), 100))
    except OSError:
        continue
    sys.exit(1)
print("HELD")
