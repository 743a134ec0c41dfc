"""Parse a page of dcgm-exporter into values by GPU. Pure.

A GPU is identified by its UUID; a MIG instance, which has none on the page, by the GPU's UUID and its instance number.
Where pods share a GPU, the exporter repeats every sample for each of them: the first counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from producers.dcgm.fields import FIELDS, in_our_unit
from producers.exposition import Sample, parse

_TYPED_GAUGE = re.compile(r"^# TYPE (\S+) gauge\s*$", re.MULTILINE)
GPUS_MAX = 1_024
"""GPUs and MIG parts of one page; more are left out, and counted."""


@dataclass(slots=True)
class GpuOnPage:
    """``values`` by DCGM field in our units, known ones only. ``holder``: the pod that has it, as a text."""

    uuid: str
    model: str | None
    parent_uuid: str | None = None
    mig_profile: str | None = None
    holder: str | None = None
    values: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page:
    """GPUs by UUID in the order of the page; and what was left out, by reason."""

    gpus: Mapping[str, GpuOnPage]
    left_out: Mapping[str, int]


def read_page(text: str) -> Page:
    """The page's values. Names without a mapping are ignored."""
    scrape = parse(text)
    gauges = frozenset(_TYPED_GAUGE.findall(text))
    left_out = Counter[str](f"line: {bad.reason}" for bad in scrape.bad)
    gpus: dict[str, GpuOnPage] = {}
    for sample in scrape.samples:
        dcgm = FIELDS.get(sample.name)
        if dcgm is None or (dcgm.only_as_gauge and sample.name not in gauges):
            continue
        gpu = _gpu_of(gpus, sample)
        if gpu is None:
            left_out["no UUID"] += 1
        elif (value := in_our_unit(dcgm, sample.value)) is not None:
            gpu.values.setdefault(sample.name, value)
    for uuid in list(gpus)[GPUS_MAX:]:
        del gpus[uuid]
        left_out["too many GPUs"] += 1
    return Page(gpus, left_out)


def _gpu_of(gpus: dict[str, GpuOnPage], sample: Sample) -> GpuOnPage | None:
    labels = sample.labels
    parent = labels.get("UUID")
    if not parent:
        return None
    part = labels.get("GPU_I_ID") or None
    uuid = parent if part is None else f"{parent}/{part}"
    found = gpus.get(uuid)
    if found is None:
        found = gpus[uuid] = GpuOnPage(uuid, labels.get("modelName") or None)
        if part is not None:
            found.parent_uuid, found.mig_profile = parent, labels.get("GPU_I_PROFILE") or None
    found.holder = found.holder or _holder(labels)
    return found


def _holder(labels: Mapping[str, str]) -> str | None:
    pod = labels.get("pod")
    if not pod:
        return None
    container = labels.get("container")
    return f"{labels.get('namespace') or '?'}/{pod}" + (f" ({container})" if container else "")
