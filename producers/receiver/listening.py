"""Sockets beside the agent's: owner and group may use them, and a stale one is replaced."""

from __future__ import annotations

import contextlib
import grp
import os
import socket
from pathlib import Path

from schemas.errors import ConfigError

_PATH_BYTES_MAX = 100
"""Of 107 that the kernel takes; the socket has a longer name while it is made."""


def listen(path: Path, group: str | None = None, kind: int = socket.SOCK_DGRAM) -> socket.socket:
    """A socket of this kind that owner and group may send to. A stale one, on which nothing listens, is replaced.

    Raises ConfigError when it cannot be made there or another process listens.
    """
    if len(os.fsencode(path)) > _PATH_BYTES_MAX:
        raise ConfigError("agent.receiver.socket", str(path), f"must be at most {_PATH_BYTES_MAX} bytes long")
    if _answers(path, kind):
        raise ConfigError("agent.receiver.socket", str(path), "must be free: another process listens there")
    making = path.with_name(f".{os.getpid()}")
    opened = socket.socket(socket.AF_UNIX, kind)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        making.unlink(missing_ok=True)
        opened.bind(str(making))
        making.chmod(0o660)
        if group is not None:
            os.chown(making, -1, grp.getgrnam(group).gr_gid)
        making.rename(path)  # from here on it is found, with its permissions
    except (OSError, KeyError) as error:
        opened.close()
        with contextlib.suppress(OSError):
            making.unlink()
        raise ConfigError("agent.receiver.socket", str(path), f"must be a place for a socket ({error})") from error
    opened.setblocking(False)
    return opened


def _answers(path: Path, kind: int) -> bool:
    if not path.is_socket():
        if path.exists():
            raise ConfigError("agent.receiver.socket", str(path), "must not be another kind of file")
        return False
    with contextlib.closing(socket.socket(socket.AF_UNIX, kind)) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True
