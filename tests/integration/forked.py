"""Commands in processes that are forked from one which has imported them: as `python -m fleetpulse`, but that it takes
no two seconds of a processor before it begins."""

from __future__ import annotations

import atexit
import gc
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from multiprocessing import connection, get_context
from pathlib import Path

_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        *("pytest", "fleetpulse.cli", "fleetpulse.commands.ready_made", "fleetpulse.doctor.examine"),
        *("fleetpulse.migrate.logins", "fleetpulse.migrate.reader", "fleetpulse.migrate.run", "fleetpulse.stack"),
        *("fleetpulse.reconcile.compare", "fleetpulse.report.gather", "fleetpulse.sql.database"),
        *("fleetpulse.topics.rejected", "fleetpulse.topics.tail", "tests.integration.forked"),
    ]
)
_ONE_AT_A_TIME = threading.Lock()
"""Starting a process looks after all others, and asks each how it ended: two threads may not."""


def forked(
    words: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    *,
    together: bool = False,
    timeout_s: float = 600,
) -> subprocess.CompletedProcess[str]:
    """Run ``fleetpulse WORDS`` in a folder, with these variables and no others, and nothing to read; ``together``
    writes stderr to stdout. `subprocess.TimeoutExpired` is raised once it was killed."""
    with tempfile.TemporaryDirectory(prefix="forked-") as kept:
        out, err = Path(kept) / "out", Path(kept) / "out" if together else Path(kept) / "err"
        process = _FORKS.Process(target=_main, args=(tuple(words), dict(environment), str(folder), str(out), str(err)))
        with _ONE_AT_A_TIME:
            process.start()
        ended = connection.wait([process.sentinel], timeout_s)
        with _ONE_AT_A_TIME:
            if not ended:
                process.kill()
            process.join()
        said = {path: path.read_text() if path.exists() else "" for path in (out, err)}
    if not ended:
        raise subprocess.TimeoutExpired(words, timeout_s, said[out], said[err])
    assert process.exitcode is not None
    return subprocess.CompletedProcess(words, process.exitcode, said[out], "" if together else said[err])


def _main(words: Sequence[str], environment: Mapping[str, str], folder: str, out: str, err: str) -> None:
    """In the process that was forked off. The interpreter does not end in it: what it would say then is said here."""
    from rich.console import Console

    from fleetpulse.cli import main
    from fleetpulse.commands import output

    for number, (path, flags) in enumerate(
        [(os.devnull, os.O_RDONLY), *((path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for path in (out, err))]
    ):
        descriptor = os.open(path, flags, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for console, of_stderr in ((output.out, False), (output.err, True)):
        Console.__init__(console, stderr=of_stderr)  # the variables that it is made with are these
    sys.argv = ["fleetpulse", *words]
    code: object = 1
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    gc.collect()
    atexit._run_exitfuncs()
    sys.exit(code)
