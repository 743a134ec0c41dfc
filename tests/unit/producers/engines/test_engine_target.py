from __future__ import annotations

import pytest
from pydantic import SecretStr

from producers.engines.target import EngineTarget, sought, target_of
from runtime.config import load
from runtime.edge_config import EngineConfig, JobConfig
from schemas.errors import ConfigError


def test_a_configured_engine_is_a_target() -> None:
    """With all that its configuration says."""
    config = EngineConfig(
        url="http://127.0.0.1:8000/metrics",
        model="m",
        model_version="r1",
        precision="fp8",
        placement_group="g",
        gpu_uuids=("G0",),
        facts_url="http://127.0.0.1:8001",
        kind="triton",
        context_tokens_max=4_096,
        tensor_parallel=2,
        api_key=SecretStr("k"),
    )

    assert target_of(config, "h-1") == EngineTarget(
        "h-1:8000",
        "http://127.0.0.1:8000/metrics",
        model="m",
        model_version="r1",
        precision="fp8",
        placement_group="g",
        gpu_uuids=("G0",),
        facts_url="http://127.0.0.1:8001",
        kind="triton",
        context_tokens_max=4_096,
        tensor_parallel=2,
        api_key="k",
    )
    assert target_of(EngineConfig(url="http://x:1", engine_id="mine"), "h-1").engine_id == "mine"


def test_ports_are_sought_on_this_host() -> None:
    """Nobody said that an engine is there."""
    assert sought([8000, 30000], "h-1") == [
        EngineTarget("h-1:8000", "http://127.0.0.1:8000", sought=True),
        EngineTarget("h-1:30000", "http://127.0.0.1:30000", sought=True),
    ]


@pytest.mark.parametrize(
    ("url", "facts_url", "port", "local"),
    [
        ("http://127.0.0.1:8000", None, 8000, True),
        ("http://127.0.0.1:8002", "http://127.0.0.1:8000", 8000, True),
        ("http://127.0.0.1:8002", "https://api.example", 443, False),
        ("http://0.0.0.0:8000", None, 8000, True),
        ("http://engine", None, 80, False),
    ],
)
def test_the_process_is_behind_the_port_of_the_api(url: str, facts_url: str | None, port: int, local: bool) -> None:
    """Where the address is this host's."""
    target = EngineTarget("e", url, facts_url=facts_url)

    assert (target.port, target.local) == (port, local)


def test_a_key_stands_in_no_repr() -> None:
    """It could end in a log."""
    assert "secret" not in repr(EngineTarget("e", "http://x", api_key="secret"))


def test_what_cannot_be_is_refused_by_name() -> None:
    """At start."""
    with pytest.raises(ConfigError, match=r"agent.engines.kind = 'ollama': one of vllm, sglang"):
        EngineTarget("e", "http://x", kind="ollama")
    with pytest.raises(ConfigError, match=r"agent.engines.url"):
        EngineTarget("e", "x:8000")
    with pytest.raises(ConfigError, match=r"agent.jobs.0.workload"):
        load({"agent.jobs": ({"workload": "mining", "pattern": "x"},)})
    with pytest.raises(ConfigError, match=r"agent.jobs.0.pattern = '\(': must be a regular expression: "):
        load({"agent.jobs": ({"workload": "training", "pattern": "("},)})


def test_a_job_is_found_anywhere_in_a_command_line() -> None:
    """By a regular expression."""
    job = JobConfig(workload="training", pattern=r"torchrun|deepspeed\b")

    assert job.matches("/usr/bin/python -m torchrun train.py")
    assert not job.matches("deepspeeder")


def test_the_machine_in_an_address_is_this_one_or_has_a_name() -> None:
    """As it stands before a port."""
    names = [
        EngineTarget("e", url).remote_name for url in ("http://127.0.0.1:8000", "http://pod-1", "http://[fd00::7]")
    ]

    assert names == [None, "pod-1", "[fd00::7]"]
