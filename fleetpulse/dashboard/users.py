"""Who may do what on the dashboard: a file of named users, each a viewer or an operator.

``fleetpulse users`` writes the file, mode 0600, and the dashboard reads it again whenever it has changed, so that a
user who was revoked is outside at the next click. It holds no token, but the hash of a proof that whoever knows the
token can make: who reads the file can log in with nothing of it. A user without a proof is one that a reverse proxy
names.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import logging
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from schemas.errors import ConfigError

_log = logging.getLogger(__name__)

VIEWER, OPERATOR = "viewer", "operator"
ROLES = (VIEWER, OPERATOR)
"""A viewer looks; an operator may also silence alerts."""
FILE = "dashboard_users.json"
"""Its name in the data directory, where no other is given."""
NAME_CHARS_MAX = 64
USERS_MAX = 1_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*")
_BYTES_MAX = 1_000_000
_OTHERS = stat.S_IWGRP | stat.S_IRWXO
"""A mounted secret may be the group's to read; nobody but its owner may write who is an operator."""


@dataclass(frozen=True, slots=True)
class User:
    """``proof_hash`` is ``proof_hash(cookie_value(token))``; "" logs in by the reverse proxy alone."""

    name: str
    role: str
    made_ms: int = 0
    proof_hash: str = ""

    @property
    def operates(self) -> bool:
        """Whether this user may silence alerts."""
        return self.role == OPERATOR


def cookie_value(token: str) -> str:
    """What a cookie holds: proof that the token was known, not the token."""
    return hmac.new(token.encode("utf-8", "surrogateescape"), b"fleetpulse dashboard", hashlib.sha256).hexdigest()


def proof_hash(cookie: str) -> str:
    """What is kept of a user's proof."""
    return hashlib.sha256(cookie.encode("utf-8", "surrogateescape")).hexdigest()


def holder(users: Sequence[User], cookie: str) -> User | None:
    """Whose proof this is. Every user is compared, in constant time: how long it takes says nothing about any."""
    given, found = proof_hash(cookie), None
    for user in users:
        if hmac.compare_digest(given, user.proof_hash or "-"):
            found = user
    return found


def checked(user: User) -> User:
    """Raises ``ConfigError`` for a name that could be taken for something else, and for an unknown role."""
    if not _NAME.fullmatch(user.name) or len(user.name) > NAME_CHARS_MAX:
        raise ConfigError("NAME", user.name, f"must be letters, digits and ._@+-, {NAME_CHARS_MAX} at most")
    if user.role not in ROLES:
        raise ConfigError("--role", user.role, f"must be one of {', '.join(ROLES)}")
    return user


def read(path: Path) -> tuple[User, ...]:
    """The users of a file. Raises ``ConfigError`` for one that others may change or read, or that is none of ours;
    ``FileNotFoundError`` where there is none."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & _OTHERS:
                raise ConfigError("--users-file", str(path), "must be its owner's alone: chmod 600")
            text = file.read(_BYTES_MAX + 1)
        found = [checked(User(**one)) for one in orjson.loads(text[:_BYTES_MAX])["users"]]
    except FileNotFoundError:
        raise
    except (OSError, ValueError, TypeError, KeyError) as error:
        bound = f"must be a file that `fleetpulse users` wrote ({type(error).__name__})"
        raise ConfigError("--users-file", str(path), bound) from None
    if len({user.name for user in found}) < len(found) or len(found) > USERS_MAX:
        raise ConfigError("--users-file", str(path), f"must name each user once, {USERS_MAX} at most")
    return tuple(found)


@contextlib.contextmanager
def changing(path: Path) -> Iterator[list[User]]:
    """The users of a file, to be changed by one process at a time; written in one step, mode 0600, when the block ends
    without an error."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            users = list(read(path))
        except FileNotFoundError:
            users = []
        yield users
        fresh = path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(orjson.dumps({"users": [asdict(user) for user in users]}, option=orjson.OPT_INDENT_2))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        os.close(lock)


class UsersFile:
    """The users as the file has them now. One that existed and is gone, or cannot be read, lets nobody in."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._users: tuple[User, ...] = ()
        self.exists = False
        """Whether there is or was such a file: then a login is needed."""
        with contextlib.suppress(FileNotFoundError):
            self._users = read(path)
            self.exists = True
            self._seen = self._state()

    def users(self) -> tuple[User, ...]:
        """All of them."""
        state = self._state()
        if state != self._seen:
            self._seen, self.exists = state, self.exists or state is not None
            self._users = self._read_again()
        return self._users

    def named(self, name: str) -> User:
        """The user of this name; who is not in the file is a viewer."""
        return next((user for user in self.users() if user.name == name), User(name, VIEWER))

    def _read_again(self) -> tuple[User, ...]:
        try:
            return read(self._path)
        except (ConfigError, FileNotFoundError) as error:
            _log.warning("users file cannot be read, nobody can log in by it", extra={"error": str(error)})
            return ()

    def _state(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_mode
