"""The rig: vLLM, an agent on the NVML stub, the proxy with nothing but ``--upstream``, all jobs, the sink; and load.

Nothing is configured that a first user would not configure: what joins here joins by default.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleetpulse.services.processes import Command, Processes
from fleetpulse.sql.database import Database
from lab.bench.counterparts import await_port, child
from lab.bench.stand import Stand, free_port, fresh_stand, until
from tests.engines import environments, vllm_server
from tests.engines.vllm_server import MODEL, Vllm

HERE = Path(__file__).resolve().parent
REGISTERED_WITHIN_S = 600.0
LANDED_WITHIN_S = 900.0
LOAD_WITHIN_S = 1_200
LONG_TOKENS = 1_500
ORDERED_WITHIN_S = 10.0
AIPERF_INPUTS = {"ignore_eos": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
"""Its record of every chunk has the engine's count then, and gaps per token are comparable."""
PROMPT = ("chrt", "--rr", "1")
"""What proxy and client begin with: on a machine that is full with the engine, the time between a client's wake-up and
its read would be in the client's latencies and in none of ours."""


@dataclass(frozen=True, slots=True)
class Rig:
    """Everything runs. ``folder`` has the logs."""

    folder: Path
    engine: Vllm
    stand: Stand
    processes: Processes
    proxy_port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.proxy_port}"

    def rows(self, sql: str) -> list[dict[str, Any]]:
        with contextlib.closing(Database(self.stand.config.reading)) as database:
            return database.sql(sql).records()

    def value(self, sql: str) -> Any:
        ((value,),) = (row.values() for row in self.rows(sql))
        return value

    def eventually(self, sql: str, holds: Any, within_s: float = LANDED_WITHIN_S) -> None:
        """Wait until the one value of a query is as it has to be; fails with what it was."""

        def ready() -> bool:
            self.processes.tend()
            return bool(holds(self.value(sql)))

        until(ready, within_s, lambda: f"{sql} is {self.value(sql)} after {within_s:.0f} s", every_s=1.0)

    def fleetpulse(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of ours on this stack."""
        command = [sys.executable, "-m", "fleetpulse", *words]
        environment = {**os.environ, **self.stand.environment}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def answered(self, *words: str) -> Any:
        """What a command of ours says with ``--json``; fails with what it said where it ended otherwise."""
        done = self.fleetpulse(*words, "--json")
        assert done.returncode == 0, f"{words} ended with {done.returncode}: {done.stderr}{done.stdout}"
        return json.loads(done.stdout)

    def raise_xid(self, code: int) -> None:
        self._order(f"xid {code}")

    def compute_with(self, pid: int) -> None:
        """Show this process on the GPU, in place of the one before; 0: none."""
        self._order(f"pid {pid}")

    def _order(self, text: str) -> None:
        """Give an order to the agent's GPU; it is obeyed when its file is gone."""
        orders = self.folder / "orders"
        until(lambda: not orders.exists(), ORDERED_WITHIN_S, lambda: "the agent takes no orders")
        orders.write_text(text)


@contextlib.contextmanager
def rig(folder: Path) -> Iterator[Rig]:
    """Everything, from nothing; gone at the end."""
    with contextlib.ExitStack() as running:
        stand = running.enter_context(fresh_stand(folder, lambda _text: None))
        engine = running.enter_context(vllm_server.serving(folder / "vllm.log", added=with_plugin(folder)))
        processes = running.enter_context(Processes(folder / "processes"))
        processes.start(Command("jobs", ("jobs", "all"), stand.environment))
        processes.start(Command("sink", ("sink",), stand.environment))
        running.enter_context(agent(folder, stand, engine))
        port = running.enter_context(proxy(folder, stand, engine))
        made = Rig(folder, engine, stand, processes, port)
        made.eventually("SELECT count() FROM gpu_samples WHERE engine_id IS NOT NULL", bool, REGISTERED_WITHIN_S)
        time.sleep(5.0)
        yield made


def with_plugin(folder: Path) -> dict[str, str]:
    """What an engine's environment has where the SDK is installed beside it."""
    return {"PYTHONPATH": str(environments.plugin()), "FLEETPULSE_SOCKET": str(folder / "agent.sock")}


@contextlib.contextmanager
def agent(
    folder: Path, stand: Stand, engine: Vllm, settings: Mapping[str, str] | None = None, pid: int | None = None
) -> Iterator[None]:
    """The agent, whose GPU holds the process of the engine that computes, or another ``pid``."""
    words = (str(folder / "spool-agent"), str(pid or engine.worker_pid), str(folder / "orders"))
    added = {**stand.environment, "PYTHONPATH": str(environments.ROOT), **(settings or {})}
    added["FLEETPULSE_AGENT__RECEIVER__SOCKET"] = str(folder / "agent.sock")
    added["FLEETPULSE_SOCKET"] = str(folder / "agent.sock")
    with child([sys.executable, "-m", "tests.engines.agent_on_stub", *words], folder / "agent.log", added):
        yield


@contextlib.contextmanager
def proxy(folder: Path, stand: Stand, engine: Vllm) -> Iterator[int]:
    """The proxy; its port."""
    port = free_port()
    command = [*PROMPT, sys.executable, "-m", "fleetpulse", "proxy", "--upstream", engine.url, "--port", str(port)]
    added = {**stand.environment, "FLEETPULSE_SOCKET": str(folder / "agent.sock")}
    with child(command, folder / "proxy.log", added) as process:
        await_port(port, process)
        yield port


# Load


def client(rig: Rig, name: str, command: Sequence[str], added: Mapping[str, str] | None = None) -> str:
    """Run a client to its end; its standard output."""
    environment = {**os.environ, **(added or {})}
    done = subprocess.run(
        command, env=environment, cwd=rig.folder, capture_output=True, text=True, check=False, timeout=LOAD_WITHIN_S
    )
    (rig.folder / f"{name}.log").write_text(done.stdout + done.stderr)
    assert done.returncode == 0, f"{name} failed: {done.stderr[-3_000:]}{done.stdout[-3_000:]}"
    return done.stdout


def aiperf(rig: Rig, requests: int, streams: int) -> Path:
    """Streams by aiperf; the folder of its export, raw records among it."""
    export = rig.folder / "aiperf"
    command = [environments.aiperf().program("aiperf"), "profile", "--model", MODEL, "--url", rig.url]
    command += ["--endpoint-type", "chat", "--streaming", "--use-server-token-count"]
    command += ["--tokenizer", str(vllm_server.model()), "--random-seed", "1"]
    command += ["--synthetic-input-tokens-mean", "200", "--output-tokens-mean", "24"]
    command += ["--extra-inputs", json.dumps(AIPERF_INPUTS)]
    command += ["--concurrency", str(streams), "--request-count", str(requests)]
    command += ["--workers-max", "1", "--record-processor-service-count", "1", "--ui-type", "none"]
    command += ["--export-level", "raw", "--export-http-trace", "--no-server-metrics", "--no-gpu-telemetry"]
    client(rig, "aiperf", [*PROMPT, *command, "--output-artifact-dir", str(export)])
    return export


def bench_serve(rig: Rig, requests: int) -> dict[str, Any]:
    """Streams by ``vllm bench serve``; its result with the times of each request."""
    command = [environments.vllm().program("vllm"), "bench", "serve", "--backend", "openai-chat"]
    command += ["--endpoint", "/v1/chat/completions", "--base-url", rig.url, "--model", MODEL]
    command += ["--tokenizer", str(vllm_server.model()), "--dataset-name", "random", "--random-input-len", "64"]
    command += ["--random-output-len", "24", "--num-prompts", str(requests), "--max-concurrency", "4"]
    command += ["--ignore-eos", "--request-id-prefix", "bench-", "--save-result", "--save-detailed"]
    client(rig, "bench", [*command, "--result-dir", str(rig.folder), "--result-filename", "bench.json"])
    result: dict[str, Any] = json.loads((rig.folder / "bench.json").read_text())
    return result


def guidellm(rig: Rig, requests: int) -> list[dict[str, Any]]:
    """Streams by guidellm: what it saw of each. It sends no id of its own; vLLM's answer holds the proxy's."""
    report = rig.folder / "guidellm.json"
    command = [environments.clients().program("guidellm"), "run", "--disable-console"]
    command += ["--backend", f"kind=openai_http,target={rig.url},model={MODEL}"]
    command += ["--profile", "kind=concurrent,streams=2", "--constraint", f"kind=max_requests,count={requests}"]
    command += ["--tokenizer", f"kind=hf_auto,model={vllm_server.model()}"]
    command += ["--data", "kind=synthetic_text,prompt_tokens=64,output_tokens=16"]
    client(rig, "guidellm", [*command, "--output", f"kind=json,path={report}"])
    (benchmark,) = json.loads(report.read_text())["benchmarks"]
    return list(benchmark["requests"]["successful"])


def mixed(rig: Rig) -> dict[str, dict[str, Any]]:
    """Requests of every kind by the openai package: what it got, by request id."""
    command = [environments.clients().program("python"), str(HERE / "mixed_client.py"), rig.url]
    lines = [json.loads(line) for line in client(rig, "mixed", command).splitlines()]
    return {line["request_id"]: line for line in lines}


def direct(rig: Rig, *, tracked: bool) -> dict[str, dict[str, Any]]:
    """Requests by the openai package straight to the engine, where its plug-in reports them; ``tracked``: by the SDK
    too. What the client got, by id of the answer."""
    command = [environments.clients().program("python"), str(HERE / "direct_client.py"), rig.engine.url]
    added = {"FLEETPULSE_SOCKET": str(rig.folder / "agent.sock"), "PYTHONPATH": str(environments.ROOT / "sdk")}
    name = "tracked" if tracked else "plain"
    lines = [json.loads(line) for line in client(rig, name, [*command, name], added).splitlines()]
    return {line["id"]: line for line in lines}


@dataclass(frozen=True, slots=True)
class Aborted:
    """A stream that was given up: tokens that the engine had made 100 ms later, and those it made from then on."""

    request_id: str
    tokens_after_100_ms: float
    tokens_later: float


def abort(rig: Rig, port: int, request_id: str) -> Aborted:
    """Give up a long stream after its first chunks."""
    generated = "vllm:generation_tokens_total"
    before = rig.engine.counters()[generated]
    body = {"model": MODEL, "stream": True, "max_tokens": LONG_TOKENS, "ignore_eos": True}
    body |= {"messages": [{"role": "user", "content": "tide moon salt"}]}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Content-Type": "application/json", "X-Request-ID": request_id}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    connection.getresponse().read(2_000)
    connection.close()
    time.sleep(0.1)
    soon = rig.engine.counters()[generated]
    time.sleep(1.0)
    return Aborted(request_id, soon - before, rig.engine.counters()[generated] - soon)
