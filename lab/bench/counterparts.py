"""``bench counterparts``: what the proxy measures, beside what an independent client saw of the same requests.

An engine that is not ours (``mock``: guidellm's with set TTFT and gaps; ``llama``: llama.cpp with random weights), the
proxy as it is shipped, and aiperf as the client, each a process of its own; engine and client in throw-away virtual
environments with pinned versions (``counterparts-*.txt``). From the client's export TTFT, gap per token and E2E are
computed by the formulas of ``definitions.md``, written here a second time, and compared with our rows and sketches.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleetpulse.commands.progress import Progress
from fleetpulse.sql.database import Database
from lab.bench.counterparts_metrics import METRICS, QUANTILES, Ours, compare, percentiles_of_rows, read_export
from lab.bench.live import pipeline
from lab.bench.stand import Stand, free_port, fresh_stand, until
from producers.spool.spool import Spool
from schemas.codec import wire
from schemas.codec.build import rows_of
from schemas.errors import FleetpulseError
from schemas.events.event_types import LLM_REQUESTS

HERE = Path(__file__).resolve().parent
HOST = "127.0.0.1"
READY_WITHIN_S = 120.0
STOP_WITHIN_S = 30.0
LANDED_WITHIN_S = 120.0
MOCK_TIMES = {"ttft-ms": 250, "ttft-ms-std": 60, "itl-ms": 30, "itl-ms-std": 8}
MOCK_TOKENS = {"output-tokens": 40, "output-tokens-std": 12}
LLAMA_TOKENS = 24
PACKAGES = {"mock": "guidellm", "llama": "xllamacpp", "aiperf": "aiperf"}


@dataclass(frozen=True, slots=True)
class Options:
    """``through``: rows as published (``spool``) or as landed (``stack``); ``streams`` requests at a time."""

    through: str
    requests: int
    streams: int
    seed: int
    realtime: bool = False

    @property
    def before(self) -> list[str]:
        """What the command of a process begins with whose delays would be taken for the other's latency."""
        return ["chrt", "--rr", "1"] if self.realtime else []


@dataclass(frozen=True, slots=True)
class Run:
    """One comparison, in a ``folder`` of its own for logs, spool and export."""

    engine: str
    options: Options
    folder: Path
    environments: Path
    progress: Progress

    def environment(self, name: str) -> Path:
        """As ``environment``, for ``counterparts-NAME.txt``."""
        return environment(f"counterparts-{name}", self.environments, self.progress.say)


