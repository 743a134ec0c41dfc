"""Steps of training. The trainer's callback is driven in the order that transformers documents for its events
(https://huggingface.co/docs/transformers/main_classes/callback), by arguments and a state of the documented names."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace
from typing import Any

import pytest

from fleetpulse_track import training
from fleetpulse_track.handover import HEADER, STEP
from schemas.events.event_types import TRAINING_STEPS
from tests.unit.producers.receiver import sent


@pytest.fixture
def client() -> sent.Recorded:
    return sent.Recorded(kind=STEP)


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second passes at each look at the clock of steps."""
    now = itertools.count(1_000_000_000, 500_000_000)
    monkeypatch.setattr(training.time, "monotonic_ns", lambda: next(now))
    for name in training.RANKS:
        monkeypatch.delenv(name, raising=False)


def said(client: sent.Recorded) -> list[dict[str, Any]]:
    heads = [HEADER.unpack_from(data) for data in client.sent]
    assert {head[1] for head in heads} <= {STEP}
    return [json.loads(data[-head[3] :]) for data, head in zip(client.sent, heads, strict=True)]


def test_a_step_has_the_time_since_the_one_before(client: sent.Recorded) -> None:
    """The first has none; samples, tokens, loss as far as they are said."""
    run = training.Run("sft", model="m", rank=3, client=client)

    run.step(loss=2.5, samples=32)
    run.step(tokens=4_096)
    run.step(7, loss=float("nan"))

    about = {"job": "sft", "model": "m", "rank": "3"}
    assert said(client) == [
        about | {"step": 1, "loss_micro": 2_500_000, "samples": 32},
        about | {"step": 2, "step_us": 500_000, "tokens": 4_096},
        about | {"step": 7, "step_us": 500_000},
    ]


def test_a_loss_that_its_field_does_not_hold_costs_no_step(client: sent.Recorded) -> None:
    """A run that diverges goes on being seen: what is handed over fits."""
    run = training.Run("sft", client=client)
    most = TRAINING_STEPS.field("loss_micro").high
    assert most is not None

    for loss in (most / 1e6, most / 1e6 + 1, -1e9, 1e300):
        run.step(loss=loss)

    assert [row.get("loss_micro") for row in said(client)] == [most, None, None, None]
    assert [row["step"] for row in said(client)] == [1, 2, 3, 4]


def test_the_age_of_a_checkpoint_grows_until_the_next(client: sent.Recorded) -> None:
    """Unknown before the first."""
    run = training.Run("sft", client=client)

    run.step()
    run.checkpoint()
    run.step()
    run.step()

    assert [row.get("checkpoint_age_ms") for row in said(client)] == [None, 500, 1_000]


@pytest.mark.parametrize("name", training.RANKS)
def test_the_rank_is_the_launcher_s(name: str, monkeypatch: pytest.MonkeyPatch, client: sent.Recorded) -> None:
    """torchrun, Open MPI, Slurm, MPICH; 0 is a rank."""
    monkeypatch.setenv(name, "0")

    training.Run("sft", client=client).step()

    assert [row["rank"] for row in said(client)] == ["0"]


def test_nothing_is_raised_into_the_loop(client: sent.Recorded) -> None:
    """Whatever a caller passes: that step is not sent, or without what is no number."""
    run = training.Run("sft", client=client)

    run.step("x")  # type: ignore[arg-type]
    run.step(samples="x")  # type: ignore[arg-type]
    run.step(loss=object())  # type: ignore[arg-type]

    assert said(client) == []


def test_the_trainer_s_steps_losses_and_checkpoints(client: sent.Recorded) -> None:
    """A loss belongs to the step that was logged; samples of a step are those of all its accumulated batches."""
    callback = training.TrainerCallback("sft", model="m", client=client)
    args = SimpleNamespace(per_device_train_batch_size=4, gradient_accumulation_steps=2)
    state = SimpleNamespace(global_step=0, num_input_tokens_seen=0)

    callback.on_train_begin(args, state, None)
    for step in (1, 2, 3):
        callback.on_step_begin(args, state, None)
        callback.on_substep_end(args, state, None)
        state.global_step, state.num_input_tokens_seen = step, step * 100
        callback.on_step_end(args, state, None)
        if step == 2:
            callback.on_log(args, state, None, logs={"loss": 1.25, "epoch": 0.1})
            callback.on_save(args, state, None)
    callback.on_log(args, state, None, logs={"train_runtime": 1.0})
    callback.on_train_end(args, state, None)

    about = {"job": "sft", "model": "m", "samples": 8}
    assert said(client) == [
        about | {"step": 1, "tokens": 100},
        about | {"step": 2, "step_us": 500_000, "tokens": 100, "loss_micro": 1_250_000},
        about | {"step": 3, "step_us": 1_000_000, "tokens": 100, "checkpoint_age_ms": 500},
    ]


def test_other_events_of_the_trainer_do_nothing() -> None:
    """Whatever comes to be called ``on_...``; no other attribute is made up."""
    callback = training.TrainerCallback("sft")

    assert callback.on_prediction_step(1, 2, control=3) is None
    with pytest.raises(AttributeError):
        callback.state  # noqa: B018


def test_tokens_of_a_step_are_this_rank_s(client: sent.Recorded) -> None:
    """The trainer gathers those of all ranks, and each of them reports."""
    callback = training.TrainerCallback("sft", client=client)
    args = SimpleNamespace(per_device_train_batch_size=4, gradient_accumulation_steps=2, world_size=4)
    for step in (1, 2):
        callback.on_step_end(args, SimpleNamespace(global_step=step, num_input_tokens_seen=step * 400))
        callback.on_step_begin()

    assert [row.get("tokens") for row in said(client)] == [None, 100]
