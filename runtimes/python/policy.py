# SPDX-License-Identifier: Apache-2.0
"""Rules for code that comes through /run: a short list of modules, no eval, no way around that.

This is a lint; the box is the wall. The rules tell clients early and clearly what a calculation
service is not for. They confine nothing: allowed libraries open files themselves, and names can be
put together at run time. No security property may depend on this file.

The first offence in the order of the source is reported, in words that clients of the service know.
"""

import ast
import re
from typing import Any, Callable, TypeVar

DENIED_MODULES = frozenset(
    "os subprocess sys importlib eval exec compile __import__ open file input raw_input socket urllib httplib ftplib "
    "telnetlib pickle cPickle marshal shelve".split()
)
ALLOWED_MODULES = frozenset(
    "math cmath decimal fractions random statistics itertools functools operator collections heapq bisect array "
    "datetime calendar copy pprint re string textwrap unicodedata json csv numpy sympy pandas matplotlib scipy "
    "sklearn".split()
)
# Of io: streams in memory and what belongs to them, nothing that opens a file.
ALLOWED_FROM = {
    "io": frozenset(
        "StringIO BytesIO TextIOWrapper BufferedReader BufferedWriter BufferedRWPair BufferedRandom IOBase RawIOBase "
        "BufferedIOBase TextIOBase DEFAULT_BUFFER_SIZE SEEK_SET SEEK_CUR SEEK_END UnsupportedOperation "
        "BlockingIOError IncrementalNewlineDecoder".split()
    )
}
# Built-in functions that may not even be mentioned: f = eval would be as good as a call.
DENIED_NAMES = frozenset(
    "eval exec compile __import__ open input getattr setattr delattr vars globals locals breakpoint".split()
)
# No longer built in, so only a call counts.
DENIED_CALLS = DENIED_NAMES | frozenset("file raw_input execfile reload".split())

# Special names that classes and their subclasses use of each other, or that only describe an
# object. All others lead from any object to the interpreter's internals.
ALLOWED_SPECIAL = frozenset(
    f"__{name}__"
    for name in (
        "name qualname doc version all slots annotations debug file main match_args init new post_init init_subclass "
        "set_name del call repr str bytes format hash bool len length_hint iter next reversed contains getitem setitem "
        "delitem missing enter exit aenter aexit aiter anext await lt le eq ne gt ge add sub mul matmul truediv "
        "floordiv mod divmod pow lshift rshift and xor or radd rsub rmul rmatmul rtruediv rfloordiv rmod rdivmod rpow "
        "rlshift rrshift rand rxor ror iadd isub imul imatmul itruediv ifloordiv imod ipow ilshift irshift iand ixor "
        "ior neg pos abs invert int float complex index round trunc floor ceil copy deepcopy array"
    ).split()
)
# The same internals under other names: frames of generators and tracebacks, modules that modules
# hold.
DENIED_ATTRIBUTES = frozenset(
    "gi_frame gi_code cr_frame cr_code ag_frame ag_code tb_frame f_back f_builtins f_code f_globals f_locals "
    "os _os posix sys _sys _io subprocess importlib builtins _builtins socket pickle _pickle marshal shelve "
    "ctypes".split()
)
# Names that, as a string without spaces, can only be meant for attrgetter() and its like.
TELLING = frozenset(
    "__base__ __bases__ __builtins__ __class__ __closure__ __code__ __dict__ __func__ __getattribute__ __globals__ "
    "__import__ __loader__ __mro__ __reduce__ __reduce_ex__ __self__ __spec__ __subclasses__ __wrapped__".split()
)
SPECIAL = re.compile(r"__\w+?__")


# What every rule needs to find in the text of the code: a denied name as it is, an import, a
# special name, or characters by which any of them could be written otherwise. Most calculations
# have none of it, and a search is far cheaper than a walk.
SUSPICIOUS = re.compile(
    r"[^\t\n\r -~]|[\\_]|(?<![A-Za-z])(?:"
    + "|".join(sorted({"import"} | {n for n in DENIED_CALLS | DENIED_ATTRIBUTES if "_" not in n}))
    + r")(?![A-Za-z0-9])"
)


class PolicyViolation(Exception):
    """The code breaks a rule; the message is the reason."""


def _is_inside(name: str) -> bool:
    is_special = len(name) > 4 and name.startswith("__") and name.endswith("__")
    return name in DENIED_ATTRIBUTES or (is_special and name not in ALLOWED_SPECIAL)


def _check_attribute(name: str) -> None:
    if _is_inside(name):
        raise PolicyViolation(f"Access to '{name}' attribute is not allowed")


def _check_attribute_node(node: ast.Attribute) -> None:
    _check_attribute(node.attr)


def _check_name(node: ast.Name) -> None:
    if not isinstance(node.ctx, ast.Load):
        return
    if node.id in DENIED_NAMES:
        raise PolicyViolation(f"Call to '{node.id}' is not allowed")
    if node.id.startswith("__"):
        _check_attribute(node.id)


