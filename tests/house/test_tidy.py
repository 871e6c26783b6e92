"""House rules that ruff, mypy and import-linter cannot hold.

A rule is a pure function from the text of a file to what is wrong in it. It stands in ``RULES``
beside a text that offends it and one that does not, so that a rule that cannot trip is noticed.
"""

import ast
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 500  # 100 to 300 is usual; past this a module holds two nouns

SOURCE = ("src/**/*.py",)
UNSHIPPED = ("tests/**/*.py", "examples/**/*.py", "bench/**/*.py")
PYTHON = (*SOURCE, *UNSHIPPED)

Function = ast.FunctionDef | ast.AsyncFunctionDef


# ---------------------------------------------------------------- length


def long_functions(source: str) -> Iterator[str]:
    """Functions that no longer fit on a screen, their decorators apart."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Function):
            line_count = (node.end_lineno or node.lineno) - node.lineno + 1
            if line_count > FUNCTION_LINES_MAX:
                yield f"{node.lineno}: {node.name} has {line_count} lines"


def long_module(source: str) -> Iterator[str]:
    """The module itself, if it is too long."""
    line_count = len(source.splitlines())
    if line_count > MODULE_LINES_MAX:
        yield f"1: {line_count} lines"


# ---------------------------------------------------------------- imports, clocks, sleep


def inner_imports(source: str) -> Iterator[str]:
    """Imports inside functions: they hide a dependency, often a cycle."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, Function):
            for node in ast.walk(function):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    yield f"{node.lineno}: {ast.unparse(node)}"


def imported_names(tree: ast.Module) -> dict[str, str]:
    """What each imported name of the module stands for, as a dotted path."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def dotted_path(node: ast.expr, names: Mapping[str, str]) -> str | None:
    """The dotted path that *node* spells, if it starts at an imported name."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        start = dotted_path(node.value, names)
        return start and f"{start}.{node.attr}"
    return None


def sleeps(source: str) -> Iterator[str]:
    """Uses of sleep, other than ``asyncio.sleep(0)``, which only gives way."""
    tree = ast.parse(source)
    names = imported_names(tree)
    gives_way = {
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and dotted_path(node.func, names) == "asyncio.sleep"
        and [ast.unparse(argument) for argument in node.args] == ["0"]
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and id(node) not in gives_way:
            path = dotted_path(node, names)
            if path in {"time.sleep", "asyncio.sleep"}:
                yield f"{node.lineno}: {path}"


def banned_apis() -> frozenset[str]:
    """What pyproject.toml leaves to src/bide/clock.py, less the stop-watches.

    Tests, examples and benchmarks may measure how long a thing took. ruff cannot excuse one name
    of its list for one directory, so it looks away there, and this is checked instead.
    """
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    table = config["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    stop_watches = {
        f"time.{clock}{unit}" for clock in ("monotonic", "perf_counter") for unit in ("", "_ns")
    }
    assert stop_watches < set(table)
    return frozenset(table) - stop_watches


def clock_reads(source: str) -> Iterator[str]:
    """Reads of the time of day, and randomness without a seed."""
    tree = ast.parse(source)
    names = imported_names(tree)
    banned = banned_apis()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            path = dotted_path(node, names)
            # The whole module may be banned, not only one name in it.
            if path and (path in banned or path.split(".")[0] in banned):
                yield f"{node.lineno}: {path}"


# ---------------------------------------------------------------- booleans


def public_functions(node: ast.AST) -> Iterator[Function]:
    """Functions and methods that a user of the module could call."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            if child.name == "__init__" or not child.name.startswith("_"):
                yield child
        elif not (isinstance(child, ast.ClassDef) and child.name.startswith("_")):
            yield from public_functions(child)


def is_setter(function: Function) -> bool:
    """Whether *function* is the setter of a property: ``x.flag = True`` says what it does."""
    return any(
        isinstance(decorator, ast.Attribute) and decorator.attr == "setter"
        for decorator in function.decorator_list
    )


def admits_bool(annotation: ast.expr | None) -> bool:
    """Whether *annotation* is bool, or a union with it."""
    if isinstance(annotation, ast.BinOp):
        return admits_bool(annotation.left) or admits_bool(annotation.right)
    return isinstance(annotation, ast.Name) and annotation.id == "bool"


def positional_booleans(source: str) -> Iterator[str]:
    """Public functions that can be called as ``f(True)``, which tells a reader nothing."""
    for function in public_functions(ast.parse(source)):
        if is_setter(function):
            continue
        arguments = [*function.args.posonlyargs, *function.args.args]
        defaults = function.args.defaults
        by_default = {
            argument.arg
            for argument, default in zip(arguments[::-1], defaults[::-1], strict=False)
            if isinstance(default, ast.Constant) and isinstance(default.value, bool)
        }
        for argument in arguments:
            if argument.arg in by_default or admits_bool(argument.annotation):
                yield f"{argument.lineno}: {function.name}({argument.arg})"


# ---------------------------------------------------------------- words, tests

# What only those who built this tree can follow. A reader of the project has the project alone.
OUTSIDE = re.compile(
    r"\.\./shared"
    r"|\b(DESIGN|STYLE)\.md\b"
    r"|\bissues?\b"
    r"|\b(this|that|an?|the|last|next|another|earlier|previous|later) session\b"
    r"|\bsession \d",
    re.IGNORECASE,
)


def outside_references(text: str) -> Iterator[str]:
    """Words that point out of the checkout."""
    for number, line in enumerate(text.splitlines(), start=1):
        if match := OUTSIDE.search(line):
            yield f"{number}: {match[0]!r}"


def no_test(source: str) -> Iterator[str]:
    """A file of tests that holds none: a misnamed function, or a state machine without a case."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Function) and node.name.startswith("test_"):
            return
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).startswith("Test"):
            return
    yield "1: no test in it"


