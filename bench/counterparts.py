"""What ``fleetpulse proxy`` measures, beside what an independent client saw of the same requests.

``python -m bench.counterparts [--engine mock] [--through spool|stack] [--requests 240] [--streams 4]``

An engine that is not ours, the proxy as it is shipped, and aiperf as the client, each a process of its own; engine and
client in throw-away virtual environments with pinned versions (``counterparts-*.txt``). Nothing is downloaded but
packages. From the client's export of every response that it read, TTFT, gap per token and E2E are computed by the
formulas of ``docs/definitions.md``, written here a second time, and their order statistics are compared with what our
pipeline says of the same requests: its sketches for percentiles, its rows one by one, its token counts exactly.

Engines: ``mock`` is guidellm's mock server with set TTFT and gaps; ``llama`` is llama.cpp with random weights.
Exit 0 when all agrees, 1 when something differs, kept in ``bench/results/counterparts.json`` either way.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.counterparts_figures import FIGURES, QUANTILES, Ours, compare, percentiles_of_rows, read_export
from fleetpulse.bench.results import keep, surroundings

ROOT = Path(__file__).resolve().parents[1]
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
class Run:
    """One comparison."""

    engine: str
    through: str
    requests: int
    streams: int
    seed: int
    folder: Path
    """Logs, spool and export of this run."""
    environments: Path
    realtime: bool

    @property
    def before(self) -> list[str]:
        """What the command of a process begins with whose delays would be taken for the other's latency."""
        return ["chrt", "--rr", "1"] if self.realtime else []


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])


