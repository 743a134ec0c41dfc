"""The host's file: what its agent knows of its engines, beside the agent's socket, for other edges of the host.

A file rather than a question and its answer: it is there while the agent restarts, it crosses into containers with the
mounted folder, and reading it waits for nobody. It is replaced as a whole, so a reader sees one state. A lock beside it
shows whether its agent lives: the kernel takes it back when the agent ends, however it does. A process number would
mean another process in a container, and by its age a dead agent's file is known only after minutes. JSON:
``host``, ``netns`` (inode of the network namespace in which loopback addresses are meant), ``engines``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from producers.identity.directory import Directory
from runtime.file_lock import locked
from schemas.contract.engines import Engine, engine_of
from schemas.errors import RejectedError

SYSTEM_SOCKET = Path("/run/fleetpulse/agent.sock")
NAME = "engines.json"
CLAIMS = "claims.sock"
CLAIM_BYTES_MAX = 64 * 1024
"""Of a line, either way."""
FILE_BYTES_MAX = 4 * 1024 * 1024
ENGINES_MAX = 1_024
HOLD_TRIES, HOLD_PAUSE_S = 20, 0.005
"""A reader that looks at the same moment has the lock for some microseconds."""


def default_socket(environment: Mapping[str, str]) -> Path:
    """The socket path that the SDK and the agent use when none is configured."""
    if path := environment.get("FLEETPULSE_SOCKET"):
        return Path(path)
    folder = environment.get("XDG_RUNTIME_DIR")
    if folder and not os.access(SYSTEM_SOCKET.parent, os.W_OK):
        return Path(folder) / "fleetpulse.sock"
    return SYSTEM_SOCKET


def found_by(environment: Mapping[str, str]) -> Path:
    """The file that an edge with this environment reads: beside the socket it names, else where agents write theirs
    the first whose agent lives, else the first that exists."""
    if "FLEETPULSE_SOCKET" in environment:
        return path_beside(default_socket(environment))
    folder = environment.get("XDG_RUNTIME_DIR")
    sockets = [default_socket(environment), SYSTEM_SOCKET, *([Path(folder) / "fleetpulse.sock"] if folder else [])]
    paths = [path_beside(socket) for socket in sockets]
    there = [path for path in paths if os.access(path, os.F_OK)]  # not where nobody may look
    return next((path for path in there if is_held(path)), (there or paths)[0])


def path_beside(socket: Path) -> Path:
    """The file of the agent with this socket."""
    return socket.with_name(NAME if socket == SYSTEM_SOCKET else f"{socket.stem}.{NAME}")


def claims_beside(path: Path) -> Path:
    """Where the agent with this socket or this file takes the claims of proxies (``producers.receiver.claims``)."""
    file = path if path.name.endswith(NAME) else path_beside(path)
    return file.with_name(file.name.removesuffix(NAME) + CLAIMS)


def network_namespace() -> int:
    """Inode of this process' network namespace; 0 where the system has none."""
    try:
        return Path("/proc/self/ns/net").stat().st_ino
    except OSError:
        return 0


def write(path: Path, host: str, engines: Iterable[Engine]) -> None:
    """Replace the file. Everybody on the host may read it: there are addresses and names in it, no secrets.

    Raises OSError.
    """
    content = {"host": host, "netns": network_namespace(), "engines": list(engines)}
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_bytes(orjson.dumps(content))
        fresh.chmod(0o644)
        fresh.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Show until the end of the block that the agent lives whose file this is. Where that cannot be shown, or another
    agent of the same file shows it, nothing happens."""
    with contextlib.ExitStack() as ending:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(_lock_beside(path), os.O_RDONLY | os.O_CREAT, 0o644)
            ending.callback(os.close, descriptor)
            _hold(descriptor)
            os.fchmod(descriptor, 0o644)
        yield


def _hold(descriptor: int) -> None:
    for _ in range(HOLD_TRIES):
        if locked(descriptor):
            return
        time.sleep(HOLD_PAUSE_S)


def is_held(path: Path) -> bool:
    """Whether the agent lives whose file this is. Where that cannot be known (no right to read the lock, a file system
    without locks) every agent that ever was counts."""
    try:
        descriptor = os.open(_lock_beside(path), os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _lock_beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def read(path: Path) -> Directory:
    """The engines of the host; loopback addresses mean it where this process is in the agent's network namespace.

    Raises OSError where there is no file, ``RejectedError`` for one that is none of ours.
    """
    with path.open("rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise RejectedError("too_large", f"{path.name} has more than {FILE_BYTES_MAX} bytes")
    try:
        content: Any = orjson.loads(data)
        engines = [engine_of(each) for each in content["engines"][:ENGINES_MAX]]
        host = str(content["host"]) if content["netns"] == network_namespace() else None
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise RejectedError("syntax", f"{path.name} is not the agent's: {error}") from error
    return Directory(engines, host)
