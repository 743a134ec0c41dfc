from pathlib import Path

import pytest

from fleetpulse.stack import java
from schemas.errors import StackError


def make_java(home: Path, version: str | None, *, script: str = "exit 1") -> Path:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    if version is not None:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return program


@pytest.fixture
def _no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda _name: None)


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("25", 25), ("1.8.0_292", 8), ("21.0.1", 21), ("11.0.2.1", 11)]
)
def test_the_major_version_comes_from_the_release_file(tmp_path: Path, version: str, major: int) -> None:
    """Old and new forms of version numbers, without running anything."""
    assert java.major_version(make_java(tmp_path, version)) == major


def test_without_a_release_file_java_is_asked(tmp_path: Path) -> None:
    """It prints its version on standard error."""
    program = make_java(tmp_path, None, script="""echo 'openjdk version "21.0.2" 2024-01-16' >&2""")

    assert java.major_version(program) == 21


def test_a_java_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    """Unknown is None, not 0."""
    assert java.major_version(make_java(tmp_path, None)) is None


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    """JAVA_HOME is the user's word."""
    home = make_java(tmp_path / "home dir", "17.0.1")
    other = make_java(tmp_path / "other", "21.0.1")

    assert java.find_java({"JAVA_HOME": str(tmp_path / "home dir"), "PATH": str(other.parent)}) == home


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    """The next one that is new enough is taken."""
    old = make_java(tmp_path / "old", "11.0.2")
    new = make_java(tmp_path / "new", "17.0.1")

    assert java.find_java({"JAVA_HOME": str(old.parent.parent), "PATH": str(new.parent)}) == new


@pytest.mark.usefixtures("_no_wheel")
def test_only_old_ones_say_which_and_what_to_do(tmp_path: Path) -> None:
    """The error names the Java found, its version, the bound and the remedy."""
    old = make_java(tmp_path, "11.0.2")

    with pytest.raises(StackError, match=r"bin/java is Java 11.*17 or newer.*JAVA_HOME.*fleetpulse\[local\]"):
        java.find_java({"PATH": str(old.parent)})


@pytest.mark.usefixtures("_no_wheel")
def test_no_java_at_all_says_what_to_do() -> None:
    """The error names the wheel that brings one."""
    with pytest.raises(StackError, match=r"no Java found.*fleetpulse\[local\]: docs/start/install.md#extras"):
        java.find_java({"PATH": ""})


def test_the_wheel_brings_a_java_that_is_new_enough() -> None:
    """On a machine without Java the local extra is enough."""
    found = java.find_java({"PATH": ""})

    assert found.name == "java"
    assert (java.major_version(found) or 0) >= java.MAJOR_MIN
