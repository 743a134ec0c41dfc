"""The house rules that a machine can hold: sizes, prints, names, layout, machine paths."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("schemas", "runtime", "producers", "stream_jobs", "sinks", "fleetpulse", "lab", "sdk/fleetpulse_track")
FACES = ("fleetpulse", "lab")
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


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def tracked_files() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [ROOT / name.decode() for name in listing.split(b"\0") if name]


def test_no_function_is_longer_than_seventy_lines() -> None:
    """A function above 70 lines does more than one thing."""
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for path in modules()
        for node in functions(path)
        if node.end_lineno is not None and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    ]

    assert long == []


def test_nine_functions_in_ten_are_shorter_than_thirty_lines() -> None:
    """Half of all functions are below 10 lines and nine in ten below 30."""
    lengths = sorted(
        node.end_lineno - node.lineno + 1
        for path in modules()
        for node in functions(path)
        if node.end_lineno is not None
    )

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
    prints = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in modules()
        if path.relative_to(ROOT).parts[0] not in FACES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]

    assert prints == []


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
    made = [
        f"{path.relative_to(ROOT)}:{node.lineno} {name}"
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and (name := node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", ""))
        in CLIENTS
        and str(path.relative_to(ROOT)) != CLIENTS[name]
    ]

    assert made == []


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


def test_every_module_has_its_test() -> None:
    """Each module is imported by some test or bench, directly or as part of its package's tests."""
    named = "\n".join(path.read_text() for path in sorted((ROOT / "tests").rglob("*.py")))
    untested = [
        str(path.relative_to(ROOT))
        for path in modules()
        if path.name not in {"__init__.py", "__main__.py"}
        and path.relative_to(ROOT).parts[0] not in FACES
        and f"{package_of(path)}.{path.stem}" not in named
        and f"from {package_of(path)} import" not in named
    ]

    assert untested == []


def test_the_lock_names_no_registry() -> None:
    """The lock pins by hash and leaves it to the machine where packages come from."""
    for lock in sorted((ROOT / "requirements").glob("*.lock")):
        text = lock.read_text()

        assert "--hash=sha256:" in text
        assert "://" not in text
        assert "--index-url" not in text
