"""The comparison with an independent client: what is handed to both, what is read back, what people see.

Covers lab.bench.counterparts with lab.bench.counterparts_llama.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fleetpulse.commands.progress import Progress
from lab.bench import counterparts, counterparts_llama
from lab.bench.counterparts import Options, Run, await_port, child, pinned, prompts, spooled_rows, tables, tokenizer
from producers.batch import batches_of
from producers.spool.frame import Spooled
from producers.spool.spool import Spool
from schemas.codec.build import block_from_rows
from schemas.errors import FleetpulseError
from schemas.events.event_types import LLM_REQUESTS


def run_in(folder: Path, *, seed: int = 1, realtime: bool = False) -> Run:
    return Run("mock", Options("spool", 10, 2, seed, realtime), folder, folder / "environments", Progress())


def test_prompts_are_the_same_for_the_same_seed_and_of_different_lengths(tmp_path: Path) -> None:
    """Fifty lines, each one prompt."""
    texts = [prompts(run_in(tmp_path, seed=seed)).read_text() for seed in (1, 1, 2)]

    lengths = {len(json.loads(line)["text"].split()) for line in texts[0].splitlines()}
    assert texts[0] == texts[1] != texts[2]
    assert len(texts[0].splitlines()) == 50
    assert min(lengths) >= 5
    assert max(lengths) <= 60
    assert len(lengths) > 10


def test_the_client_gets_a_tokenizer_of_one_word(tmp_path: Path) -> None:
    """In the two files that transformers read."""
    folder = tokenizer(run_in(tmp_path))

    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    assert (model["type"], model["vocab"]) == ("WordLevel", {"[UNK]": 0})
    assert json.loads((folder / "tokenizer_config.json").read_text())["tokenizer_class"] == "PreTrainedTokenizerFast"


def test_processes_may_come_before_all_else(tmp_path: Path) -> None:
    """Only when that was asked for."""
    assert run_in(tmp_path, realtime=True).options.before == ["chrt", "--rr", "1"]
    assert run_in(tmp_path).options.before == []


@pytest.mark.parametrize("name", counterparts.PACKAGES)
def test_every_environment_is_pinned(name: str) -> None:
    """The package behind the name, with its version."""
    assert pinned(name).startswith(f"{counterparts.PACKAGES[name]}==")


def test_an_environment_that_is_complete_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was left half made is."""
    made: list[str] = []

    def make(command: list[str], **_: object) -> None:
        made.append(command[2])
        (tmp_path / "environments" / "counterparts-mock").mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(subprocess, "run", make)
    run = run_in(tmp_path)

    folders = [run.environment("mock") for _ in range(2)]

    assert folders == [tmp_path / "environments" / "counterparts-mock" / "bin"] * 2
    assert made == ["venv", "pip"]


def test_an_engine_that_ended_serves_nothing(tmp_path: Path) -> None:
    """It is not waited for, and its command is named."""
    with child([sys.executable, "-c", "print('no model')"], tmp_path / "log") as process:
        process.wait(60)
        with pytest.raises(FleetpulseError, match="does not serve port 1; see its log"):
            await_port(1, process)

    assert (tmp_path / "log").read_text() == "no model\n"


def test_rows_are_read_back_from_the_spool_of_the_proxy(tmp_path: Path) -> None:
    """Other topics are not compared."""
    rows = [{"at_ms": 1_000 + at, "request_id": f"r{at}", "ttft_us": 7, "itl_bins": {3: 2}} for at in range(2)]
    (batch,) = batches_of(LLM_REQUESTS, b"k", block_from_rows(LLM_REQUESTS.fields, rows))
    spool = Spool.open(tmp_path)
    for topic in (LLM_REQUESTS.topic, "gpu.samples"):
        spool.append(Spooled(0, 0, 1, topic, 0, batch.schema, batch.content_type, b"k", batch.count, batch.value))
    spool.sync()
    spool.close()

    found = spooled_rows(tmp_path)

    told = [(row["request_id"], row["ttft_us"], row["itl_bins"]) for row in found]
    assert told == [("r0", 7, {3: 2}), ("r1", 7, {3: 2})]


def test_people_see_counts_first_and_percentiles_by_point_of_the_clock() -> None:
    """A line for each metric and percentile."""
    entry = {"metric": "ttft_us", "percentile": 95, "client_us": 10, "ours_us": 11, "difference_us": 1}
    result = {
        "engine": "guidellm==1",
        "client": "aiperf==2",
        "through": "spool",
        "counts": {"requests": {"client": 4, "ours": 4, "agrees": True}},
        "percentiles": {"send": [{**entry, "allowed_us": 2, "agrees": True}]},
    }

    assert list(tables(result)) == [
        ("guidellm==1, aiperf==2, through spool", ("count", "client", "ours", "agrees"), [("requests", 4, 4, True)]),
        (
            "From send",
            ("metric", "client_us", "ours_us", "difference_us", "allowed_us", "agrees"),
            [("ttft_us p95", 10, 11, 1, 2, True)],
        ),
    ]


def test_the_vocabulary_of_the_random_model_is_whole() -> None:
    """Every token once, with its kind; every byte among them."""
    tokens, kinds = counterparts_llama.words()

    assert len(tokens) == len(set(tokens)) == len(kinds) == counterparts_llama.WORDS
    assert kinds.count(counterparts_llama.BYTE) == 256
    assert tokens[:3] == ["<unk>", "<s>", "</s>"]


def test_the_weights_of_the_random_model_fit_its_layers() -> None:
    """Nine matrices a layer and three around them, the same for the same seed."""
    first, again = (dict(counterparts_llama.tensors(1)) for _ in range(2))

    width = counterparts_llama.WIDTH
    assert len(first) == 3 + 9 * counterparts_llama.LAYERS
    assert first["token_embd.weight"].shape == (counterparts_llama.WORDS, width)
    assert first["blk.0.ffn_down.weight"].shape == (width, counterparts_llama.INNER)
    assert (first["output_norm.weight"] == np.ones(width, np.float32)).all()
    assert all((first[name] == again[name]).all() for name in first)


LLAMA = """
import os, signal
from types import SimpleNamespace

def CommonParams():
    return SimpleNamespace(model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace())

class Server:
    listening_address = "served"

    def __init__(self, parameters):
        if parameters.model.path.endswith("early"):
            os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.parametrize("name", ["early", "late"])
def test_the_engine_serves_until_sigterm_whenever_it_comes(name: str, tmp_path: Path) -> None:
    """While the model is read, too: the signal is pending then, and ends the wait that begins after it."""
    (tmp_path / "xllamacpp.py").write_text(LLAMA)
    (tmp_path / name).touch()
    command = [sys.executable, str(counterparts_llama.__file__), str(tmp_path / name), "1"]

    with subprocess.Popen(command, stdout=subprocess.PIPE, env={"PYTHONPATH": str(tmp_path)}) as engine:
        assert engine.stdout is not None
        said = engine.stdout.readline()
        engine.terminate()

    assert (said, engine.returncode) == (b"served\n", 0)
