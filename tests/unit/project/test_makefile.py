"""The Makefile in a folder of its own, with a Python that only notes what it is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
STUB = """#!/bin/sh
here="{here}"
case "$*" in
  "-m venv"*)
    echo venv >> "$here/told"
    for folder; do :; done
    case "$*" in *--clear*) rm -rf "$folder" ;; esac
    mkdir -p "$folder/bin" && cp "$0" "$folder/bin/python"
    test ! -e "$here/no-ensurepip" ;;
  -c*print*) echo "{version}" ;;
  -c*) exec "{real}" -c "import sys; sys.version_info = tuple(map(int, '{version}'.split('.'))); $2" ;;
  *) echo "$*" >> "$here/told"; test ! -e "$here/broken" ;;
esac
"""
Make = Callable[..., "subprocess.CompletedProcess[str]"]


def put_python(path: Path, here: Path, version: str = "3.11") -> Path:
    path.write_text(STUB.format(here=here, version=version, real=sys.executable))
    path.chmod(0o755)
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Of it, what the Makefile reads; its path holds a space."""
    folder = tmp_path / "a checkout"
    for name in ("requirements/run.lock", "pyproject.toml", "lab/pyproject.toml", "sdk/pyproject.toml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / "requirements" / "install").write_text("echo install >> told\n")
    shutil.copy(ROOT / "Makefile", folder)
    (folder / "bin").mkdir()
    put_python(folder / "bin" / "python3", folder)
    return folder


@pytest.fixture
def make(checkout: Path) -> Make:
    kept = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "PYTHON")}

    def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {**kept, "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}", **more}
        return subprocess.run(
            ["make", *words], cwd=checkout, env=environment, capture_output=True, text=True, check=False
        )

    return run


def told(checkout: Path) -> list[str]:
    """What the stubs were told since the last time."""
    path = checkout / "told"
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


MADE = ["venv", "install", "install"]


def test_an_environment_is_made_once(checkout: Path, make: Make) -> None:
    """The second target finds it."""
    assert make(".venv/.run").returncode == 0
    assert told(checkout) == MADE
    assert make(".venv/.run").returncode == 0
    assert told(checkout) == []


def test_a_half_made_environment_is_made_anew(checkout: Path, make: Make) -> None:
    """Of a Python that cannot install pip, as Debian's without python3-venv, nothing is taken for made."""
    (checkout / "no-ensurepip").touch()
    assert make(".venv/.run").returncode != 0
    assert (checkout / ".venv" / "bin" / "python").exists()
    (checkout / "no-ensurepip").unlink()
    told(checkout)

    assert make(".venv/.run").returncode == 0
    assert told(checkout) == MADE


def test_an_environment_of_another_python_is_made_anew(checkout: Path, make: Make) -> None:
    """After an upgrade of the system the same link is another Python, which sees nothing of what was installed."""
    make(".venv/.run")
    told(checkout)
    put_python(checkout / ".venv" / "bin" / "python", checkout, "3.13")
    put_python(checkout / "bin" / "python3", checkout, "3.13")

    assert make(".venv/.run").returncode == 0
    assert told(checkout) == MADE
    assert make(".venv/.run").returncode == 0
    assert told(checkout) == []


@pytest.mark.parametrize(("installed_for", "remade"), [("3.11", []), ("3.9", MADE)])
def test_an_environment_of_an_earlier_release_stays(
    checkout: Path, make: Make, installed_for: str, remade: list[str]
) -> None:
    """It has no stamp; where its Python is another one since it is made anew like any."""
    make(".venv/.run")
    (checkout / ".venv" / "lib" / f"python{installed_for}" / "site-packages" / "pip").mkdir(parents=True)
    (checkout / ".venv" / ".python").unlink()
    told(checkout)

    assert make(".venv/.run").returncode == 0
    assert told(checkout) == remade
    assert (checkout / ".venv" / ".python").read_text() == "3.11\n"


def test_a_python_that_is_named_is_the_one(checkout: Path, make: Make) -> None:
    """Named once: later targets keep it, whatever python3 is."""
    make(".venv/.run")
    told(checkout)
    other = put_python(checkout / "bin" / "python3.12", checkout, "3.12")

    for words, expected in ((["PYTHON=python3.12"], MADE), ([], []), (["PYTHON=python3.12"], [])):
        assert make(".venv/.run", *words).returncode == 0
        assert told(checkout) == expected
    assert (checkout / ".venv" / "bin" / "python").read_text() == other.read_text()


def test_clean_removes_what_cannot_be_asked_to_stop(checkout: Path, make: Make) -> None:
    """A half-made environment, and one that does not run any more."""
    (checkout / "no-ensurepip").touch()
    make(".venv/.run")
    assert make("clean").returncode == 0
    assert not (checkout / ".venv").exists()
    (checkout / "no-ensurepip").unlink()
    make(".venv/.run")
    (checkout / "broken").touch()
    told(checkout)

    assert make("clean").returncode == 0
    assert told(checkout) == ["-m fleetpulse down"]
    assert not (checkout / ".venv").exists()


def test_clean_stops_every_stack_that_it_removes(checkout: Path, make: Make) -> None:
    """Those of killed tests and benches too, and each of them where another cannot be stopped."""
    make(".venv/.run")
    (checkout / "broken").touch()
    for name in (".", "test", "drills/one of them"):
        (checkout / ".fleetpulse" / name).mkdir(parents=True, exist_ok=True)
        (checkout / ".fleetpulse" / name / "stack.json").touch()
    told(checkout)

    assert make("clean").returncode == 0
    first, *others = told(checkout)
    assert first == "-m fleetpulse down"
    folders = (".fleetpulse", ".fleetpulse/test", ".fleetpulse/drills/one of them")
    assert sorted(others) == sorted(f"-m fleetpulse down --data-dir {folder}" for folder in folders)
    assert not (checkout / ".fleetpulse").exists()


@pytest.mark.parametrize("version", ["3.10", "3.15"])
def test_a_python_that_the_lock_has_no_wheels_for_is_refused(checkout: Path, make: Make, version: str) -> None:
    """Before anything is made."""
    put_python(checkout / "bin" / "python3", checkout, version)

    done = make(".venv/.run")

    assert "fleetpulse needs Python 3.11 to 3.14" in done.stderr
    assert (done.returncode, told(checkout)) == (2, [])


@pytest.mark.parametrize(("machine", "built"), [("x86_64", False), ("aarch64", True)])
def test_on_arm_the_one_without_a_wheel_is_built(checkout: Path, make: Make, machine: str, built: bool) -> None:
    """Of everything else a wheel is taken."""
    uname = checkout / "bin" / "uname"
    uname.write_text(f"#!/bin/sh\necho {machine}\n")
    uname.chmod(0o755)

    (line,) = [line for line in make("--dry-run", ".venv/.run").stdout.splitlines() if "run.lock" in line]

    assert "--only-binary :all:" in line
    assert ("--no-binary faust-streaming" in line) == built
