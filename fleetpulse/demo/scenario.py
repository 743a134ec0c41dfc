"""Who takes part in the demo: the children and their arguments, decided before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fleetpulse.processes import Command
from schemas.tables import GROUPED

GPUS = 64
SPEED = 60
SOURCES = tuple(event.topic for event in GROUPED)


@dataclass(frozen=True, slots=True)
class Scenario:
    """``seconds`` is how long load is produced; ``folder`` holds spools, logs and the ground truth.

    ``data_dir`` is where the stack lives."""

    seconds: int
    seed: int
    folder: Path
    data_dir: Path
    gpus: int = GPUS
    speed: int = SPEED

    def services(self) -> tuple[Command, ...]:
        """The windows job and the sink."""
        return (
            Command("jobs", ("jobs", "windows", "--name", "demo-worker"), self._environment),
            Command("sink", ("sink",), self._environment),
        )

    def edges(self) -> tuple[Command, ...]:
        """The simulated fleet under the Azure traces, and this machine's own host (and GPU) readings."""
        simulate = (
            "simulate", "--load", "azure", "--speed", str(self.speed),
            "--gpus", str(self.gpus), "--seed", str(self.seed),
            "--seconds", str(self.seconds), "--spool", str(self.folder / "spool-fleet"),
            "--truth", str(self.folder / "truth"),
        )  # fmt: skip
        agent = ("agent", "--spool", str(self.folder / "spool-host"))
        return (
            Command("simulate", simulate, self._environment, restart=False),
            Command("agent", agent, self._environment, restart=False),
        )

    @property
    def _environment(self) -> dict[str, str]:
        """Children look for the stack where this command does."""
        return {"FLEETPULSE_DATA_DIR": str(self.data_dir)}
