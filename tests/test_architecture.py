"""Holds the import law, by reading every import of the package: what a room may use, and what nothing in `judge` may touch.

Imports for types only count as well: the law is about who knows of whom. May read sources only; imports nothing of ours.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = "watchdog"
ROOT = Path(__file__).parent.parent / PACKAGE

MODULE_LINES = 400
FUNCTION_LINES = 40

_PURE = {"model", "judge"}
_EDGES = {"procfs", "procfile", "procstat", "supervisor", "childread", "readchild", "killed", "mounts", "durable"}
"""Where the world is touched, for every room that has to."""
_WORDS = {"logfmt"}
"""How a line of the log is spelt, for whoever writes one."""
_TEXT = {"ansi"}
"""How text that others wrote is read. Imports nothing."""
_NUMBERS = {"exitcode", "sunpath"}
"""Constants that more than one room needs. Each is in one place, and imports nothing."""
_CONFIG = {"config", "configfile", "problems", "resources", "rulefiles", "structure", "units", "yamlfile"}
_ROOMS = {"look", "collect", "act", "show"}
_WIRED = _PURE | _EDGES | _WORDS | _TEXT | _NUMBERS | _CONFIG | _ROOMS | {"journal"}

LAW: Mapping[str, set[str]] = {
    # room, or module beside the rooms -> which others of ours it may import
    "model": set(),
    "judge": {"model"},
    **{module: set() for module in _NUMBERS | _TEXT},
    **dict.fromkeys(_EDGES, _PURE | _EDGES | {"sunpath"}),
    "durable": set(),
    "killed": set(),
    "readchild": set(),  # run by itself, for one read: it must start quickly
    **{module: {"model", "sunpath"} | _CONFIG for module in _CONFIG},
    "logfmt": set(),
    "journal": _PURE | {"durable"},
    "look": _PURE | _EDGES | _TEXT,
    "collect": _PURE | _EDGES | _TEXT,
    "act": _PURE | _EDGES | _WORDS,
    "show": _PURE,
    "daemon": _WIRED,
    "cli": _WIRED | {"daemon", "demo"},
    "demo": _WIRED | {"daemon", "cli"},
    "__main__": {"cli"},
}

OTHERS: Mapping[str, set[str]] = {
    # someone else's package -> the rooms that may import it; `supervisor` is a program we talk to, never a library
    "attrs": {"structure"},
    "cattrs": {"structure", "journal"},
    "click": {"cli"},
    "prometheus_client": {"show", "daemon"},
    "psutil": {"demo"},  # of the extra `demo`
    "rich": {"cli", "show", "demo"},
    "yaml": {"yamlfile", "daemon"},  # the daemon: state.directory of a configuration that may be broken
}

LAZY = {"rich"}
"""Imported inside functions only: it costs every daemon 4 MB, and only commands that print need it."""

PURE_STDLIB = {
    "__future__", "array", "bisect", "collections", "copy", "dataclasses", "enum", "fnmatch", "functools", "heapq", "itertools",
    "json", "math", "operator", "re", "statistics", "string", "types", "typing",
}  # fmt: skip
"""All that `model` and `judge` may use of the standard library: nothing in it reads a clock, a file, a process or chance."""

PURE_WITH: Mapping[str, int] = {"time.gmtime": 1, "time.strftime": 2}
"""Names of impure modules that are pure when given so many arguments; with fewer they read the clock."""

IMPURE_BUILTINS = {"open", "print", "input", "exec", "eval", "compile", "__import__", "breakpoint", "hash"}
"""`hash` of a text differs from run to run, so that same inputs would not give same outputs."""

EMPTY_NAMES = {"utils", "util", "helpers", "common", "misc", "base", "core", "lib", "tools"}


@dataclass(frozen=True)
class Module:
    name: str
    """Dotted, without the package: `judge.decide`; '' is the package itself."""
    source: str
    is_package: bool = False

    @property
    def room(self) -> str:
        return self.name.partition(".")[0]

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)


@dataclass(frozen=True)
class Import:
    target: str
    """Full dotted name. For `from a import b` it is `a.b`; of ours `a` is told as well, since b may be a module of it."""
    line: int
    deferred: bool
    """Not made when the module is imported: inside a function, or for types only."""
    base: bool = False
    """The `a` of `from a import b`."""


def read_package(root: Path) -> list[Module]:
    return [_module(path, root) for path in sorted(root.rglob("*.py"))]


def _module(path: Path, root: Path) -> Module:
    parts = list(path.relative_to(root).with_suffix("").parts)
    is_package = parts[-1] == "__init__"
    return Module(".".join(parts[:-1] if is_package else parts), path.read_text(), is_package)


def imports(module: Module) -> Iterator[Import]:
    for node, deferred in _walk(module.tree, deferred=False):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno, deferred) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, module)
            if room_of(base) is not None:
                yield Import(base, node.lineno, deferred, base=True)
            yield from (Import(f"{base}.{alias.name}", node.lineno, deferred) for alias in node.names)


def _walk(node: ast.AST, deferred: bool) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        yield child, deferred
        yield from _walk(child, deferred or _defers(child))


def _defers(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return ast.unparse(node.test).endswith("TYPE_CHECKING")
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def _absolute(node: ast.ImportFrom, module: Module) -> str:
    if not node.level:
        return node.module or ""
    here = [PACKAGE, *module.name.split(".")] if module.name else [PACKAGE]
    package = here if module.is_package else here[:-1]
    kept = package[: len(package) - node.level + 1]
    return ".".join([*kept, node.module] if node.module else kept)


def room_of(target: str) -> str | None:
    """The room of ours that `target` names; None: not ours. '' is the package itself, which holds the version only."""
    head, _, rest = target.partition(".")
    return rest.partition(".")[0] if head == PACKAGE else None


def breaches(module: Module, rooms: set[str]) -> list[str]:
    """Every import of `module` that the law forbids; `rooms` are those that exist."""
    found = [f"{module.name}:{i.line}: {why}" for i in imports(module) if (why := _breach(module, i, rooms))]
    if module.room in _PURE:
        found += [f"{module.name}:{line}: calls {name}" for name, line in _impure_calls(module)]
    return found


def _breach(module: Module, found: Import, rooms: set[str]) -> str | None:
    ours = room_of(found.target)
    if ours is None:
        return _breach_by_others(module, found)
    if ours not in rooms:  # the package itself, or a name in it
        return None if module.room not in _PURE or found.target == PACKAGE else f"imports {found.target}"
    if ours == module.room or ours in LAW.get(module.room, set()):
        return None
    return f"{module.room} may not import {ours} ({found.target})"


def _breach_by_others(module: Module, found: Import) -> str | None:
    top = found.target.partition(".")[0]
    if module.room in _PURE:
        pure = top in PURE_STDLIB or found.target in PURE_WITH
        return None if pure else f"{module.room} is pure and may not import {top}"
    if top == "supervisor":
        return "supervisor is a program that we talk to; only the extras install it"
    if top in OTHERS and module.room not in OTHERS[top]:
        return f"only {', '.join(sorted(OTHERS[top]))} may import {top}"
    if top in LAZY and not found.deferred:
        return f"{top} is imported inside functions only"
    return None


def _impure_calls(module: Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name) and node.id in IMPURE_BUILTINS and isinstance(node.ctx, ast.Load):
            yield node.id, node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            needed = {name.partition(".")[2]: count for name, count in PURE_WITH.items()}.get(node.func.id, 0)
            if len(node.args) < needed:
                yield f"{node.func.id} without the time", node.lineno


def long_functions(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield f"{module.name}:{node.lineno}: {node.name} has {lines} lines"


def dependencies(modules: list[Module]) -> dict[str, set[str]]:
    """Which module needs which to be imported at all: imports inside functions and for types only are left out."""
    names = {f"{PACKAGE}.{m.name}": m for m in modules if m.name}
    return {f"{PACKAGE}.{m.name}": _needed(m, set(names)) for m in modules if m.name}


def _needed(module: Module, names: set[str]) -> set[str]:
    needed = set()
    for found in imports(module):
        package, _, _ = found.target.rpartition(".")
        if not found.deferred and not found.base:
            needed.add(found.target if found.target in names else package)
    return (needed & names) - {f"{PACKAGE}.{module.name}"}


MODULES = read_package(ROOT)
ROOMS = {m.room for m in MODULES if m.room}
NAMES = [m.name or PACKAGE for m in MODULES]

every_module = pytest.mark.parametrize("module", MODULES, ids=NAMES)


def test_the_package_is_read() -> None:
    assert {"model", "judge", "look", "collect", "act", "show"} <= ROOMS


def test_every_room_is_in_the_law() -> None:
    assert ROOMS - LAW.keys() == set(), "a new room or module: say in LAW what it may import"


@every_module
def test_imports_go_one_way(module: Module) -> None:
    assert breaches(module, ROOMS) == []


def test_no_module_needs_itself_through_others() -> None:
    try:
        TopologicalSorter(dependencies(MODULES)).prepare()
    except CycleError as error:
        pytest.fail(f"modules import each other in a circle: {' -> '.join(error.args[1])}")


@every_module
def test_module_and_functions_fit_on_a_screen(module: Module) -> None:
    lines = module.source.count("\n")
    assert lines <= MODULE_LINES
    assert list(long_functions(module)) == []


@every_module
def test_module_is_named_for_what_it_does(module: Module) -> None:
    assert module.name.rpartition(".")[2] not in EMPTY_NAMES


@pytest.mark.parametrize(
    ("name", "source", "says"),
    [
        ("model.rule", "from watchdog.judge import decide", "model may not import judge"),
        ("model.rule", "import dataclasses, time", "model is pure and may not import time"),
        ("judge.decide", "import logging", "judge is pure and may not import logging"),
        ("judge.decide", "from pathlib import Path", "judge is pure and may not import pathlib"),
        ("judge.decide", "import yaml", "judge is pure and may not import yaml"),
        ("judge.decide", "def f():\n    from ..procfs import Proc", "judge may not import procfs"),
        ("judge.decide", "def f():\n    return open('x')", "calls open"),
        ("judge.decide", "read = open", "calls open"),
        ("judge.decide", "from time import gmtime, monotonic", "judge is pure and may not import time"),
        ("judge.decide", "from time import gmtime\ngmtime()", "calls gmtime without the time"),
        ("judge.decide", "from time import gmtime, strftime\nstrftime('%H')", "calls strftime without the time"),
        ("judge.decide", "from watchdog import __version__", "imports watchdog.__version__"),
        ("look.host", "from watchdog.collect import logs", "look may not import collect"),
        ("look.host", "from watchdog import collect", "look may not import collect"),
        ("look.host", "if TYPE_CHECKING:\n    from ..show import status", "look may not import show"),
        ("act.restart", "import watchdog.look.host", "act may not import look"),
        ("collect.logs", "from watchdog import daemon", "collect may not import daemon"),
        ("show.status", "from watchdog.cli import main", "show may not import cli"),
        ("show.status", "import rich.table", "rich is imported inside functions only"),
        ("daemon", "def f():\n    import rich", "may import rich"),
        ("daemon", "import click", "only cli may import click"),
        ("journal", "from watchdog.daemon import loop", "journal may not import daemon"),
        ("supervisor", "from supervisor.xmlrpc import SupervisorTransport", "a program that we talk to"),
    ],
)
def test_a_breach_is_found(name: str, source: str, says: str) -> None:
    rooms = {*LAW}
    found = breaches(Module(name, source), rooms)
    assert found
    assert says in found[0]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("judge.decide", "from watchdog.model import world\nfrom .clocks import advance\nimport collections.abc, math"),
        ("judge.decide", "from time import gmtime, strftime\nstrftime('%H', gmtime(3.0))"),
        ("look.host", "import os\nfrom watchdog.procfs import Proc\nfrom watchdog.look import heartbeats"),
        ("cli.status", "def f():\n    from rich.table import Table"),
        ("cli.status", "if TYPE_CHECKING:\n    from rich.table import Table"),
        ("daemon", "from watchdog import __version__\nfrom watchdog.look.observe import observe"),
    ],
)
def test_what_is_allowed_is_not_a_breach(name: str, source: str) -> None:
    assert breaches(Module(name, source), {*LAW}) == []


def test_a_circle_is_found() -> None:
    circle = [Module("act.a", "from . import b"), Module("act.b", "import watchdog.act.a")]
    with pytest.raises(CycleError):
        TopologicalSorter(dependencies(circle)).prepare()
    for_types = [circle[0], Module("act.b", "if TYPE_CHECKING:\n    import watchdog.act.a")]
    TopologicalSorter(dependencies(for_types)).prepare()


def test_a_long_function_is_found() -> None:
    body = "\n".join(["    x = 1"] * FUNCTION_LINES)
    assert list(long_functions(Module("a", f"def f():\n{body}"))) == [f"a:1: f has {FUNCTION_LINES + 1} lines"]