def _check_call(node: ast.Call) -> None:
    if isinstance(node.func, ast.Name) and node.func.id in DENIED_CALLS:
        raise PolicyViolation(f"Call to '{node.func.id}' is not allowed")


def _check_text(node: ast.Constant) -> None:
    text = node.value
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    if isinstance(text, str) and "__" in text and not any(map(str.isspace, text)):
        for name in SPECIAL.findall(text):
            if name in TELLING:
                raise PolicyViolation(f"Access to '{name}' attribute is not allowed")


def _check_module(word: str, path: str) -> None:
    """word is "of" or "from": the two kinds of import have a message each."""
    top, *below = path.split(".")
    if top in DENIED_MODULES:
        raise PolicyViolation(f"Import {word} '{top}' is not allowed")
    if top not in ALLOWED_MODULES:
        raise PolicyViolation(f"Import {word} '{top}' is not in the allowed list")
    for name in below:
        if name in DENIED_ATTRIBUTES:
            raise PolicyViolation(f"Import {word} '{path}' is not allowed")


def _check_import(node: ast.Import) -> None:
    for alias in node.names:
        top = alias.name.split(".")[0]
        if top in ALLOWED_FROM:
            raise PolicyViolation(
                f"Direct import of '{top}' is not allowed. Use 'from {top} import specific_item' instead"
            )
        _check_module("of", alias.name)


def _check_import_from(node: ast.ImportFrom) -> None:
    module = node.module or ""
    if node.level:
        raise PolicyViolation(f"Import from '{'.' * node.level}{module}' is not allowed")
    if module == "__future__":
        return  # an instruction to the compiler
    only = ALLOWED_FROM.get(module)
    if only is None:
        _check_module("from", module)
    for alias in node.names:
        if only is not None and alias.name == "*":
            raise PolicyViolation(f"Wildcard import from '{module}' is not allowed")
        if _is_inside(alias.name) or (only is not None and alias.name not in only):
            raise PolicyViolation(f"Import of '{alias.name}' from '{module}' is not allowed")


def _check_pattern(node: Any) -> None:
    """case C(__class__=x) reads attributes, too."""
    for name in node.kwd_attrs:
        _check_attribute(name)


_RULES: dict[type, Callable[[Any], None]] = {
    ast.Name: _check_name,
    ast.Attribute: _check_attribute_node,
    ast.Call: _check_call,
    ast.Constant: _check_text,
    ast.Import: _check_import,
    ast.ImportFrom: _check_import_from,
}
if hasattr(ast, "MatchClass"):  # from 3.10 on
    _RULES[ast.MatchClass] = _check_pattern

_ANNOTATED = {
    ast.FunctionDef: "returns",
    ast.AsyncFunctionDef: "returns",
    ast.arg: "annotation",
    ast.AnnAssign: "annotation",
}


def _quoted(annotation: ast.AST) -> list[ast.AST]:
    """Annotations in quotes are code: functools.singledispatch evaluates them, and quotes within
    quotes as well.
    """
    found: list[ast.AST] = []
    for node in ast.walk(annotation):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                code = ast.parse(node.value, mode="eval")
            except (SyntaxError, ValueError):
                continue  # then it cannot be evaluated either
            found += [code, *_quoted(code)]
    return found


def _check_tree(tree: ast.AST) -> None:
    """Goes through the nodes in the order of the source."""
    stack = [tree]
    while stack:
        node = stack.pop()
        rule = _RULES.get(type(node))
        if rule is not None:
            rule(node)
        for field in reversed(node._fields):
            value = getattr(node, field, None)
            if isinstance(value, list):
                stack += [item for item in reversed(value) if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST) and field != "ctx":
                stack.append(value)
        where = _ANNOTATED.get(type(node))
        annotation = getattr(node, where) if where is not None else None
        if annotation is not None:
            stack += _quoted(annotation)


def may_break_a_rule(source: str) -> bool:
    """False only for code in which no rule can find anything. Annotations in quotes may be put
    together of parts.
    """
    has_quotes = "'" in source or '"' in source
    return SUSPICIOUS.search(source) is not None or (has_quotes and ":" in source)


T = TypeVar("T")


def parsed(parse: Callable[[], T]) -> T:
    """The syntax tree; code that is not Python breaks the policy."""
    try:
        return parse()
    except (SyntaxError, ValueError) as error:
        raise PolicyViolation(f"Syntax error: {error}") from None
    except (RecursionError, MemoryError):
        raise PolicyViolation("Syntax error: the code is nested too deeply") from None


def check(source: str, name: str) -> None:
    """Raises PolicyViolation for the first rule that the code breaks. Callers compile the code with
    parsed().
    """
    if may_break_a_rule(source):
        parsed(lambda: _check_tree(ast.parse(source, name)))
