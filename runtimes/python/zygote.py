# SPDX-License-Identifier: Apache-2.0
"""Start of a Python template: import what boxes will need, freeze, then fork boxes on demand.

Run by husk-launcher inside the template's root as `python -I -B zygote.py MODULE...`. Never sees
user code: `_husk.zygote()` returns only in a new, isolated box.
"""

import sys

HUSK_DIR = "/husk"
BYTECODE = "/husk-bytecode"  # the template's folder, if it has one
POOL_SIZE = 16384  # of CPython's allocator for small objects
sys.path.insert(0, HUSK_DIR)
sys.path.insert(0, HUSK_DIR + "/runtimes/python")

import _husk  # noqa: E402

# The launcher reads this stderr only if this process dies.
sys.excepthook = lambda kind, error, _: _husk.broken(f"{kind.__name__}: {error}")

import argparse  # noqa: E402
import gc  # noqa: E402
import importlib.machinery  # noqa: E402
import os  # noqa: E402
import threading  # noqa: E402
from typing import NoReturn  # noqa: E402

import runner  # noqa: E402

environment = dict(os.environ)  # modules change it
notes: list[str] = []  # about modules that boxes have to import themselves

# A user's own handler.py or runner.py must be found, not ours.
ours, sys.path[0:2] = sys.path[0:2], []
for name, module in list(sys.modules.items()):
    if name != "__main__" and os.path.dirname(getattr(module, "__file__", None) or "") in ours:
        del sys.modules[name]


def explain(error: BaseException) -> str:
    """Type, last lines and origin of an exception, in a few hundred bytes: the first lines of a
    long message are seldom the ones that matter. Paths are left out, modules say enough.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[-1] if lines else ""
    for line in reversed(lines[:-1]):
        if len(line) + len(said) > 150:
            break
        said = f"{line} {said}"
    where, trace = "", error.__traceback__
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        if not str(module).startswith(("__main__", "importlib.", "zipimport")):
            where = f" ({module}, line {trace.tb_lineno})"
        trace = trace.tb_next
    text = f"{type(error).__name__}: {said[-200:]}{where}"
    cause = error.__cause__
    return text if cause is None else f"{text}, from {type(cause).__name__}: {str(cause)[-100:]}"


def count_threads() -> int:
    return len(os.listdir("/proc/self/task"))


class Loader(importlib.machinery.SourceFileLoader):
    """For modules without a .pyc beside them there may be one in the template's own folder. Python
    compares its time and size with the source as always.
    """

    def get_data(self, path: str) -> bytes:
        try:
            return super().get_data(path)
        except OSError:
            if not path.endswith(".pyc"):
                raise
            return super().get_data(BYTECODE + path)


def use_bytecode() -> None:
    """sys.pycache_prefix would do, if it did not hide the .pyc files that are there."""
    machinery = importlib.machinery
    if not os.path.isdir(BYTECODE):
        return
    sys.path_hooks[-1] = machinery.FileFinder.path_hook(
        (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
        (Loader, machinery.SOURCE_SUFFIXES),
        (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
    )
    sys.path_importer_cache.clear()


def import_or_note(name: str, optional: bool) -> None:
    try:
        __import__(name)
    except BaseException as error:
        if not optional:
            _husk.broken(f"preload of module {name!r} failed: {explain(error)}")
        absent = isinstance(error, ModuleNotFoundError) and error.name == name.partition(".")[0]
        why = "it is not installed" if absent else explain(error).replace(";", ",")
        notes.append(f"{name}: {why}")


def preload(names: list[str]) -> list[str]:
    """Imports the template's modules. The first that fails ends the zygote with its name, unless it
    has a question mark. Returns those that started threads.
    """
    gc.disable()
    threaded = []
    for name in names:
        before = count_threads()
        import_or_note(name.lstrip("?"), name.startswith("?"))
        if count_threads() > before:
            threaded.append(name)
    return threaded


def check_threads(chosen: argparse.Namespace, threaded: list[str]) -> None:
    """A fork copies only the thread that calls it: whatever the others held stays locked for
    ever. Boxes import modules that start threads themselves.
    """
    n = count_threads()
    if n == 1:
        return
    if threaded:
        start_again(chosen, chosen.without + threaded)
    names = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
    _husk.broken(f"preloads started {n - 1} threads, which no fork can copy: {', '.join(names)}")


def start_again(chosen: argparse.Namespace, without: list[str]) -> NoReturn:
    """Nothing else undoes an import."""
    options = [word for name in without for word in ("--without", name)]
    if chosen.warm:
        options += ["--warm", chosen.warm]
    if chosen.plain_fork:
        options.append("--plain-fork")
    modules = [name for name in chosen.modules if name not in without]
    program = [sys.executable, "-I", "-B", __file__, *options, *modules]
    os.execve(sys.executable, program, environment)


def fill_holes() -> list[object]:
    """Uses up the gaps between objects, so that a box's first objects lie side by side.

    The allocator hands out freed places first, and those are spread over all memory: each would be
    a page to copy in every box. For the same reason every size goes on in a pool that has just been
    begun: its first objects share a page with its header. What is returned must be kept alive.
    """
    kept: list[object] = [None] * 60_000
    del kept[:]  # it keeps its memory, and allocates none while the gaps are filled
    for size in range(16, 513, 16):
        for i in range(POOL_SIZE):
            filler = bytes(size - 40) if size >= 48 else float(i) if size == 32 else object()
            kept.append(filler)
            if i > 150_000 // size and id(filler) % POOL_SIZE < 64:
                break
    _husk.fill_holes()
    return kept


def make_immortal() -> None:
    """Boxes read what is here without changing it: a reference count that changes is a page to copy.

    Older versions of CPython have no such objects, and newer ones were not tried.
    """
    if (3, 12) <= sys.version_info < (3, 14):
        _husk.make_immortal(gc.get_objects(), make_immortal.__code__)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--plain-fork", action="store_true", help="do not freeze memory (benchmarks)"
    )
    parser.add_argument("--warm", default="", help="code that boxes run before they are parked")
    parser.add_argument(
        "--without", action="append", default=[], help="a module that started threads"
    )
    parser.add_argument("modules", nargs="*")
    return parser.parse_args()


def main() -> None:
    chosen = options()
    use_bytecode()
    threaded = preload(chosen.modules)
    runner.prepare(chosen.warm)
    check_threads(chosen, threaded)
    notes.extend(f"{name.lstrip('?')}: its import starts threads" for name in chosen.without)
    _husk.note("; ".join(notes))
    gc.collect()
    if not chosen.plain_fork:
        make_immortal()
    kept = fill_holes()
    gc.freeze()
    gc.enable()
    if not chosen.plain_fork:
        _husk.freeze()
        _husk.rehearse()
    sys.excepthook = sys.__excepthook__
    assert kept
    try:
        left_to_do = eval(compile("_husk.zygote()", "sys", "eval"))  # see ending.py
    except OSError as error:  # in a box: a file of the run could not be written
        runner.refuse(error)
    else:
        runner.serve(*left_to_do)


main()
