"""Kafka's jars: fetched once from Maven Central by jgo, checked against pinned hashes, kept in the user's cache.

``kafka_jars.sha256`` is the lock: every jar that ``org.apache.kafka:kafka_2.13`` and ``slf4j-simple`` (warnings to
standard error) resolve to, so that nothing is resolved at start. jgo's own environments are not used: they want a JDK
and would download one.

A folder of jars appears under its final name only when it is whole and right, so that a killed or broken download
leaves nothing that looks complete. Where a jar is missing since, all are fetched again.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import random
import shutil
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from runtime.backoff import Backoff
from schemas.errors import StackError

VERSION = "4.1.0"
FETCHED_AT_ONCE = 4
ATTEMPTS_MAX = 4
LEFTOVER_AFTER_S = 86_400.0
BACKOFF = Backoff(2.0, 10.0)
_LOCK = Path(__file__).with_name("kafka_jars.sha256")

Progress = Callable[[str], None]


def cache_dir(environment: Mapping[str, str], data_dir: Path) -> Path:
    """Where downloads are kept for every stack of this user; in the data folder when there is no writable home."""
    given = environment.get("FLEETPULSE_CACHE_DIR")
    base = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    wanted = Path(given).expanduser().absolute() if given else Path(base) / "fleetpulse"
    try:
        wanted.mkdir(parents=True, exist_ok=True)
    except OSError:
        return data_dir / "cache"
    return wanted if os.access(wanted, os.W_OK) else data_dir / "cache"


def jars(cache: Path, on_progress: Progress) -> list[Path]:
    """The class path of the broker; fetched first when it is not there yet."""
    home = cache / f"kafka-{VERSION}"
    _remove_leftovers(home)
    if not _is_whole(home):
        _fetch(home, on_progress)
    return sorted(home / name for name in pins())


def _is_whole(home: Path) -> bool:
    """Whether every jar is there, by its name: a cleaner of caches may have taken some."""
    return pins().keys() <= {jar.name for jar in home.glob("*.jar")}


def _remove_leftovers(home: Path) -> None:
    """Remove what downloads that were killed have left beside ``home``."""
    for staging in home.parent.glob(f"{home.name}.*"):
        with contextlib.suppress(OSError):  # another process removes it too, or it is another user's
            if time.time() - staging.stat().st_mtime > LEFTOVER_AFTER_S:
                shutil.rmtree(staging)


def lock() -> dict[str, str]:
    """SHA-256 by Maven coordinates (``group:artifact:version``)."""
    lines = _LOCK.read_text(encoding="ascii").splitlines()
    return {coordinates: digest for digest, coordinates in (line.split() for line in lines)}


def pins() -> dict[str, str]:
    """SHA-256 by file name."""
    return {"-".join(coordinates.split(":")[1:]) + ".jar": digest for coordinates, digest in lock().items()}


def _fetch(home: Path, on_progress: Progress) -> None:
    if importlib.util.find_spec("jgo") is None:
        raise StackError("jgo, which fetches Kafka, comes with fleetpulse[local]: docs/start/install.md#extras")
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{home.name}.", dir=home.parent) as staging_name:
        staging = Path(staging_name)
        on_progress(f"downloading Kafka {VERSION} (43 MB, once)")
        found = _download(staging, on_progress)
        whole = staging / "jars"
        whole.mkdir()
        for jar in found:
            shutil.move(jar, whole / jar.name)
        check(whole)
        with contextlib.suppress(OSError):  # another process was first
            _put(whole, home)
    if not _is_whole(home):
        raise StackError(f"{home} cannot be written")


def _put(whole: Path, home: Path) -> None:
    if not home.is_dir():
        whole.rename(home)
        return
    for jar in whole.iterdir():  # one by one: brokers that run read those that are there
        if not (home / jar.name).exists():
            jar.rename(home / jar.name)


def trusted_certificates() -> str | None:
    """File or folder of the certificates this machine trusts, a company's own among them; None: those of certifi."""
    paths = ssl.get_default_verify_paths()
    return paths.cafile or paths.capath


def _download(staging: Path, on_progress: Progress) -> list[Path]:
    trusted = trusted_certificates()
    if trusted is not None:
        os.environ.setdefault("REQUESTS_CA_BUNDLE", trusted)  # jgo's requests would look at certifi's alone
    failures = 0
    while True:
        try:
            return _resolve(staging / f"try{failures + 1}", on_progress)
        except Exception as error:  # jgo raises whatever its parts raise
            failures += 1
            if failures == ATTEMPTS_MAX:
                raise StackError(
                    f"Kafka {VERSION} cannot be downloaded from Maven Central ({type(error).__name__}: {error}); "
                    "check the network and the proxy settings, then try again"
                ) from error
            time.sleep(BACKOFF.pause_s(failures, random.random()))


def _resolve(repository: Path, on_progress: Progress) -> list[Path]:
    from jgo.config import GlobalSettings
    from jgo.constants import MAVEN_CENTRAL_URL
    from jgo.maven import MavenContext, PythonResolver
    from jgo.parse import Endpoint

    context = MavenContext(
        repo_cache=repository,
        local_repos=[],
        remote_repos={"central": MAVEN_CENTRAL_URL} | GlobalSettings.load().repositories,
        resolver=PythonResolver(progress_callback=_Downloads(on_progress)),
        timeout=30,
    )
    wanted = [context.create_dependency(Endpoint.parse(each).coordinates[0]).artifact for each in lock()]
    with ThreadPoolExecutor(FETCHED_AT_ONCE) as fetching:
        return list(fetching.map(lambda artifact: artifact.resolve(), wanted))


class _Downloads:
    """Reports every mebibyte that arrived."""

    def __init__(self, on_progress: Progress) -> None:
        self._on_progress = on_progress
        self._bytes = 0
        self._counting = threading.Lock()

    @contextlib.contextmanager
    def __call__(self, _name: str, _size: int) -> Iterator[Callable[[int], Any]]:
        yield self._more

    def _more(self, count: int) -> None:
        with self._counting:
            before, self._bytes = self._bytes, self._bytes + count
        if before >> 20 != self._bytes >> 20:
            self._on_progress(f"downloading Kafka {VERSION}: {self._bytes >> 20} of 43 MB")


def check(folder: Path) -> None:
    """Raise StackError unless ``folder`` holds exactly the pinned jars."""
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}
    wrong = sorted(name for name in found.keys() | pins().keys() if found.get(name) != pins().get(name))
    if wrong:
        raise StackError(f"the download of Kafka {VERSION} is not what it should be: {', '.join(wrong[:5])}; try again")
