"""A real vLLM on processors, with a tiny model of random weights; its process, pages and counters.

``python -m tests.engines.vllm_server`` serves on port 8000 until Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from lab.bench.counterparts import child
from lab.bench.stand import until
from tests.engines import environments

MODEL = "tiny"
PORT = 8000
ALL_FLAGS = ("--enable-per-request-metrics", "--enable-prompt-tokens-details")
READY_WITHIN_S = 600.0
"""Of which a minute where the machine is its own."""
_FLAGS = (
    *("--load-format", "dummy", "--dtype", "bfloat16", "--enforce-eager"),
    *("--served-model-name", MODEL, "--max-model-len", "2048", "--max-num-seqs", "16"),
)
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True, slots=True)
class Vllm:
    """A server that answers. ``pid``: of its front end, which listens."""

    pid: int
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def worker_pid(self) -> int:
        """The process that computes: on a GPU host the one in the driver's list of processes."""
        listing = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
        rows = [line.split(None, 2) for line in listing.stdout.splitlines()]
        return next(int(row[0]) for row in rows if int(row[1]) == self.pid and "EngineCore" in row[2])

    def counters(self) -> dict[str, float]:
        """Its own counters by name without labels, models and engines added."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
        found: dict[str, float] = {}
        for sample in (sample for family in families for sample in family.samples):
            if sample.name.startswith("vllm:") and not sample.name.endswith(("_bucket", "_created")):
                found[sample.name] = found.get(sample.name, 0.0) + sample.value
        return found


def model() -> Path:
    """The folder of the tiny model, made where it is not there."""
    folder = environments.cache() / "tiny"
    if not (folder / "config.json").exists():
        maker = str(Path(__file__).with_name("make_tiny_model.py"))
        subprocess.run([environments.vllm().program("python"), maker, str(folder)], check=True)
    return folder


@contextlib.contextmanager
def serving(
    log: Path,
    flags: Sequence[str] = ALL_FLAGS,
    port: int = PORT,
    added: Mapping[str, str] | None = None,
    host: str = "127.0.0.1",
    version: str = environments.VLLM,
) -> Iterator[Vllm]:
    """vLLM, up to the end of the block; it is up after a minute. ``added``: to its environment."""
    program = environments.vllm(version).program("vllm")
    command = [program, "serve", str(model()), "--host", host, "--port", str(port), *_FLAGS, *flags]
    with socket.socket() as one:
        assert one.connect_ex(("127.0.0.1", port)) != 0, f"port {port} is in use: stop what listens there"
    path = f"{Path(program).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    with child(command, log, _ENVIRONMENT | {"PATH": path} | dict(added or {})) as process:
        engine = Vllm(process.pid, port)

        def healthy() -> bool:
            assert process.poll() is None, f"vLLM ended: {log.read_text()[-3_000:]}"
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{engine.url}/health", timeout=2).close()
                return True
            return False

        until(healthy, READY_WITHIN_S, lambda: f"vLLM is not up: {log.read_text()[-3_000:]}", every_s=0.5)
        yield engine


if __name__ == "__main__":
    with serving(Path(sys.argv[1] if len(sys.argv) > 1 else "vllm.log").resolve()) as running:
        sys.stderr.write(f"{running.url} is up, pid {running.pid}\n")
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(86_400)
