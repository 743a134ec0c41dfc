"""The wheels as they are built: what is in them, and the command line from what is installed of them alone."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
Run = Callable[..., subprocess.CompletedProcess[str]]
PRODUCT = {"schemas", "runtime", "producers", "stream_jobs", "sinks", "fleetpulse"}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By name of the distribution."""
    folder = tmp_path_factory.mktemp("wheels")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder))
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(ROOT), str(ROOT / "lab")], check=True)
    return {path.name.partition("-")[0]: path for path in folder.glob("*.whl")}


def packages(wheel: Path) -> set[str]:
    """Top-level names in a wheel but for its own metadata."""
    names = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    return {name for name in names if not name.endswith(".dist-info")}


def test_the_product_s_wheel_holds_the_product_alone(wheels: dict[str, Path]) -> None:
    """No lab, no tests, no SDK, no bench."""
    assert packages(wheels["fleetpulse"]) == PRODUCT


def test_the_lab_s_wheel_holds_the_lab_with_its_data(wheels: dict[str, Path]) -> None:
    """Traces, the stub of NVML and pinned versions travel with it, results do not."""
    names = set(zipfile.ZipFile(wheels["fleetpulse_lab"]).namelist())

    assert packages(wheels["fleetpulse_lab"]) == {"lab"}
    assert {"lab/bench/nvml_stub.c", "lab/bench/counterparts-mock.txt"} <= names
    assert len([name for name in names if name.startswith("lab/data/azure_llm_2023/")]) == 4
    assert not [name for name in names if name.endswith(".json")]


@pytest.fixture
def installed(wheels: dict[str, Path], tmp_path: Path) -> Run:
    """Runs ``fleetpulse`` where these wheels, and what they depend on, are all there is."""
    others = tmp_path / "others"
    others.mkdir()
    for entry in Path(np.__file__).parents[1].iterdir():
        if "fleetpulse" not in entry.name:
            (others / entry.name).symlink_to(entry)

    def run(*names: str, words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        target = tmp_path / "-".join(names)
        options = ("--quiet", "--no-deps", "--no-index", "--target", str(target))
        files = [str(wheels[name]) for name in names]
        subprocess.run([sys.executable, "-m", "pip", "install", *options, *files], check=True)
        return subprocess.run(
            [sys.executable, "-S", "-m", "fleetpulse", *words],  # -S: no path of an editable installation
            cwd=tmp_path,
            env={"PYTHONPATH": f"{target}:{others}", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_the_product_runs_without_the_lab(installed: Run) -> None:
    """Its command line works, and a command of the lab says where it comes from."""
    helped = installed("fleetpulse", words=("--help",))
    demo = installed("fleetpulse", words=("demo", "--seconds", "20"))

    assert (helped.returncode, "reconcile" in helped.stdout, " simulate " in helped.stdout) == (0, True, False)
    assert demo.returncode == 2
    assert "fleetpulse-lab, which is not installed here" in " ".join(demo.stderr.replace("│", " ").split())


def test_both_wheels_bring_the_commands_of_both(installed: Run) -> None:
    """The lab's are found by its entry point."""
    helped = installed("fleetpulse", "fleetpulse_lab", words=("--help",))

    assert (helped.returncode, " demo " in helped.stdout, " simulate " in helped.stdout) == (0, True, True)
