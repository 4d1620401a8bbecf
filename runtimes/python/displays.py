# SPDX-License-Identifier: Apache-2.0
"""Rich results, as notebooks have them: a value in all forms that it offers, and the figures of
matplotlib.

Imported in the zygote, before any user code; does nothing until a run requests displays. From then
on there is a built-in display(), and matplotlib, once imported, draws into memory and shows its
figures through this module.
"""

import binascii
import builtins
import importlib.machinery
import io
import json
import sys
import traceback
import types
from typing import Any, Callable, Iterable, Optional

import _husk
import values
from wire import encode

TEXT_MAX = 1 << 20
FORMS_MAX, MIME_MAX = 32, 100  # src/wire/frame.h
TABLE_ROWS_MAX = 1000
TABLE = "application/vnd.husk.table+json"
BACKEND = "husk_figures"  # a module that exists only for matplotlib
OTHER_BACKENDS = ("cairo", "module://", "pdf", "pgf", "ps", "svg", "template")

# Methods that an object may have, in the order of the answer.
METHODS = (
    ("text/html", "_repr_html_"),
    ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("text/latex", "_repr_latex_"),
    ("application/json", "_repr_json_"),
    ("text/markdown", "_repr_markdown_"),
)
# An object that has this attribute has every attribute, so none of them means anything.
NONSENSE = "_husk_nobody_has_this_"
CARRIED_AS_BASE64 = ("image/", "audio/", "video/", "application/pdf", "application/octet-stream")
MIME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~")

Offer = Iterable[tuple[Any, Any]]  # type and data, both unchecked

_installed = False  # display() and our part of matplotlib
_wanted = False  # by the run that is going on
_shown: list[Any] = []  # its figures that need not be shown again at its end


def _is_mime(name: Any) -> bool:
    if not isinstance(name, str) or len(name) > MIME_MAX:
        return False
    kind, _, rest = name.partition("/")
    return bool(kind and rest) and MIME_CHARACTERS.issuperset(kind + rest)


def _is_text(mime: str) -> bool:
    return mime.startswith("text/") or mime.endswith(
        ("/json", "+json", "/xml", "+xml", "/javascript")
    )


def _text(value: str) -> bytes:
    return encode(value, "utf-8", "backslashreplace")


def _json(data: Any) -> bytes:
    """Text is taken for JSON when it is JSON."""
    if isinstance(data, str):
        try:
            json.loads(data)
            return _text(data)
        except ValueError:
            pass
    return _text(values.to_json(data))


def _encode(mime: str, data: Any) -> bytes:
    if mime.endswith(("/json", "+json")):
        return _json(data)
    if isinstance(data, str):
        is_base64 = mime.startswith(CARRIED_AS_BASE64) and not _is_text(mime)
        return binascii.a2b_base64(data) if is_base64 else _text(data)
    content = bytes(data)
    return _text(content.decode("utf-8")) if _is_text(mime) else content


def _ask(value: Any, method: str, **arguments: Any) -> Any:
    """The answer without its metadata; None if there is no answer."""
    function = getattr(value, method, None)
    answer = function(**arguments) if callable(function) else None
    return answer[0] if isinstance(answer, tuple) and len(answer) == 2 else answer


def _bundle(value: Any) -> Offer:
    answer = _ask(value, "_repr_mimebundle_", include=None, exclude=None)
    return answer.items() if isinstance(answer, dict) else ()


def _is_a(value: Any, module: str, name: str) -> bool:
    """isinstance() that imports nothing: without the module there is no such value."""
    found = getattr(sys.modules.get(module), name, None)
    return isinstance(found, type) and isinstance(value, found)


def _table(value: Any) -> Offer:
    if not _is_a(value, "pandas", "DataFrame"):
        return
    rows = value.head(TABLE_ROWS_MAX).to_json(
        orient="values", date_format="iso", default_handler=str
    )
    yield TABLE, {
        "columns": [str(name) for name in value.columns],
        "dtypes": [str(kind) for kind in value.dtypes],
        "rows": json.loads(rows),
        "total_rows": len(value),
    }


def _figure(value: Any) -> Offer:
    if not _is_a(value, "matplotlib.figure", "Figure"):
        return
    _shown.append(value)
    if value.axes or value.lines or value.texts or value.images:  # else there is nothing to see
        target = io.BytesIO()
        value.savefig(target, format="png", bbox_inches="tight")
        yield "image/png", target.getvalue()


