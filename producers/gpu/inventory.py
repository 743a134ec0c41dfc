"""List GPUs and MIG instances by UUID (an index is only used to look one up), and say in rows which one they are of."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pynvml

from producers.collector import reserved_bytes
from producers.gpu.device import Found
from producers.gpu.library import DRIVER_GONE, REFUSED, DriverGoneError, GpuLostError, why
from producers.gpu.transitions import Happening

_log = logging.getLogger(__name__)

GPUS_MAX = 64
"""GPUs of one host that are looked at; far above any machine that is sold."""
_PROFILE = re.compile(r" MIG (\S+)$")
"""NVML's name of a MIG instance ends like that: "NVIDIA H100 80GB HBM3 MIG 1g.10gb"."""


def found() -> list[Found]:
    """Every device that can be named, instances behind their GPU. A GPU that does not answer is left out.

    ``DriverGoneError`` when the driver does not answer.
    """
    return [device for index in range(count()) for device in at(index)]


def count() -> int:
    """How many GPUs the driver lists. ``DriverGoneError`` when it does not answer."""
    try:
        return min(int(pynvml.nvmlDeviceGetCount()), GPUS_MAX)
    except pynvml.NVMLError as error:
        raise DriverGoneError(why(error.value)) from error


def at(index: int) -> list[Found]:
    """The GPU there with its instances; empty when it cannot be named. ``DriverGoneError`` as ``count``."""
    return list(_at(index))


def looked_up(device: Found) -> Found:
    """The same device with fresh handles. ``GpuLostError`` when the driver does not know it (any more)."""
    if device.parent_uuid is None:
        return replace(device, handle=_handle(device.uuid))
    return replace(device, handle=_handle(device.uuid), parent_handle=_handle(device.parent_uuid))


def _handle(uuid: str) -> Any:
    try:
        return pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except pynvml.NVMLError as error:
        kind = DriverGoneError if error.value in DRIVER_GONE else GpuLostError
        raise kind(why(error.value)) from error


def _at(index: int) -> Iterator[Found]:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        gpu = Found(pynvml.nvmlDeviceGetUUID(handle), _or_none(pynvml.nvmlDeviceGetName, handle), handle, index)
    except pynvml.NVMLError as error:
        if error.value in DRIVER_GONE:
            raise DriverGoneError(why(error.value)) from error
        _log.warning("GPU has no readable UUID, not sampled", extra={"index": index, "why": why(error.value)})
        return
    gpu, instances = with_instances(gpu)
    yield gpu
    yield from instances


def with_instances(gpu: Found) -> tuple[Found, list[Found]]:
    """The GPU as it is divided now, and its MIG instances. ``DriverGoneError`` as ``count``."""
    failed: list[int] = []
    mode = _answer(failed, pynvml.nvmlDeviceGetMigMode, gpu.handle)
    mig = mode is not None and mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    instances = list(_instances(gpu, failed)) if mig else []
    return replace(gpu, mig=mig, lists_all=not failed), instances


def _instances(gpu: Found, failed: list[int]) -> Iterator[Found]:
    asked = partial(_answer, failed)
    for index in range(asked(pynvml.nvmlDeviceGetMaxMigDeviceCount, gpu.handle) or 0):
        handle = asked(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu.handle, index)
        uuid = handle and asked(pynvml.nvmlDeviceGetUUID, handle)
        if uuid is None:
            continue
        profile = _PROFILE.search(_or_none(pynvml.nvmlDeviceGetName, handle) or "")
        yield Found(
            uuid=uuid,
            model=gpu.model,
            handle=handle,
            number=gpu.number,
            parent_uuid=gpu.uuid,
            parent_handle=gpu.handle,
            mig_profile=profile.group(1) if profile else None,
            instance_id=_or_none(pynvml.nvmlDeviceGetGpuInstanceId, handle),
        )


def _answer(failed: list[int], function: Any, *arguments: Any) -> Any:
    """What the call returns; None when it fails, for whatever reason of one GPU. A code that is no lasting refusal is
    noted in ``failed``. ``DriverGoneError`` as ``count``."""
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        if error.value in DRIVER_GONE:
            raise DriverGoneError(why(error.value)) from error
        if error.value not in REFUSED:
            failed.append(error.value)
        return None


def _or_none(function: Any, *arguments: Any) -> Any:
    """As ``_answer``, where a failure says nothing of what else there is."""
    return _answer([], function, *arguments)


Row = dict[str, Any]
Placement = Mapping[str, Mapping[str, str | None]]


class GpuIdentity:
    """``placement`` is looked at for every row: it may change. An instance without a place has its GPU's."""

    def __init__(
        self,
        labels: Mapping[str, str | None],
        placement: Placement,
        reserved_ppm: Callable[[str], int | None] = lambda _uuid: None,
    ) -> None:
        self._labels = dict(labels)
        self._placement = placement
        self._reserved_ppm = reserved_ppm

    def row(self, device: Found, values: Mapping[str, Any]) -> Row:
        """A row of a measurement, with its ``at_ms`` among the values."""
        reserved = reserved_bytes(values, self._reserved_ppm(device.uuid))
        return {**values, **reserved, "origin": "measured", **self._who(device)}

    def event(self, device: Found, at_ms: int, happening: Happening) -> Row:
        """A row of ``gpu.events``."""
        row = {
            "at_ms": at_ms,
            "origin": "measured",
            **self._who(device),
            "kind": happening.kind,
            "severity": happening.severity,
            "action": happening.action,
            "message": happening.message,
        }
        return row if happening.code is None else {**row, "code": happening.code}

    def _who(self, device: Found) -> Row:
        who: Row = {"gpu_uuid": device.uuid, "gpu_model": device.model, **self._labels}
        if device.parent_uuid is not None:
            who |= {"parent_uuid": device.parent_uuid, "mig_profile": device.mig_profile}
        place = self._placement.get(device.uuid) or self._placement.get(device.parent_uuid or "")
        return {**who, **place} if place else who
