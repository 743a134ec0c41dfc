"""Events that applications send besides their requests: steps of a training job, and metrics of their own."""

from __future__ import annotations

from schemas.events.event_fields import (
    ENGINE,
    ORIGIN,
    WHERE,
    difference,
    duration,
    event_time,
    gauge,
    kept,
    label,
    micro_level,
)
from schemas.fields import Event

TRAINING_STEPS = Event(
    topic="training.steps",
    version=1,
    meaning="one step of one rank of a training job",
    key=("placement_group", "host"),
    fields=(
        event_time("end of the step"),
        duration("step_us", "end of the previous step to end of this one", "SDK, log"),
        micro_level("loss_micro", "training loss", "SDK, log"),
        gauge("checkpoint_age_ms", "ms", "end of the latest checkpoint to end of the step", "SDK", high=2**32 - 1),
        difference("samples", "", "samples of this rank in the step", "SDK, log"),
        difference("tokens", "tokens", "tokens of this rank in the step", "SDK, log"),
        kept("step", "", "number of the step, as the job counts", "SDK, log"),
        *WHERE,
        *ENGINE,
        label("job", "training job", required=True),
        label("rank", "rank of the process in the job"),
        label("model", "model that is trained"),
        ORIGIN,
    ),
)

CUSTOM_METRICS = Event(
    topic="custom.metrics",
    version=1,
    meaning="one value of one metric that an application defined: a level, or an increase since the previous one",
    key=("host",),
    fields=(
        event_time("moment of the value"),
        micro_level("value_micro", "level; null where it is a counter", "SDK, OTLP"),
        difference("increase_micro", "1e-6", "increase since the last value; null where it is a level", "SDK, OTLP"),
        *WHERE,
        label("service", "application that reported it"),
        label("metric", "name of the metric", required=True),
        label("unit", "unit of the value, as the application names it", bounded=True),
        label("attributes", "what tells its series apart: sorted key=value, separated by commas"),
        ORIGIN,
    ),
)
