"""What is compiled ahead of time covers every job, and an image's gets to where numba may write."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.services.compile_ahead import CACHE, COMPILED, group_of, has_loops, parts, provide
from fleetpulse.services.jobs_and_sink import JOBS


def test_every_job_is_there_and_what_extensions_add() -> None:
    """The lab adds the simulator."""
    assert list(parts()) == [*(f"jobs {job}" for job in JOBS), "simulate"]


def test_without_extensions_only_the_jobs_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator belongs to the lab."""
    monkeypatch.setattr("fleetpulse.services.compile_ahead.extensions", lambda: ())

    assert list(parts()) == [f"jobs {job}" for job in JOBS]


def test_the_jobs_are_one_group_since_they_share_loops() -> None:
    """Processes that compile groups beside one another compile no loop twice."""
    assert list(dict.fromkeys(map(group_of, parts()))) == ["jobs", "simulate"]


def test_the_command_compiles_the_groups_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """All by default; a group that is not there is an error of usage, and compiles nothing."""
    compiled: list[str] = []
    found = {name: partial(compiled.append, name) for name in ("jobs windows", "jobs costs", "simulate")}
    monkeypatch.setattr("fleetpulse.services.compile_ahead.parts", lambda: found)

    codes = [CliRunner().invoke(app, ["compile", *words]).exit_code for words in (["jobs"], [], ["nothing", "jobs"])]

    assert codes == [0, 0, 2]
    assert compiled == ["jobs windows", "jobs costs", *found]


def test_loops_are_looked_for_where_numba_keeps_them(tmp_path: Path) -> None:
    """Any compiled loop in the named cache counts, however deep; a package that is not there has none beside it."""
    environment = {CACHE: str(tmp_path)}
    before = has_loops("stream_jobs", environment)
    (tmp_path / "kernels_1").mkdir()
    (tmp_path / "kernels_1" / "loop.nbi").touch()

    assert (before, has_loops("stream_jobs", environment)) == (False, True)
    assert not has_loops("no_such_package", {})


@pytest.fixture
def image(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "image" / "module_1").mkdir(parents=True)
    (tmp_path / "image" / "module_1" / "loop.nbi").write_bytes(b"index")
    return {COMPILED: str(tmp_path / "image"), CACHE: str(tmp_path / "tmp" / "numba")}


def test_an_image_s_loops_are_copied_once(image: dict[str, str]) -> None:
    """What a process compiled for itself since is not lost to another start."""
    cache = Path(image[CACHE])

    provide(image)
    (cache / "module_1" / "loop.nbi").write_bytes(b"newer")
    provide(image)

    assert {path.name: path.read_bytes() for path in cache.rglob("*.nbi")} == {"loop.nbi": b"newer"}
    assert list(cache.parent.iterdir()) == [cache]


@pytest.mark.parametrize("missing", [COMPILED, CACHE])
def test_without_an_image_s_loops_nothing_is_copied(image: dict[str, str], missing: str) -> None:
    provide({name: value for name, value in image.items() if name != missing})

    assert not Path(image[CACHE]).exists()


def test_a_place_that_cannot_be_written_to_ends_no_process(image: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    provide({**image, CACHE: str(tmp_path / "file" / "numba")})

    assert (tmp_path / "file").is_file()