def environment(name: str, environments: Path, say: Callable[[str], None]) -> Path:
    """The ``bin`` of a virtual environment with exactly the packages of ``NAME.txt``."""
    made = environments / name
    if not (made / "complete").exists():
        say(f"making a virtual environment for {name}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(made)], check=True)
        pip = [str(made / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        pins = str(HERE / f"{name}.txt")
        subprocess.run([*pip, "--no-deps", "--only-binary", ":all:", "--requirement", pins], check=True)
        (made / "complete").touch()
    return made / "bin"


@contextlib.contextmanager
def child(
    command: Sequence[str], log: Path, added: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own group; on leaving it gets SIGTERM, and SIGKILL after a while."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            env={**os.environ, **(added or {})},
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_WITHIN_S)
            with contextlib.suppress(ProcessLookupError):  # what it left behind
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def await_port(port: int, process: subprocess.Popen[bytes], path: str = "") -> None:
    """Wait until somebody answers there: with 200 to GET of ``path`` if there is one."""
    failure = f"{process.args!r} does not serve port {port}; see its log"

    def answers() -> bool:
        if process.poll() is not None:
            raise FleetpulseError(failure)
        with contextlib.suppress(OSError):
            if path:
                urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=2).close()
            else:
                socket.create_connection((HOST, port), timeout=1).close()
            return True
        return False

    until(answers, READY_WITHIN_S, lambda: failure)


@contextlib.contextmanager
def engine(run: Run) -> Iterator[int]:
    """An engine that is not ours; its port."""
    port, bin_dir = free_port(), run.environment(run.engine)
    if run.engine == "mock":
        timing = [f"--{name}={value}" for name, value in {**MOCK_TIMES, **MOCK_TOKENS}.items()]
        command = [*run.options.before, str(bin_dir / "guidellm"), "mock-server", f"--host={HOST}", f"--port={port}"]
        command += ["--model=peer", *timing]
    else:
        command = [
            str(bin_dir / "python"),
            str(HERE / "counterparts_llama.py"),
            str(run.folder / "tiny.gguf"),
            str(port),
        ]
    with child(command, run.folder / "engine.log") as process:
        await_port(port, process, "/v1/models")
        yield port


@contextlib.contextmanager
def proxy(run: Run, upstream: int, data: Path) -> Iterator[int]:
    """``fleetpulse proxy`` before the engine; its port. With no stack, Kafka is a port where nobody listens."""
    port = free_port()
    added = {"FLEETPULSE_DATA_DIR": str(data)}
    if run.options.through == "spool":
        added["FLEETPULSE_KAFKA__BOOTSTRAP"] = f"{HOST}:{free_port()}"
    flags = ["--upstream", f"http://{HOST}:{upstream}", "--port", str(port), "--spool", str(run.folder / "spool")]
    command = [*run.options.before, sys.executable, "-m", "fleetpulse", "proxy", *flags]
    with child(command, run.folder / "proxy.log", added) as process:
        await_port(port, process)
        yield port


def prompts(run: Run) -> Path:
    """Prompts of different lengths, one of a line."""
    chance, path = random.Random(run.options.seed), run.folder / "prompts.jsonl"
    words = ("tide", "moon", "salt", "shore", "wave", "harbour", "pilot", "anchor", "rope", "lantern")
    lines = (" ".join(chance.choices(words, k=chance.randint(5, 60))) for _ in range(50))
    path.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    return path


def tokenizer(run: Run) -> Path:
    """A tokenizer of one word: the client wants one to start, and counts by the engine's usage all the same."""
    folder = run.folder / "tokenizer"
    folder.mkdir()
    model = {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}
    whole = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model}
    empty = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    (folder / "tokenizer.json").write_text(json.dumps(whole | empty))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]", "model_max_length": 100_000}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def load(run: Run, port: int) -> None:
    """Let the client make its requests and export what it saw of each."""
    command = [str(run.environment("aiperf") / "aiperf"), "profile", "--model", "peer"]
    command += ["--url", f"http://{HOST}:{port}", "--endpoint-type", "chat", "--streaming", "--use-server-token-count"]
    command += ["--tokenizer", str(tokenizer(run)), "--input-file", str(prompts(run))]
    command += ["--custom-dataset-type", "single-turn", "--random-seed", str(run.options.seed)]
    command += ["--concurrency", str(run.options.streams), "--request-count", str(run.options.requests)]
    command += ["--workers-max", "1", "--record-processor-service-count", "1", "--ui-type", "none"]
    command += ["--export-level", "raw", "--export-http-trace", "--no-server-metrics", "--no-gpu-telemetry"]
    command += ["--output-artifact-dir", str(run.folder / "export")]
    if run.engine == "llama":
        command += ["--extra-inputs", f"max_tokens:{LLAMA_TOKENS}", "--extra-inputs", "ignore_eos:true"]
    with child([*run.options.before, *command], run.folder / "client.log") as process:
        if process.wait() != 0:
            raise FleetpulseError(f"the client failed; see {run.folder / 'client.log'}")


