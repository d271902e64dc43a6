"""The shape of the tree: which room may import which, how long a file may be, what a room never does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tenfold

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tenfold"
SOURCES = sorted(PACKAGE.rglob("*.py"))
# A room may import those of lower levels only.
LEVELS = (
    ("core",),
    ("config",),
    ("text", "checkpoints", "program", "kernels", "kv", "observe"),
    ("models", "scheduler", "sampling", "grammar"),
    ("engine",),
    ("server",),
    ("lab",),
    ("cli",),
)
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
SAME_LEVEL = {("kernels", "program")}
# The compiled library belongs to those who run tensors, and to doctor, which measures the machine with it.
NATIVE_ROOMS = {"kernels", "sampling", "engine", "lab", "cli"}
NO_TENSORS = {"core", "config", "scheduler", "text", "kv"}
HEAVY = {"torch", "transformers", "tensorflow", "jax"}
FILE_LINES = 400
FUNCTION_LINES = 60


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Dotted names that a module imports, with lines; `from a import b` is a.b, for b may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports name the whole path"
            assert node.module is not None
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def imports_of_rooms() -> list[tuple[str, str, str]]:
    """(place, room, imported name) of every import in a room."""
    found = []
    for path in SOURCES:
        relative = path.relative_to(PACKAGE)
        if len(relative.parts) > 1:
            place = f"{path.relative_to(ROOT)}:"
            found += [(f"{place}{line}", relative.parts[0], name) for name, line in imported(parse(path))]
    return found


IMPORTS = imports_of_rooms()


def test_every_room_has_a_level():
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert rooms <= set(LEVEL)


def test_arrows_point_down():
    wrong = []
    for place, room, name in IMPORTS:
        parts = name.split(".")
        target = parts[1] if parts[0] == "tenfold" and len(parts) > 1 else room
        if target not in LEVEL or target == room:
            continue
        if LEVEL[target] >= LEVEL[room] and (room, target) not in SAME_LEVEL:
            wrong.append(f"{place} {room} imports {name}")
    assert not wrong


def test_only_those_who_run_tensors_import_the_compiled_library():
    users = {(place, room) for place, room, name in IMPORTS if name.startswith("tenfold._native")}
    assert users, "nothing imports the compiled library; does this test still look for its name?"
    assert {room for _, room in users} <= NATIVE_ROOMS, sorted(users)


def test_rooms_of_plans_and_text_import_no_tensors():
    wrong = [
        (place, name)
        for place, room, name in IMPORTS
        if room in NO_TENSORS and name.split(".")[0] in {"numpy", *HEAVY}
    ]
    assert not wrong


def test_nothing_imports_a_training_framework():
    assert not [(place, name) for place, _, name in IMPORTS if name.split(".")[0] in HEAVY]


@pytest.mark.parametrize("folder", ["src", "native", "tests", "bench", "scripts"])
def test_files_are_short(folder):
    files = [
        p
        for p in (ROOT / folder).rglob("*")
        if p.suffix in (".py", ".cpp", ".hpp") or p.parent.name == "scripts"
    ]
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in files
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert not {name: lines for name, lines in lengths.items() if lines > FILE_LINES}


def test_functions_are_short():
    """Counted from the first statement after the docstring: a command's many options are not its length."""
    wrong = {}
    for path in SOURCES:
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
                assert node.end_lineno is not None
                lines = node.end_lineno - body[0].lineno + 1
                if lines > FUNCTION_LINES:
                    wrong[f"{path.relative_to(ROOT)}:{node.name}"] = lines
    assert not wrong


def test_only_the_command_line_prints():
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCES
        if path.relative_to(PACKAGE).parts[0] != "cli"
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not wrong


def test_no_room_for_odds_and_ends():
    names = {"utils", "util", "common", "helpers", "misc"}
    assert not [str(path) for path in SOURCES if names & {part.removesuffix(".py") for part in path.parts}]


def test_export_lists_are_sorted_and_complete():
    for path in SOURCES:
        for node in parse(path).body:
            if isinstance(node, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
            ):
                names = ast.literal_eval(node.value)
                assert names == sorted(set(names)), path
    assert set(tenfold.__all__) == {"__version__", *tenfold._HOMES}
    for name in tenfold.__all__:
        assert getattr(tenfold, name) is not None
    with pytest.raises(AttributeError, match="it has LLM"):
        tenfold.nothing  # noqa: B018