def _add(forms: dict[str, bytes], offer: Offer) -> None:
    """Adds forms that are well-formed and new."""
    for mime, data in offer:
        mime = mime.lower() if isinstance(mime, str) else None
        if data is not None and _is_mime(mime) and mime not in forms and len(forms) < FORMS_MAX - 1:
            forms[mime] = _encode(mime, data)


def _complain(error: BaseException) -> None:
    """A form that fails costs nothing but itself; its traceback goes where programs write
    theirs.
    """
    tb: Optional[types.TracebackType] = error.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename == __file__:
        tb = tb.tb_next
    traceback.print_exception(type(error), error, tb)


def _offers(value: Any) -> Iterable[Callable[[], Offer]]:
    yield lambda: _bundle(value)
    for mime, method in METHODS:
        yield lambda m=mime, f=method: [(m, _ask(value, f))]  # type: ignore[misc]
    yield lambda: _table(value)
    yield lambda: _figure(value)


def _forms(value: Any) -> dict[str, bytes]:
    """The value in all its forms, text/plain first."""
    forms: dict[str, bytes] = {}
    if not isinstance(value, type) and not hasattr(value, NONSENSE):
        for offer in _offers(value):
            try:
                _add(forms, offer())
            except NotImplementedError:
                pass
            except Exception as error:
                _complain(error)
    plain = forms.pop("text/plain", None) or _text(repr(value))
    plain = plain[:TEXT_MAX].decode("utf-8", "ignore").encode()
    return {"text/plain": plain, **forms}


def _send(forms: dict[str, bytes]) -> None:
    if not _husk.display([(mime.encode(), data) for mime, data in forms.items()]):
        print(forms.get("text/plain", b"").decode())


def display(*objects: Any, raw: bool = False) -> None:
    """Shows objects in the forms that they offer. With raw, they are dicts of MIME types and
    data.
    """
    for value in objects:
        if not raw:
            _send(_forms(value))
            continue
        forms: dict[str, bytes] = {}
        _add(forms, value.items())
        if not forms:
            raise ValueError("nothing in it is a MIME type with data")
        _send(forms)


def show_figures(*_: Any, **__: Any) -> None:
    """Shows and closes the figures that are open: plt.show(), and the end of every run."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or not _wanted:
        return
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        if not any(figure is other for other in _shown):
            display(figure)
    pyplot.close("all")


class _Figures:
    """Finds and makes the module that matplotlib takes for a backend."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> Optional[importlib.machinery.ModuleSpec]:
        if name == "matplotlib.pyplot":
            _choose_backend()
        return importlib.machinery.ModuleSpec(name, _Figures()) if name == BACKEND else None  # type: ignore[arg-type]

    def create_module(self, _: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        from matplotlib.backend_bases import FigureManagerBase  # type: ignore[import]
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # type: ignore[import]

        module.FigureCanvas = FigureCanvasAgg
        module.FigureManager = FigureManagerBase
        module.show = show_figures


def _choose_backend() -> bool:
    """Ours, unless code has asked for another one that works without a screen."""
    settings = sys.modules["matplotlib"].rcParams
    chosen = dict.__getitem__(settings, "backend")  # settings["backend"] would make the choice
    if isinstance(chosen, str) and chosen.lower().startswith(OTHER_BACKENDS):
        return False
    settings["backend"] = "module://" + BACKEND
    return True


def begin() -> None:
    """A run that wants displays begins."""
    global _wanted, _installed
    _wanted = True
    if _installed:
        return
    _installed = True
    setattr(builtins, "display", display)
    sys.meta_path.insert(0, _Figures)
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None and _choose_backend():
        pyplot.switch_backend("module://" + BACKEND)


def end(error: Optional[BaseException]) -> None:
    """The run is over. An interrupted one shows nothing more: drawing may be what took so long."""
    global _wanted
    try:
        if not isinstance(error, KeyboardInterrupt):
            show_figures()
    except Exception as second:
        if error is None:
            raise
        _complain(second)
    finally:
        _wanted = False
        _shown.clear()
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None:
            pyplot.close("all")
