"""The distribution: the standard library alone, and what the oldest supported Python reads."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

SDK = Path(__file__).resolve().parents[3] / "sdk"
MODULES = sorted((SDK / "fleetpulse_track").rglob("*.py"))
OPTIONAL = {
    "plugins/vllm.py": "vllm",
    "plugins/litellm.py": "litellm",
    "plugins/langchain.py": "langchain_core",
    "plugins/llamaindex.py": "llama_index",
}
"""What a plug-in imports once its host looks its class up."""


def imported(path: Path) -> Iterator[str]:
    """Top-level names of all imports, those inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_only_the_standard_library_is_imported(path: Path) -> None:
    """Beside itself, and by a plug-in the package that it is for."""
    name = path.relative_to(SDK / "fleetpulse_track").as_posix()
    allowed = sys.stdlib_module_names | {"fleetpulse_track", OPTIONAL.get(name, "fleetpulse_track")}

    assert set(imported(path)) - allowed == set()


def test_importing_it_loads_little() -> None:
    """Applications import it: nothing of the product, and no costly part of the standard library."""
    code = "import sys; import fleetpulse_track; print(*sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()

    tops = {name.partition(".")[0] for name in modules}
    assert not tops & {"schemas", "runtime", "producers", "stream_jobs", "sinks", "fleetpulse", "lab"}
    assert not tops & {"asyncio", "inspect", "numpy", "pydantic", "typing_extensions"}


def test_it_declares_no_dependency_and_its_oldest_python_reads_it() -> None:
    """Python 3.9: the syntax of every module."""
    project = tomllib.loads((SDK / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert project["dependencies"] == []
    assert "optional-dependencies" not in project
    assert project["requires-python"] == ">=3.9"
    for path in MODULES:
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
