"""The house rules that a machine can hold: sizes, prints, names, layout, machine paths."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("schemas", "runtime", "producers", "stream_jobs", "sinks", "fleetpulse", "lab", "sdk/fleetpulse_track")
FACES = ("fleetpulse/", "lab/")
"""What may print."""
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 400
SAYS_NOTHING = {"utils.py", "types.py", "common.py", "helpers.py", "misc.py"}
# Longer modules, each with its reason.
LONG_MODULES: dict[str, str] = {
    "stream_jobs/runner/exactly_once.py": "one state machine; the order of its steps is the protocol",
}


def modules() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))


def package_of(path: Path) -> str:
    """The dotted name of the package that a module is in."""
    return ".".join(path.parent.relative_to(ROOT / "sdk" if path.is_relative_to(ROOT / "sdk") else ROOT).parts)


@dataclass(frozen=True, slots=True)
class Found:
    """A function of the code with its lines, or a call; ``name`` is the last part of what is called."""

    place: str
    name: str
    lines: int
    plain: bool

    @property
    def file(self) -> str:
        return self.place.partition(":")[0]


@cache
def found() -> tuple[list[Found], list[Found]]:
    """Every function and every call of the code, read once for all tests."""
    functions, calls = list[Found](), list[Found]()
    for path in modules():
        name = path.relative_to(ROOT)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                functions.append(Found(f"{name}:{node.lineno}", node.name, node.end_lineno - node.lineno + 1, True))
            elif isinstance(node, ast.Call):
                called, plain = node.func, isinstance(node.func, ast.Name)
                last = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
                calls.append(Found(f"{name}:{node.lineno}", last, 1, plain))
    return functions, calls


def tracked_files() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [ROOT / name.decode() for name in listing.split(b"\0") if name]


def test_no_function_is_longer_than_seventy_lines() -> None:
    """A function above 70 lines does more than one thing."""
    functions, _ = found()

    assert [one for one in functions if one.lines > FUNCTION_LINES_MAX] == []


def test_nine_functions_in_ten_are_shorter_than_thirty_lines() -> None:
    """Half of all functions are below 10 lines and nine in ten below 30."""
    functions, _ = found()
    lengths = sorted(one.lines for one in functions)

    assert lengths[len(lengths) // 2] < 10
    assert lengths[len(lengths) * 9 // 10] < 30


def test_long_modules_have_a_reason() -> None:
    """A module above 400 lines is listed with why."""
    sizes = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in modules()}
    long = {name for name, lines in sizes.items() if lines > MODULE_LINES_MAX}

    assert long == set(LONG_MODULES)


def test_file_names_say_their_idea() -> None:
    """No module is called utils, types, common or helpers."""
    assert [path for path in modules() if path.name in SAYS_NOTHING] == []


def test_only_the_face_prints() -> None:
    """Nothing outside the command line writes to standard output."""
    _, calls = found()
    prints = [one for one in calls if one.plain and one.name == "print"]

    assert [one.place for one in prints if not one.file.startswith(FACES)] == []
    assert len(prints) > 0


CLIENTS = {
    "AIOKafkaConsumer": "runtime/kafka_clients.py",
    "AIOKafkaProducer": "runtime/kafka_clients.py",
    "AIOKafkaAdminClient": "runtime/kafka_clients.py",
    "get_client": "runtime/clickhouse_clients.py",
    "get_async_client": "runtime/clickhouse_clients.py",
}
"""Constructors of clients, and the one module that may call them."""


def test_clients_are_made_in_one_place() -> None:
    """Security, timeouts, names and guarantees of clients of Kafka and ClickHouse are set in one module each."""
    _, calls = found()
    made = [one for one in calls if one.name in CLIENTS]

    assert [one for one in made if one.file != CLIENTS[one.name]] == []
    assert {one.name for one in made} == CLIENTS.keys()


@pytest.mark.parametrize("pattern", [r"/work/", r"/root/\.", r"\bTODO\b|\bFIXME\b|\bXXX\b|\bHACK\b"])
def test_no_machine_paths_and_no_left_over_markers(pattern: str) -> None:
    """Code, configuration and documents name no path of one machine and leave no marker behind."""
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in tracked_files()
        if path.suffix in {".py", ".toml", ".yml", ".yaml", ".md", ".sql", ".sh", ""}
        and path != Path(__file__)
        and path.is_file()
        and not path.is_relative_to(ROOT / "tests" / "data")
        for match in re.finditer(pattern, path.read_text(errors="replace"))
    ]

    assert found == []


_IMPORT = re.compile(r"^\s*from ([\w.]+) import (\([^)]*\)|.+)$|^\s*import ([\w.]+)", re.MULTILINE)
_COVERS = re.compile(r'\A"""[^"]*?\nCovers ([^"]+)"""')


def tells_of(text: str) -> Iterator[str]:
    """Modules that a test imports itself, or names in its docstring because what it calls rests on them alone."""
    for package, names, module in _IMPORT.findall(text):
        imported = re.findall(r"\w+", re.sub(r"#.*| as \w+", "", names))
        yield from (package, *(f"{package}.{name}" for name in imported), module)
    yield from covered(text)


def covered(text: str) -> list[str]:
    """Modules that stand behind "Covers" in a test's docstring."""
    return re.findall(r"\w+(?:\.\w+)+", " ".join(_COVERS.findall(text)))


def test_every_module_has_its_test() -> None:
    """Each module of product, lab and SDK is imported by a test, or stands behind "Covers" in the docstring of one."""
    texts = [path.read_text() for path in (ROOT / "tests").rglob("*.py")]
    named = {name for text in texts for name in tells_of(text)}
    known = {f"{package_of(path)}.{path.stem}" for path in modules() if path.name not in {"__init__.py", "__main__.py"}}

    assert len(known) > 500
    assert known - named == set()
    assert {name for text in texts for name in covered(text)} - known == set()


def test_a_sibling_s_test_is_none() -> None:
    """Neither another module of the package, nor a name in a sentence; only what is imported or covered."""
    text = '''"""What holds.

Covers a.b.c and a.b.d,
with a.b.e.
"""
from a.f import g, h  # not a.x
from a.i import (
    j,
    k as l,
)
    import a.m
'''

    named = {"a.b.c", "a.b.d", "a.b.e", "a.f", "a.f.g", "a.f.h", "a.i", "a.i.j", "a.i.k", "a.m"}
    assert set(tells_of(text)) - {""} == named


def test_the_lock_names_no_registry() -> None:
    """The lock pins by hash and leaves it to the machine where packages come from."""
    for lock in sorted((ROOT / "requirements").glob("*.lock")):
        text = lock.read_text()

        assert "--hash=sha256:" in text
        assert "://" not in text
        assert "--index-url" not in text