def environment(folder: Path, name: str) -> Path:
    """The ``bin`` of a virtual environment with exactly the packages of ``counterparts-NAME.txt``."""
    made = folder / name
    if not (made / "complete").exists():
        print(f"making a virtual environment for {name}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(made)], check=True)
        pins = str(HERE / f"counterparts-{name}.txt")
        pip = [str(made / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, "--no-deps", "--only-binary", ":all:", "--requirement", pins], check=True)
        (made / "complete").touch()
    return made / "bin"


@contextlib.contextmanager
def child(
    command: Sequence[str], log: Path, added: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own group; on leaving it gets SIGTERM, and SIGKILL after a while."""
    with log.open("wb") as told:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=told,
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
    deadline_s = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline_s and process.poll() is None:
        with contextlib.suppress(OSError):
            if path:
                urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=2).close()
            else:
                socket.create_connection((HOST, port), timeout=1).close()
            return
        time.sleep(0.2)
    raise SystemExit(f"{process.args!r} does not serve port {port}; see its log")


@contextlib.contextmanager
def engine(run: Run) -> Iterator[int]:
    """An engine that is not ours; its port."""
    port, bin_dir = free_port(), environment(run.environments, run.engine)
    if run.engine == "mock":
        figures = [f"--{name}={value}" for name, value in {**MOCK_TIMES, **MOCK_TOKENS}.items()]
        command = [
            str(bin_dir / "guidellm"),
            "mock-server",
            f"--host={HOST}",
            f"--port={port}",
            "--model=peer",
            *figures,
        ]
    else:
        command = [
            str(bin_dir / "python"),
            str(HERE / "counterparts_llama.py"),
            str(run.folder / "tiny.gguf"),
            str(port),
        ]
    before = run.before if run.engine == "mock" else []
    with child([*before, *command], run.folder / "engine.log") as process:
        await_port(port, process, "/v1/models")
        yield port


@contextlib.contextmanager
def proxy(run: Run, upstream: int, data: Path) -> Iterator[int]:
    """``fleetpulse proxy`` before the engine; its port. With no stack, Kafka is a port where nobody listens."""
    port = free_port()
    added = {"FLEETPULSE_DATA_DIR": str(data), "PYTHONPATH": str(ROOT)}
    if run.through == "spool":
        added["FLEETPULSE_KAFKA__BOOTSTRAP"] = f"{HOST}:{free_port()}"
    flags = ["--upstream", f"http://{HOST}:{upstream}", "--port", str(port), "--spool", str(run.folder / "spool")]
    command = [*run.before, sys.executable, "-m", "fleetpulse", "proxy", *flags]
    with child(command, run.folder / "proxy.log", added) as process:
        await_port(port, process)
        yield port


def prompts(run: Run) -> Path:
    """Prompts of different lengths, one of a line."""
    chance, path = random.Random(run.seed), run.folder / "prompts.jsonl"
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
    told = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]", "model_max_length": 100_000}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    return folder


def load(run: Run, port: int) -> None:
    """Let the client make its requests and export what it saw of each."""
    command = [str(environment(run.environments, "aiperf") / "aiperf"), "profile", "--model", "peer"]
    command += ["--url", f"http://{HOST}:{port}", "--endpoint-type", "chat", "--streaming", "--use-server-token-count"]
    command += ["--tokenizer", str(tokenizer(run)), "--input-file", str(prompts(run))]
    command += ["--custom-dataset-type", "single-turn", "--random-seed", str(run.seed)]
    command += ["--concurrency", str(run.streams), "--request-count", str(run.requests)]
    command += ["--workers-max", "1", "--record-processor-service-count", "1", "--ui-type", "none"]
    command += ["--export-level", "raw", "--export-http-trace", "--no-server-metrics", "--no-gpu-telemetry"]
    command += ["--output-artifact-dir", str(run.folder / "export")]
    if run.engine == "llama":
        command += ["--extra-inputs", f"max_tokens:{LLAMA_TOKENS}", "--extra-inputs", "ignore_eos:true"]
    with child([*run.before, *command], run.folder / "client.log") as process:
        if process.wait() != 0:
            raise SystemExit(f"the client failed; see {run.folder / 'client.log'}")


def spooled_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows that the proxy published, read from its spool."""
    from producers.spool.spool import Spool
    from schemas import wire
    from schemas.build import rows_of
    from schemas.events import LLM_REQUESTS

    spool = Spool.open(folder)
    try:
        spool.sync()
        records = [record for record in spool.take() if record.topic == LLM_REQUESTS.topic]
    finally:
        spool.abandon()
    fields = LLM_REQUESTS.fields
    return [row for each in records for row in rows_of(fields, wire.decode(each.content_type, each.value, fields))]


@contextlib.contextmanager
def stack(run: Run) -> Iterator[Path]:
    """Kafka, ClickHouse, the windows job and the sink of this run alone; their data directory."""
    from fleetpulse.processes import Command, Processes

    data = run.folder / "stack"
    added = {"FLEETPULSE_DATA_DIR": str(data)}
    fleetpulse = [sys.executable, "-m", "fleetpulse"]
    environ = {**os.environ, **added, "PYTHONPATH": str(ROOT)}
    try:
        subprocess.run([*fleetpulse, "up", "--data-dir", str(data)], env=environ, check=True, stdout=sys.stderr)
        with Processes(run.folder / "services") as services:
            services.start(Command("jobs", ("jobs", "windows", "--name", "counterparts"), added))
            services.start(Command("sink", ("sink",), added))
            yield data
    finally:
        subprocess.run([*fleetpulse, "down", "--data-dir", str(data)], env=environ, check=False, stdout=sys.stderr)


def asked(data: Path, sql: str) -> list[dict[str, Any]]:
    """Rows of a query of the stack in ``data``."""
    environ = {**os.environ, "FLEETPULSE_DATA_DIR": str(data), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "fleetpulse", "query", "--json", sql]
    told = subprocess.run(command, env=environ, check=True, capture_output=True, text=True).stdout
    return list(json.loads(told))


def landed(run: Run, data: Path) -> Ours:
    """What the tables and the view say, once the view counts every request."""
    deadline_s = time.monotonic() + LANDED_WITHIN_S
    while int(asked(data, "SELECT sum(event_count) AS n FROM request_windows")[0]["n"]) < run.requests:
        if time.monotonic() > deadline_s:
            raise SystemExit(f"not all requests landed; see {run.folder / 'services'}")
        time.sleep(2)
    bins = {"ttft_us": "ttft_us_bins", "itl_us": "itl_bins", "e2e_us": "e2e_us_bins"}
    columns = [
        f"fp_quantile({q}, sumMap({bins[name]})) AS {name}_{i}" for name in FIGURES for i, q in enumerate(QUANTILES)
    ]
    (found,) = asked(data, f"SELECT {', '.join(columns)} FROM request_windows")
    percentiles = {name: {q: found[f"{name}_{i}"] for i, q in enumerate(QUANTILES)} for name in FIGURES}
    wanted = "request_id, ttft_us, e2e_us, input_tokens, output_tokens, chunks, status, itl_bins"
    return Ours(tuple(asked(data, f"SELECT {wanted} FROM llm_requests")), percentiles)


def measure(run: Run) -> dict[str, Any]:
    """Run everything once and compare."""
    run.folder.mkdir(parents=True)  # never on top of an older run
    environment(run.environments, "aiperf")
    if run.through == "spool":
        with engine(run) as upstream, proxy(run, upstream, run.folder / "data") as port:
            load(run, port)
        rows = tuple(spooled_rows(run.folder / "spool"))
        ours = Ours(rows, percentiles_of_rows(rows))
    else:
        with stack(run) as data:
            with engine(run) as upstream, proxy(run, upstream, data) as port:
                load(run, port)
            ours = landed(run, data)
    export = run.folder / "export"
    with (export / "profile_export_raw.jsonl").open() as raw, (export / "profile_export.jsonl").open() as metrics:
        seen = read_export(raw, metrics)
    facts = {"engine": pinned(run.engine), "client": pinned("aiperf"), "through": run.through, "streams": run.streams}
    facts |= {"realtime": run.realtime}
    return facts | {"load_1m": round(os.getloadavg()[0], 2)} | compare(seen, ours)


def pinned(name: str) -> str:
    """The package behind a name, with its version."""
    lines = (HERE / f"counterparts-{name}.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{PACKAGES[name]}=="))


def tell(result: Mapping[str, Any]) -> None:
    """Print a comparison as a table."""
    print(f"\n{result['engine']}, {result['client']}, through {result['through']}: ", end="")
    print("agrees" if result["agrees"] else "DIFFERS")
    for name, count in result["counts"].items():
        print(f"  {name:18} {count['client']:>10} {count['ours']:>10}  {'' if count['agrees'] else 'DIFFERS'}")
    for point, entries in result["percentiles"].items():
        print(f"  from {point}: client, ours, difference, allowed [us]")
        for each in entries:
            figures = "".join(f"{each[key]!s:>12}" for key in ("client_us", "ours_us", "difference_us", "allowed_us"))
            print(f"  {each['figure']:8} p{each['percentile']:<4.0f}{figures}  {'' if each['agrees'] else 'DIFFERS'}")
    print("  client - ours, request by request [us]:", json.dumps(result["request_by_request"]))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", action="append", choices=("mock", "llama"), help="again for more; default: both")
    parser.add_argument(
        "--through", choices=("spool", "stack"), default="spool", help="rows as published, or as landed"
    )
    parser.add_argument("--requests", type=int, default=240)
    parser.add_argument("--streams", type=int, default=4, help="requests at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--environments", type=Path, help="keep virtual environments here; default: made and removed")
    parser.add_argument("--logs", type=Path, help="keep logs and exports here; default: removed")
    parser.add_argument("--realtime", action="store_true", help="mock, proxy and client before all else (root, chrt)")
    parser.add_argument("--json", action="store_true", help="print the whole result")
    return parser.parse_args()


def command_of(told: argparse.Namespace) -> str:
    """The command without its folders, which change no figure."""
    flags = [f"--engine {name}" for name in told.engine or ()] + [f"--through {told.through}"]
    flags += [f"--requests {told.requests} --streams {told.streams} --seed {told.seed}"]
    return " ".join(["python -m bench.counterparts", *flags, *(["--realtime"] if told.realtime else [])])


def main() -> None:
    told = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that every child is ended
    with tempfile.TemporaryDirectory(prefix="counterparts-") as temporary:
        folder, environments = told.logs or Path(temporary), told.environments or Path(temporary) / "environments"
        folder, environments = folder.resolve(), environments.resolve()
        environments.mkdir(parents=True, exist_ok=True)
        results = []
        for number, name in enumerate(told.engine or ("mock", "llama")):
            here = folder / f"{name}-{number}"
            amounts = (told.requests, told.streams, told.seed)
            results.append(measure(Run(name, told.through, *amounts, here, environments, told.realtime)))
    around = surroundings(told.seed) | {"command": command_of(told)}
    whole = {"measurement": "counterparts"} | around | {"comparisons": results}
    keep("counterparts", whole, None)
    if told.json:
        print(json.dumps(whole, indent=2))
    else:
        for result in results:
            tell(result)
    sys.exit(0 if all(result["agrees"] for result in results) else 1)


if __name__ == "__main__":
    main()