def spooled_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows that the proxy published, read from its spool."""
    spool = Spool.open(folder)
    try:
        spool.sync()
        records = [record for record in spool.take() if record.topic == LLM_REQUESTS.topic]
    finally:
        spool.abandon()
    fields = LLM_REQUESTS.fields
    return [row for each in records for row in rows_of(fields, wire.decode(each.content_type, each.value, fields))]


def landed(run: Run, stand: Stand) -> Ours:
    """What the tables and the view say, once the view counts every request."""
    with contextlib.closing(Database(stand.config.reading)) as database:
        counted = "SELECT sum(event_count) FROM request_windows"
        until(
            lambda: (database.sql(counted).rows[0][0] or 0) >= run.options.requests,
            LANDED_WITHIN_S,
            lambda: f"not all requests landed within {LANDED_WITHIN_S:.0f} s",
            every_s=2.0,
        )
        bins = {"ttft_us": "ttft_us_bins", "itl_us": "itl_bins", "e2e_us": "e2e_us_bins"}
        columns = [
            f"fp_quantile_linear({q}, sumMap({bins[name]})) AS {name}_{i}"
            for name in METRICS
            for i, q in enumerate(QUANTILES)
        ]
        (found,) = database.sql(f"SELECT {', '.join(columns)} FROM request_windows").records()
        percentiles = {name: {q: found[f"{name}_{i}"] for i, q in enumerate(QUANTILES)} for name in METRICS}
        wanted = "request_id, ttft_us, e2e_us, input_tokens, output_tokens, chunks, status, itl_bins"
        return Ours(tuple(database.sql(f"SELECT {wanted} FROM llm_requests").records()), percentiles)


def measure(run: Run) -> dict[str, Any]:
    """Run everything once and compare."""
    run.folder.mkdir(parents=True)  # never on top of an older run
    run.environment("aiperf")
    if run.options.through == "spool":
        with engine(run) as upstream, proxy(run, upstream, run.folder / "data") as port:
            load(run, port)
        rows = tuple(spooled_rows(run.folder / "spool"))
        ours = Ours(rows, percentiles_of_rows(rows))
    else:
        with fresh_stand(run.folder, run.progress.say) as stand, pipeline(stand, run.progress):
            with engine(run) as upstream, proxy(run, upstream, stand.data_dir) as port:
                load(run, port)
            ours = landed(run, stand)
    export = run.folder / "export"
    with (export / "profile_export_raw.jsonl").open() as raw, (export / "profile_export.jsonl").open() as metrics:
        seen = read_export(raw, metrics)
    facts: dict[str, Any] = {"engine": pinned(run.engine), "client": pinned("aiperf"), "through": run.options.through}
    facts |= {"streams": run.options.streams, "realtime": run.options.realtime}
    return facts | {"load_1m": round(os.getloadavg()[0], 2)} | compare(seen, ours)


def pinned(name: str) -> str:
    """The package behind a name, with its version."""
    lines = (HERE / f"counterparts-{name}.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{PACKAGES[name]}=="))


def measure_all(
    engines: Sequence[str], options: Options, environments: Path | None, logs: Path | None, progress: Progress
) -> list[dict[str, Any]]:
    """A comparison for each engine; what is not kept in ``environments`` and ``logs`` is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="counterparts-") as temporary:
        made = (environments or Path(temporary) / "environments").resolve()
        made.mkdir(parents=True, exist_ok=True)
        folder = (logs or Path(temporary)).resolve()
        return [measure(Run(name, options, folder / f"{name}-{at}", made, progress)) for at, name in enumerate(engines)]


def tables(result: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str], list[tuple[Any, ...]]]]:
    """A comparison for people: counts, then percentiles from each point of the client's clock."""
    title = f"{result['engine']}, {result['client']}, through {result['through']}"
    counts = [(name, one["client"], one["ours"], one["agrees"]) for name, one in result["counts"].items()]
    yield title, ("count", "client", "ours", "agrees"), counts
    columns = ("client_us", "ours_us", "difference_us", "allowed_us", "agrees")
    for point, entries in result["percentiles"].items():
        rows = [(f"{one['metric']} p{one['percentile']:.0f}", *(one[name] for name in columns)) for one in entries]
        yield f"From {point}", ("metric", *columns), rows
