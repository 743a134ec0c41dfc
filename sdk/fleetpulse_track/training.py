"""Steps of a training job: one datagram per step and rank, to the agent of this host.

    from fleetpulse_track import training

    run = training.Run("llama-sft", model="llama-3.1-8b")     # rank from the launcher's environment
    for batch in loader:
        ...
        run.step(loss=float(loss), samples=32, tokens=4096)   # at the end of each step
        run.checkpoint()                                      # after one was saved

A step's time is that since the end of the step before it in the same process, loading, communication and checkpoints
included: the first one's is unknown. Reading a loss off a GPU waits for it: pass one as often as the loop reads it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from typing import Any

from fleetpulse_track.handover import STEP, Client, hand_over_json

RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK")
"""Where torchrun, Open MPI, Slurm and MPICH say which rank a process is; the first that is set."""
LOSS_MAX = 2**44 / 1e6
"""A loss beyond is left out of its step: its millionths do not fit the field, and the whole step would be rejected."""
STEP_US_MAX = 3_600_000_000
"""A longer step is unknown: the field holds an hour."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Run:
    """One rank of a job. ``rank`` None: as the launcher says, else unknown."""

    def __init__(
        self, job: str, *, model: str | None = None, rank: int | str | None = None, client: Client | None = None
    ) -> None:
        found = rank_of(os.environ) if rank is None else str(rank)
        self._about = {"job": str(job)[:256], "model": model, "rank": found}
        self._client = client
        self._steps = 0
        self._ended_ns: int | None = None
        self._checkpoint_ns: int | None = None

    def step(
        self,
        step: int | None = None,
        *,
        loss: float | None = None,
        samples: int | None = None,
        tokens: int | None = None,
    ) -> None:
        """A step ended, now. ``step``: its number, None: one more than before. ``samples``, ``tokens``: this rank's."""
        with contextlib.suppress(Exception):  # the caller's work goes on, whatever is wrong with ours
            self.hand_over(self.ended(step, samples=samples, tokens=tokens), loss)

    def checkpoint(self) -> None:
        """A checkpoint was saved, now: what a crash would lose begins here."""
        self._checkpoint_ns = time.monotonic_ns()

    def ended(self, step: int | None, **amounts: int | None) -> dict[str, Any]:
        """The fields of a step that ends now."""
        now_ns = time.monotonic_ns()
        before_ns, self._ended_ns = self._ended_ns, now_ns
        self._steps = self._steps + 1 if step is None else int(step)
        fields: dict[str, Any] = {**self._about, "at_ms": time.time_ns() // 1_000_000, "step": self._steps}
        if before_ns is not None and now_ns - before_ns <= STEP_US_MAX * 1_000:
            fields["step_us"] = (now_ns - before_ns) // 1_000
        if self._checkpoint_ns is not None:
            fields["checkpoint_age_ms"] = (now_ns - self._checkpoint_ns) // 1_000_000
        return {**fields, **{name: int(amount) for name, amount in amounts.items() if amount is not None}}

    def hand_over(self, fields: dict[str, Any], loss: float | None = None) -> None:
        """Send a step that has ended, with its loss where that is known and finite."""
        known = {name: value for name, value in fields.items() if value is not None}
        at_ms = known.pop("at_ms")
        if loss is not None and math.isfinite(loss) and abs(loss) <= LOSS_MAX:
            known["loss_micro"] = round(float(loss) * 1e6)
        hand_over_json(STEP, _encode(known).encode("utf-8", "replace"), at_ms, self._client)


def rank_of(environment: Any) -> str | None:
    """The rank that a launcher gave this process; None without one."""
    return next((environment[name] for name in RANKS if environment.get(name)), None)


class TrainerCallback:
    """For ``transformers.Trainer(callbacks=[TrainerCallback("llama-sft")])``: each optimizer step, its loss where the
    trainer logs one, checkpoints. By the documented interface
    (https://huggingface.co/docs/transformers/main_classes/callback), without importing it."""

    def __init__(self, job: str, **about: Any) -> None:
        self._run = Run(job, **about)
        self._open: dict[str, Any] | None = None
        self._loss: float | None = None
        self._seen: int | None = None

    def __getattr__(self, name: str) -> Any:
        """Other events of the trainer: nothing to do."""
        if name.startswith("on_"):
            return lambda *_args, **_more: None
        raise AttributeError(name)

    def on_train_begin(self, _args: Any, state: Any, _control: Any = None, **_more: Any) -> None:
        """Tokens of the first step are those since now."""
        self._seen = getattr(state, "num_input_tokens_seen", None)

    def on_step_begin(self, *_args: Any, **_more: Any) -> None:
        """The step before has its loss by now, if any."""
        self._send()

    def on_step_end(self, args: Any, state: Any, _control: Any = None, **_more: Any) -> None:
        """An optimizer step ended."""
        with contextlib.suppress(Exception):
            self._send()
            samples = args.per_device_train_batch_size * args.gradient_accumulation_steps
            seen = getattr(state, "num_input_tokens_seen", None) or None
            ranks = getattr(args, "world_size", None) or 1  # the trainer gathers the tokens of all of them
            tokens = (seen - self._seen) // ranks if seen is not None and self._seen is not None else None
            self._seen = seen
            self._open = self._run.ended(state.global_step, samples=samples, tokens=tokens)

    def on_log(self, _args: Any, _state: Any, _control: Any = None, logs: Any = None, **_more: Any) -> None:
        """The trainer logged its training loss: of the step that just ended."""
        with contextlib.suppress(Exception):
            if self._open is not None and logs and "loss" in logs:
                self._loss = float(logs["loss"])

    def on_save(self, *_args: Any, **_more: Any) -> None:
        """A checkpoint was saved."""
        self._run.checkpoint()

    def on_train_end(self, *_args: Any, **_more: Any) -> None:
        """The last step."""
        self._send()

    def _send(self) -> None:
        fields, loss, self._open, self._loss = self._open, self._loss, None, None
        if fields is not None:
            with contextlib.suppress(Exception):
                self._run.hand_over(fields, loss)
