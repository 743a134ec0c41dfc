"""The shell of the proxy: upstreams of the command line, the secret of tenants, the loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import stat
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fleetpulse.services import proxy
from fleetpulse.services.edge import secret_of
from fleetpulse.services.proxy import Watched, fitted, quiet_collector, run_on_fast_loop, run_proxy, upstream_of
from producers.identity import host_file
from producers.proxy.engines import UpstreamEngines
from producers.proxy.publishing import RowPublisher
from producers.proxy.server import ProxyServer
from runtime import logs
from runtime.config import load
from runtime.counters import Counters
from runtime.proxy_config import ProxyConfig, UpstreamConfig
from schemas.errors import ConfigError

ROW = {"request_id": "last", "status": "ok", "at_ms": 1, "e2e_us": 2}


def test_upstreams_of_the_command_line() -> None:
    """A URL, with a weight behind an equals sign where it has one."""
    assert upstream_of("http://e:1") == {"url": "http://e:1"}
    assert upstream_of("http://e:1=3") == {"url": "http://e:1", "weight": 3}
    for weight in ("half", "²"):
        with pytest.raises(ConfigError, match="whole number"):
            upstream_of(f"http://e:1={weight}")


@pytest.mark.parametrize(
    ("descriptors", "taken"),
    [(64 + 2 * 100, 100), (64 + 2 * 100 - 1, 99), (64, 1)],
    ids=["as many", "one less", "none"],
)
def test_connections_are_fitted_to_descriptors(descriptors: int, taken: int) -> None:
    """Two for each, beside those of spool, Kafka and health."""
    config = load({"proxy.connections_max": 100})

    assert fitted(config, descriptors).proxy.connections_max == taken


def test_a_data_directory_that_cannot_be_used_costs_no_secret(tmp_path: Path) -> None:
    """One for this process alone, another one each time."""
    (tmp_path / "file").touch()
    first, second = (secret_of(ProxyConfig(), tmp_path / "file") for _ in range(2))

    assert len(first) == len(second) == 64
    assert first != second


def test_without_an_upstream_nothing_starts() -> None:
    """The text names the flag."""
    with pytest.raises(ConfigError, match="--upstream"):
        run_proxy((), {}, None)


def test_a_bad_upstream_is_named() -> None:
    """With its key and its bound."""
    with pytest.raises(ConfigError, match=r"proxy\.upstreams\.0\.url"):
        run_proxy(("e:1",), {}, None)


@pytest.mark.parametrize(
    ("flag", "setting", "port"),
    [(None, None, None), (None, "9105", 9105), (0, "9105", 0), (9106, None, 9106)],
    ids=["nowhere", "setting", "the flag counts before", "flag"],
)
def test_where_health_is_told(
    monkeypatch: pytest.MonkeyPatch, flag: int | None, setting: str | None, port: int | None
) -> None:
    """By the flag or the setting; by neither on no port."""
    served: list[int] = []
    if setting is not None:
        monkeypatch.setenv("FLEETPULSE_PROXY__HEALTH_PORT", setting)

    def server(port: int, **_checks: object) -> contextlib.nullcontext[None]:
        served.append(port)
        return contextlib.nullcontext()

    monkeypatch.setattr(proxy, "HealthServer", server)
    monkeypatch.setattr(proxy, "run_on_fast_loop", lambda serving: serving.close())
    monkeypatch.setattr(logs, "configure", lambda process: None)
    run_proxy(("http://e:1",), {"health_port": flag}, None)

    assert served == ([] if port is None else [port])


GIVEN = "sixteen-or-more-characters"


def test_a_secret_is_made_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Readable by its owner alone, as its folder, and with a word about it; the second proxy reads the first one's; a
    configured one counts before."""
    folder = tmp_path / "data"

    first, second = secret_of(ProxyConfig(), folder), secret_of(ProxyConfig(), folder)

    (file,) = folder.iterdir()
    assert first == second == file.read_bytes()
    assert len(first) == 64
    assert (folder.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == ["tenant secret made"]
    assert secret_of(ProxyConfig(tenant_secret=GIVEN), folder) == GIVEN.encode()  # type: ignore[arg-type]


def test_a_configured_secret_is_read_by_who_needs_it(tmp_path: Path) -> None:
    """From its file; where that is missing, no other takes its place."""
    (tmp_path / "a secret").write_text(f"{GIVEN}\n")
    folder = tmp_path / "data"

    assert secret_of(ProxyConfig(tenant_secret_file=tmp_path / "a secret"), folder) == GIVEN.encode()
    with pytest.raises(ConfigError, match=r"proxy\.tenant_secret_file = .*none': must be a readable file"):
        secret_of(ProxyConfig(tenant_secret_file=tmp_path / "none"), folder)
    assert not folder.exists()


@pytest.mark.parametrize("kept", [b"", b"fifteen-bytes-.", bytes(64)], ids=["empty", "too short", "zeros"])
def test_a_damaged_secret_is_no_key(tmp_path: Path, kept: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Anybody could guess whose hash is whose. The file stays for people to look at; requests are served."""
    file = tmp_path / "proxy.tenant-secret"
    file.write_bytes(kept)

    secret = secret_of(ProxyConfig(), tmp_path)

    assert (len(secret), file.read_bytes()) == (64, kept)
    (said,) = [vars(record) for record in caplog.records]
    assert said["msg"].startswith("no tenant secret can be kept")
    assert "must hold 16 bytes or more" in said["error"]
    assert str(file) in said["error"]


def test_proxies_that_start_together_have_the_first_ones_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two containers on one folder have the same process id: what one has written the other must not write over."""
    linked, kept = Path.hardlink_to, list[bytes]()

    def first(path: Path, target: Path) -> None:
        monkeypatch.setattr(Path, "hardlink_to", linked)
        kept.append(secret_of(ProxyConfig(), tmp_path))
        linked(path, target)

    monkeypatch.setattr(Path, "hardlink_to", first)
    second = secret_of(ProxyConfig(), tmp_path)

    (file,) = tmp_path.iterdir()
    assert [second, file.read_bytes()] == [kept[0], kept[0]]


def test_a_secret_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut the name would stand for an empty file."""
    done, linked, sync = list[str](), Path.hardlink_to, os.fsync

    def synced(descriptor: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else f"{os.fstat(descriptor).st_size} bytes")
        sync(descriptor)

    def named(path: Path, target: Path) -> None:
        done.append("named")
        linked(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "hardlink_to", named)
    secret_of(ProxyConfig(), tmp_path)

    assert done == ["64 bytes", "named", "folder"]


def test_the_fast_loop_is_uvloop() -> None:
    """Where it is installed."""
    loops: list[str] = []

    async def main() -> None:
        loops.append(type(asyncio.get_running_loop()).__module__)

    run_on_fast_loop(main())

    assert loops == ["uvloop"]


def test_the_collector_is_quiet() -> None:
    """What start-up made is left out, and the thresholds are high."""
    before = gc.get_threshold()
    try:
        quiet_collector()
        assert gc.get_threshold() == (50_000, 20, 100)
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


class Rows:
    """Keeps what is flushed."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self.flushed: list[dict[str, Any]] = []

    def take(self, row: dict[str, Any]) -> None:
        self.taken.append(row)

    async def run(self) -> None:
        await asyncio.Event().wait()

    def flush(self) -> None:
        self.flushed, self.taken = self.taken, []


async def test_a_row_that_waits_for_its_engine_passes_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though reports of others are awaited for it then, too."""
    config = load({"proxy.upstreams": ({"url": "http://h-1:8000"},)})
    rows, stop = Rows(), asyncio.Event()
    stop.set()

    class Serving:
        """Its last request ends as it stops."""

        def __init__(self, _config: object, take: Any, *, engines: Any, claims: Any, **_: object) -> None:
            self.limits, self.port = SimpleNamespace(host="h-1"), 1
            self.pass_on = partial(engines.take, ROW, 0, lambda row: claims.take(row, take))
            claims.reported({"request_id": "before", "reported_by": "plugin"})

        async def start(self) -> None:
            pass

        async def stop(self) -> None:
            self.pass_on()

    monkeypatch.setattr(proxy, "ProxyServer", Serving)
    monkeypatch.setattr(proxy, "quiet_collector", lambda: None)
    with host_file.held(tmp_path / "f"):
        host_file.write(tmp_path / "f", "h-1", [])
        engines = UpstreamEngines(config.proxy.upstreams, lambda: tmp_path / "f")
        monkeypatch.setattr(proxy, "upstream_engines", lambda *_: engines)
        await proxy.serve_into(cast("RowPublisher", rows), config, b"", Watched(), stop)

    assert rows.flushed == [ROW]


def test_before_there_is_a_proxy_it_lives_and_is_not_ready() -> None:
    """Afterwards it collects by itself."""
    watched = Watched()
    before = (watched.alive(), watched.ready())
    config = ProxyConfig(upstreams=(UpstreamConfig(url="http://e:1"),))

    watched.server = ProxyServer(config, [].append, host="h", tenant_secret=b"s", counters=Counters())

    assert before == (None, "starting")
    assert (watched.alive(), watched.ready()) == (None, "not listening yet")
