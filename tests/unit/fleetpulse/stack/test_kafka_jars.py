import hashlib
import os
import re
from pathlib import Path
from typing import Any

import pytest

from fleetpulse.stack import kafka_jars
from runtime.backoff import Backoff
from schemas.errors import StackError


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    pins = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("a.jar", "b.jar")}
    monkeypatch.setattr(kafka_jars, "pins", lambda: pins)


def put(folder: Path, **content: str) -> None:
    for name, text in content.items():
        (folder / f"{name}.jar").write_text(text)


def test_the_broker_is_pinned_by_hash() -> None:
    """Every jar, the broker among them, has a SHA-256."""
    pins = kafka_jars.pins()

    assert len(pins) == 46
    assert f"kafka_2.13-{kafka_jars.VERSION}.jar" in pins
    assert [name for name, digest in pins.items() if not re.fullmatch(r"[0-9a-f]{64}", digest)] == []


@pytest.mark.usefixtures("pinned")
def test_the_right_jars_pass(tmp_path: Path) -> None:
    """Exactly the pinned names with the pinned content."""
    put(tmp_path, a="a.jar", b="b.jar")

    kafka_jars.check(tmp_path)


@pytest.mark.usefixtures("pinned")
@pytest.mark.parametrize(
    ("content", "named"),
    [
        pytest.param({"a": "a.jar"}, "b.jar", id="one is missing"),
        pytest.param({"a": "a.jar", "b": "b.ja"}, "b.jar", id="one is cut off"),
        pytest.param({"a": "a.jar", "b": "b.jar", "c": "x"}, "c.jar", id="one too many"),
    ],
)
def test_any_other_jars_are_refused(tmp_path: Path, content: dict[str, str], named: str) -> None:
    """The error names what is wrong."""
    put(tmp_path, **content)

    with pytest.raises(StackError, match=named):
        kafka_jars.check(tmp_path)


def test_downloads_are_shared_by_all_stacks_of_a_user(tmp_path: Path) -> None:
    """The cache follows FLEETPULSE_CACHE_DIR, then XDG_CACHE_HOME."""
    given = {"FLEETPULSE_CACHE_DIR": str(tmp_path / "given"), "XDG_CACHE_HOME": str(tmp_path / "xdg")}

    assert kafka_jars.cache_dir(given, tmp_path / "data") == tmp_path / "given"
    assert kafka_jars.cache_dir({"XDG_CACHE_HOME": str(tmp_path / "xdg")}, tmp_path) == tmp_path / "xdg" / "fleetpulse"


def test_without_a_writable_home_downloads_stay_with_the_stack(tmp_path: Path) -> None:
    """An account without a home can still start the stack."""
    (tmp_path / "file").write_text("")

    assert kafka_jars.cache_dir({"XDG_CACHE_HOME": str(tmp_path / "file")}, tmp_path / "data") == (
        tmp_path / "data" / "cache"
    )


def test_a_missing_downloader_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra, and nothing is left behind."""
    monkeypatch.setattr(kafka_jars.importlib.util, "find_spec", lambda _name: None)

    with pytest.raises(StackError, match=r"fleetpulse\[local\]: docs/start/install.md#extras"):
        kafka_jars.jars(tmp_path, lambda _text: None)
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - names alone


@pytest.mark.usefixtures("pinned")
def test_a_download_that_fails_is_tried_four_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time into an empty folder; then the last error is what is shown."""
    folders: list[str] = []

    def fail(repository: Path, _on_progress: Any) -> list[Path]:
        folders.append(repository.name)
        raise RuntimeError(f"error {len(folders)}")

    monkeypatch.setattr(kafka_jars, "BACKOFF", Backoff(0.0, 0.0))
    monkeypatch.setattr(kafka_jars, "_resolve", fail)

    with pytest.raises(StackError, match=r"RuntimeError: error 4\); check the network"):
        kafka_jars._download(tmp_path, lambda _: None)
    assert folders == ["try1", "try2", "try3", "try4"]


def test_a_broken_download_leaves_nothing_that_looks_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder appears under its final name only when all of it is right."""

    def download(staging: Path, _on_progress: object) -> list[Path]:
        put(staging, a="a.jar", b="cut")
        return [staging / "a.jar", staging / "b.jar"]

    monkeypatch.setattr(kafka_jars, "_download", download)

    with pytest.raises(StackError, match=r"b\.jar"):
        kafka_jars.jars(tmp_path, lambda _text: None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("pinned")
def test_jars_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second start downloads nothing."""
    fetched = []

    def download(staging: Path, _on_progress: object) -> list[Path]:
        fetched.append(staging)
        put(staging, a="a.jar", b="b.jar")
        return [staging / "a.jar", staging / "b.jar"]

    monkeypatch.setattr(kafka_jars, "_download", download)

    first = kafka_jars.jars(tmp_path, lambda _text: None)
    second = kafka_jars.jars(tmp_path, lambda _text: None)

    assert first == second
    assert [jar.name for jar in first] == ["a.jar", "b.jar"]
    assert len(fetched) == 1


@pytest.mark.usefixtures("pinned")
def test_a_jar_that_was_removed_is_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others stay as they are, and what is no jar of Kafka is not loaded."""
    home = tmp_path / f"kafka-{kafka_jars.VERSION}"
    home.mkdir()
    put(home, a="a.jar", other="other")
    before = (home / "a.jar").stat().st_ino

    def download(staging: Path, _on_progress: object) -> list[Path]:
        put(staging, a="a.jar", b="b.jar")
        return [staging / "a.jar", staging / "b.jar"]

    monkeypatch.setattr(kafka_jars, "_download", download)

    assert kafka_jars.jars(tmp_path, lambda _text: None) == [home / "a.jar", home / "b.jar"]
    assert (home / "b.jar").read_text() == "b.jar"
    assert (home / "a.jar").stat().st_ino == before


@pytest.mark.usefixtures("pinned")
def test_what_killed_downloads_left_is_removed(tmp_path: Path) -> None:
    """After a day: a younger one may be at work."""
    names = ("", ".old", ".young")
    home, old, young = (tmp_path / f"kafka-{kafka_jars.VERSION}{name}" for name in names)
    for folder in (home, old, young):
        folder.mkdir()
        put(folder, a="a.jar", b="b.jar")
    day_and_more_ago = young.stat().st_mtime - 90_000
    os.utime(home, (day_and_more_ago, day_and_more_ago))
    os.utime(old, (day_and_more_ago, day_and_more_ago))

    kafka_jars.jars(tmp_path, lambda _text: None)

    assert sorted(tmp_path.iterdir()) == [home, young]


def test_certificates_are_those_the_machine_trusts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A company's own authority, named to everything by environment; where the machine has none, certifi's are left."""
    own = tmp_path / "own.pem"
    own.touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(own))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    with_file = kafka_jars.trusted_certificates()
    own.unlink()
    with_folder = kafka_jars.trusted_certificates()
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))

    assert (with_file, with_folder, kafka_jars.trusted_certificates()) == (str(own), str(tmp_path), None)
