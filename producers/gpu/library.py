"""NVML, the driver's library: opening it, opening it again after a restart of the driver, and its errors.

NVML counts its users, and nothing here closes it while the process lives: a call that hangs in another thread must
not find the library gone. Opening it again is what NVML asks for after UNINITIALIZED. When library and kernel module
are of two versions, no call helps, and the error says what does: mostly packages were updated, and the module of before
is loaded still; or the module is new, and the library that this process has loaded is the old one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pynvml

Answer = TypeVar("Answer")

LOST = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED, pynvml.NVML_ERROR_GPU_NOT_FOUND})
"""The GPU answers no call at all. "Not found" is none of them: calls say so of what they look for."""
DRIVER_GONE = frozenset(
    {pynvml.NVML_ERROR_UNINITIALIZED, pynvml.NVML_ERROR_DRIVER_NOT_LOADED, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH}
)
"""No GPU answers: the driver was unloaded, reloaded or replaced."""
REFUSED = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_NOT_FOUND,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
    }
)
"""This GPU does not support the value, now or later."""

_WORDS = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: "not supported by the GPU",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "not known to the driver",
    pynvml.NVML_ERROR_INVALID_ARGUMENT: "not known to the GPU",
    pynvml.NVML_ERROR_NO_PERMISSION: "needs more rights",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "the driver's library and its kernel module differ (an update): reload the module or reboot the host, "
        "then restart the agent"
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the driver is not loaded",
    pynvml.NVML_ERROR_UNINITIALIZED: "the driver's library was shut down",
    pynvml.NVML_ERROR_GPU_IS_LOST: "the GPU has fallen off the bus or is not accessible",
    pynvml.NVML_ERROR_RESET_REQUIRED: "the GPU needs a reset before it can be used again",
    pynvml.NVML_ERROR_NOT_FOUND: "not there",
    pynvml.NVML_ERROR_GPU_NOT_FOUND: "the GPU is not there",
}


class GpuLostError(Exception):
    """The GPU does not answer any more."""


class DriverGoneError(Exception):
    """The driver does not answer any more."""


def why(code: int) -> str:
    """What an error code says, in words that do not depend on the library."""
    return _WORDS.get(code) or str(pynvml.NVMLError(code))


def raise_if_gone(code: int) -> None:
    """``GpuLostError`` or ``DriverGoneError`` where the code says so; else nothing."""
    if code in LOST:
        raise GpuLostError(why(code))
    if code in DRIVER_GONE:
        raise DriverGoneError(why(code))


def answered(function: Callable[..., Answer], *arguments: Any) -> Answer | None:
    """What the call returns; None when it fails for a reason of its own; raises as ``raise_if_gone``."""
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        raise_if_gone(error.value)
        return None


def open_library() -> str | None:
    """Open NVML (as often as wanted); the driver's version, None where it is not reported.

    ``DriverGoneError`` when there is no driver, or no library.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise DriverGoneError(why(error.value)) from error
    version: str | None = answered(pynvml.nvmlSystemGetDriverVersion)
    return version
