"""ClickHouse as a process: ``python -I -S serve_clickhouse.py CHDB_LIBRARY DIRECTORY``. Standard library alone.

The whole ClickHouse server sits in the chdb wheel's extension module. One statement starts its listeners; a second one
blocks on a named pipe until somebody opens and closes the other end, which is how this process stops. Rules found by
trying:

- the extension is loaded straight from its file: ``import chdb`` opens an engine of its own and loses the log;
- ``config.xml`` is read from the current directory; standard input must not be readable, or it is taken for a table;
- a plain ``Event.wait()`` loses signals now and then, so the main thread looks twice a second;
- the console is a session of user ``default``, whose profile has one slot, so that nobody else can log in as it.

The embedded server may read any file its process may (``SELECT file('/etc/passwd')`` needs no grant there), so the
process gives up that right first: with Landlock (Linux 5.19 or newer, no root needed) only ``DIRECTORY`` stays
writable, and little else readable. Where the kernel cannot, the log says so.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

_LOOK_EVERY_S = 0.5
# Of /proc only this process and the machine's counters: other processes' environments hold other people's secrets.
_PROC = ("self", "meminfo", "stat", "cpuinfo", "loadavg", "uptime", "version", "vmstat", "diskstats", "sys")
_ETC = ("hosts", "resolv.conf", "nsswitch.conf", "localtime", "ld.so.cache")
_READABLE = (
    *("/sys", "/usr", "/lib", "/lib64", "/dev/urandom", "/dev/random"),
    *(f"/proc/{name}" for name in _PROC),
    *(f"/etc/{name}" for name in _ETC),
)

# linux/landlock.h: system calls 444-446 on every architecture, rights of a file and of a directory.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_ALL_ABI_2 = (1 << 14) - 1
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_PR_SET_NO_NEW_PRIVS = 38
_RULE_PATH_BENEATH = 1
_ABI_WITH_RENAMES = 2  # before, no file could be moved between directories, which the server does
_ABI_WITH_TRUNCATE = 3


class _Ruleset(ctypes.Structure):
    _fields_ = (("handled_access_fs", ctypes.c_uint64),)


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def confine(writable: Path, readable: tuple[str, ...] = _READABLE) -> bool:
    """Take from this thread, and all it starts, every file outside the given paths. False when the kernel cannot."""
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
        abi = call(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    except (OSError, AttributeError):
        return False
    if sys.platform != "linux" or abi < _ABI_WITH_RENAMES:
        return False
    rights = _ALL_ABI_2 | (_TRUNCATE if abi >= _ABI_WITH_TRUNCATE else 0)
    ruleset = call(_CREATE_RULESET, ctypes.byref(_Ruleset(rights)), ctypes.c_size_t(ctypes.sizeof(_Ruleset)), 0)
    if ruleset < 0:
        return False
    _allow(call, ruleset, str(writable), rights)
    for path in readable:
        _allow(call, ruleset, path, _EXECUTE | _READ_FILE | _READ_DIR)
    _allow(call, ruleset, "/dev/null", _READ_FILE | _WRITE_FILE)
    ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    restricted = call(_RESTRICT_SELF, ruleset, 0) == 0
    os.close(ruleset)
    return restricted


def _allow(call: ctypes._NamedFuncPointer, ruleset: int, path: str, rights: int) -> None:
    with contextlib.suppress(OSError):  # a path that is not there needs no rule
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        if not os.path.isdir(path):  # noqa: PTH112 - a plain path is what the kernel takes
            rights &= _ON_FILES
        rule = _PathBeneath(rights, descriptor)
        call(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0)
        os.close(descriptor)


def load_engine(library: Path) -> ModuleType:
    """The extension module, without the package around it."""
    loader = ExtensionFileLoader("_chdb", str(library))
    spec = spec_from_loader("_chdb", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def serve(library: Path, directory: Path) -> int:
    """Run the server in ``directory`` until SIGTERM; 0 after a clean stop, 1 when it ended by itself."""
    os.chdir(directory)
    stopping, ended = threading.Event(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    pipe = _make_pipe(directory)
    engine = load_engine(library)
    if not confine(directory):
        _say("this kernel has no Landlock: users of the database can read this account's files by file()")
    console = threading.Thread(target=_hold_console, args=(engine, directory, pipe, ended))
    console.start()
    while not stopping.wait(_LOOK_EVERY_S) and not ended.is_set():
        pass
    requested = stopping.is_set()
    while not ended.wait(0.05):
        with contextlib.suppress(OSError):  # nobody reads the pipe yet
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    console.join()
    pipe.unlink(missing_ok=True)
    return 0 if requested else 1


def _make_pipe(directory: Path) -> Path:
    for stale in directory.glob("console.*"):
        stale.unlink()
    pipe = directory / f"console.{os.getpid()}"
    os.mkfifo(pipe, 0o600)
    return pipe


def _hold_console(engine: ModuleType, directory: Path, pipe: Path, ended: threading.Event) -> None:
    quoted = str(pipe).replace("\\", "\\\\").replace("'", "\\'")
    statements = (
        "SYSTEM START LISTEN QUERIES ALL; "
        f"INSERT INTO FUNCTION null('l String') FROM INFILE '{quoted}' COMPRESSION 'none' FORMAT LineAsString"
    )
    try:
        engine.query(statements, "TabSeparated", path=str(directory / "data"))
    except BaseException as error:  # whatever it is: it must reach the log, and the process must end
        _say(f"the server ended: {error}")
    finally:
        ended.set()


def _say(text: str) -> None:
    os.write(2, f"{text}\n".encode())


if __name__ == "__main__":
    sys.exit(serve(Path(sys.argv[1]), Path(sys.argv[2])))