# ---------------------------------------------------------------- the rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule, where it holds, and one text each that offends it and that does not."""

    find: Callable[[str], Iterator[str]]
    where: tuple[str, ...]
    bad: str
    good: str
    excused: Mapping[str, str] = field(default_factory=dict)  # start of a path: the reason


def function_of_lines(line_count: int) -> str:
    """A function with *line_count* lines."""
    return "def f():\n" + "    pass\n" * (line_count - 1)


RULES = [
    Rule(
        find=long_functions,
        where=PYTHON,
        bad=function_of_lines(FUNCTION_LINES_MAX + 1),
        good=function_of_lines(FUNCTION_LINES_MAX),
    ),
    Rule(
        find=long_module,
        where=PYTHON,
        bad="#\n" * (MODULE_LINES_MAX + 1),
        good="#\n" * MODULE_LINES_MAX,
    ),
    Rule(
        find=inner_imports,
        where=PYTHON,
        bad="class A:\n    async def f(self):\n        from os import path\n",
        good="import os\nif os.name == 'nt':\n    import msvcrt\n",
        excused={"src/bide/cli/": "a command should not pay for the start of all the others"},
    ),
    Rule(
        find=sleeps,
        where=PYTHON,
        bad="import time as t\ndef f(wait=t.sleep): ...\n",
        good="import asyncio\nasync def f(): await asyncio.sleep(0)\n",
    ),
    Rule(
        find=sleeps,
        where=PYTHON,
        bad="from asyncio import sleep\nasync def f(): await sleep(0.1)\n",
        good="from asyncio import sleep\nasync def f(door): await sleep(0); door.sleep(1)\n",
    ),
    Rule(
        find=clock_reads,
        where=UNSHIPPED,
        bad="import time\nstart = time.time()\n",
        good="import time\nstart = time.monotonic()\n",
    ),
    Rule(
        find=clock_reads,
        where=UNSHIPPED,
        bad="from datetime import datetime as moment\nnow = moment.now\n",
        good="import random\ndice = random.Random(7).random()\n",
    ),
    Rule(
        find=clock_reads,
        where=UNSHIPPED,
        bad="from secrets import token_hex\nname = token_hex()\n",
        good="import secretservice\nname = secretservice.token_hex()\n",
    ),
    Rule(
        find=positional_booleans,
        where=SOURCE,
        bad="class A:\n    def stop(self, now: bool | None): ...\n",
        good="class A:\n    def stop(self, *, now: bool): ...\n    def _f(self, now: bool): ...\n",
    ),
    Rule(
        find=positional_booleans,
        where=SOURCE,
        bad="if 1:\n    def stop(a, now=True): ...\n",
        good="class A:\n    @now.setter\n    def now(self, value: bool): ...\n",
    ),
    Rule(
        find=outside_references,
        where=("src/**/*.py", "docs/**/*.md", "README.md", "ARCHITECTURE.md", "CHANGELOG.md"),
        bad="As the Issue says:\n",
        good="A tissue of sessions, shared.\n",
    ),
    Rule(
        find=outside_references,
        where=("src/**/*.py", "docs/**/*.md", "README.md", "ARCHITECTURE.md", "CHANGELOG.md"),
        bad="left for a later session\n",
        good="Each session of a PostgreSQL client.\n",
    ),
    Rule(
        find=no_test,
        where=("tests/**/test_*.py",),
        bad="class TestThings:\n    def tests_that(self): ...\n",
        good="TestThings = Machine.TestCase\n",
    ),
]

EACH_RULE = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.find.__name__)


@EACH_RULE
def test_the_rule_trips_over_a_violation(rule: Rule) -> None:
    assert list(rule.find(rule.bad))


@EACH_RULE
def test_the_rule_lets_good_source_pass(rule: Rule) -> None:
    assert list(rule.find(rule.good)) == []


@EACH_RULE
def test_the_project_keeps_the_rule(rule: Rule) -> None:
    paths = [path for pattern in rule.where for path in sorted(ROOT.glob(pattern))]
    assert paths, f"the rule looks at nothing: {rule.where}"
    problems = []
    for path in paths:
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(tuple(rule.excused)):
            text = path.read_text(encoding="utf-8")
            problems += [f"{name}:{problem}" for problem in rule.find(text)]
    assert problems == []


# ---------------------------------------------------------------- names of files

VAGUE = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}


def vague_name(path: Path) -> str | None:
    """The part of *path* that names no noun, if there is one."""
    return next((part for part in (*path.parent.parts, path.stem) if part in VAGUE), None)


def test_vague_names_are_found() -> None:
    assert vague_name(Path("src/bide/model/utils.py")) == "utils"
    assert vague_name(Path("src/bide/common/job.py")) == "common"
    assert vague_name(Path("src/bide/model/database.py")) is None


def test_every_file_is_named_for_what_it_holds() -> None:
    paths = [path.relative_to(ROOT) for pattern in PYTHON for path in ROOT.glob(pattern)]
    assert [path for path in paths if vague_name(path)] == []
