"""What GPU faults mean and what to do about them, as tables: XID codes, recovery actions, driver events. Pure.

Sources, in our own words: NVIDIA, "Analyzing Xid Errors with the Xid Catalog"
(docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, catalogue of 2025-10-29; Ampere and newer): its
"immediate action" becomes our ``action``. Recovery actions: nvml.h, nvmlDeviceGpuRecoveryAction_t (nvidia-ml-py 13).

| catalogue | ours |
|---|---|
| IGNORE | none; watch or contact_vendor where it is to be looked into later |
| RESTART_APP, RESTART_VM | restart_workload |
| RESET_GPU | reset_gpu; drain_and_reset where the error is not contained to one application |
| RESTART_BM | reboot_node |
| WORKFLOW_NVLINK_ERR, WORKFLOW_NVLINK5_ERR | check_link |
| CHECK_MECHANICALS (power) | check_power |
| CONTACT_SUPPORT | contact_vendor |

From XID 162 on the catalogue has no action: ours follow from its descriptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Action = Literal[
    "none",
    "watch",
    "restart_workload",
    "reset_gpu",
    "drain_node",
    "drain_and_reset",
    "reboot_node",
    "check_cooling",
    "check_power",
    "check_link",
    "contact_vendor",
]
ACTIONS: tuple[str, ...] = get_args(Action)
Severity = Literal["info", "warning", "critical"]


@dataclass(frozen=True, slots=True)
class Fault:
    """``severity``: info needs nobody, warning costs a workload or foretells more, critical takes the GPU away."""

    severity: Severity
    meaning: str
    action: Action


def _engines(name: str, codes: tuple[int, ...], first: int = 0) -> dict[int, Fault]:
    return {
        code: Fault("warning", f"{name} {number} raised an error; its workload ends", "restart_workload")
        for number, code in enumerate(codes, first)
    }


_INVALID_STREAM = "invalid or corrupted command stream, most often a fault of the application"
_LINK_5 = "NVLink 5 error in the {} unit of a link"

XIDS: dict[int, Fault] = {
    8: Fault("warning", "a channel stopped processing and was reset", "restart_workload"),
    11: Fault("warning", _INVALID_STREAM, "restart_workload"),
    13: Fault("warning", "graphics or compute engine exception, often an access out of bounds", "restart_workload"),
    25: Fault("warning", _INVALID_STREAM, "restart_workload"),
    31: Fault("warning", "page fault in GPU memory, most often an illegal address", "restart_workload"),
    32: Fault("warning", _INVALID_STREAM, "restart_workload"),
    37: Fault("info", "driver firmware error: unimplemented method", "none"),
    38: Fault("warning", "driver firmware error: watchdog ran out", "watch"),
    **_engines("copy engine", (39, 40, 41, 70, 71, 72, 75, 76, 77, 85)),
    43: Fault("info", "a channel was reset after a fault of its application; the GPU is well", "none"),
    44: Fault("warning", "engine fault while switching contexts", "watch"),
    45: Fault("info", "workload removed after an earlier error or by its own end", "watch"),
    46: Fault("critical", "the GPU stopped processing", "reset_gpu"),
    48: Fault("critical", "uncorrectable (double-bit) memory error", "drain_and_reset"),
    54: Fault("critical", "auxiliary power is not connected", "check_power"),
    60: Fault("warning", "security or video processor exception", "restart_workload"),
    61: Fault("warning", "micro-controller breakpoint (older drivers)", "watch"),
    62: Fault("critical", "internal micro-controller halted", "reset_gpu"),
    63: Fault("warning", "a memory row was marked for remapping; takes effect at the next reset", "watch"),
    64: Fault("critical", "a memory row could not be remapped", "drain_and_reset"),
    66: Fault("warning", "illegal access by the driver", "watch"),
    67: Fault("warning", "illegal access by the driver", "watch"),
    69: Fault("warning", "graphics engine class error", "restart_workload"),
    74: Fault("critical", "NVLink error", "check_link"),
    78: Fault("warning", "a virtual GPU could not start: driver versions differ", "watch"),
    79: Fault("critical", "the GPU has fallen off the bus", "reboot_node"),
    80: Fault("warning", "commands reached the GPU corrupted", "restart_workload"),
    **_engines("video decoder", (68, 83, 84, 88, 89, 96, 97, 98)),
    **_engines("JPEG engine", (82, 99, 100, 101, 102, 103, 104, 105)),
    **_engines("optical flow engine", (86, 139)),
    92: Fault("warning", "high rate of corrected memory errors", "watch"),
    93: Fault("warning", "the InfoROM was written more often than it is made for", "watch"),
    94: Fault("warning", "uncorrectable memory error, contained: one application ends", "restart_workload"),
    95: Fault(
        "critical", "uncorrectable memory error, not contained: all applications are affected", "drain_and_reset"
    ),
    106: Fault("info", "test message of the management interface", "none"),
    107: Fault("info", "test message of the management interface", "none"),
    109: Fault("critical", "a context switch did not end in time", "reset_gpu"),
    110: Fault("critical", "security fault", "reset_gpu"),
    119: Fault("critical", "the GPU's system processor (GSP) did not answer in time", "reset_gpu"),
    120: Fault("critical", "error of the GPU's system processor (GSP)", "reset_gpu"),
    121: Fault("warning", "error on the chip-to-chip link, corrected", "watch"),
    **_engines("copy engine", tuple(range(126, 136)), first=10),
    136: Fault("critical", "a link could not be trained", "reset_gpu"),
    137: Fault("warning", "NVLink access without privilege, most often a fault of the application", "watch"),
    140: Fault("critical", "uncorrectable memory error, not recovered from", "drain_and_reset"),
    141: Fault("info", "fast path error of CUDA", "watch"),
    142: Fault("warning", "video encoder 3 raised an error", "contact_vendor"),
    143: Fault("critical", "the GPU could not be initialised", "reset_gpu"),
    144: Fault("critical", _LINK_5.format("SAW"), "check_link"),
    145: Fault("critical", _LINK_5.format("RLW"), "check_link"),
    146: Fault("critical", _LINK_5.format("TLW"), "check_link"),
    147: Fault("critical", _LINK_5.format("TREX"), "check_link"),
    148: Fault("critical", _LINK_5.format("NVLPW_CTRL"), "check_link"),
    149: Fault("critical", _LINK_5.format("NETIR"), "check_link"),
    150: Fault("critical", _LINK_5.format("MSE"), "check_link"),
    151: Fault("warning", "key rotation of confidential computing failed", "restart_workload"),
    152: Fault("info", "deep learning accelerator: memory management error", "watch"),
    153: Fault("info", "deep learning accelerator: timeout", "watch"),
    154: Fault("warning", "the driver's recommended recovery action changed", "watch"),
    155: Fault("critical", "NVLink error defined by software", "reset_gpu"),
    156: Fault("warning", "a resource is retired; takes effect at the next reset", "reset_gpu"),
    157: Fault("warning", "a resource could not be retired", "contact_vendor"),
    158: Fault("critical", "fatal timeout inside the GPU", "reset_gpu"),
    159: Fault("warning", "error on the coherent interface to the processor", "watch"),
    160: Fault("info", "a memory channel is retired", "watch"),
    161: Fault("warning", "a memory channel could not be retired", "contact_vendor"),
    162: Fault("info", "power smoothing engaged again", "none"),
    163: Fault("warning", "power smoothing disengaged", "watch"),
    164: Fault("warning", "power smoothing hardware nears the end of its life", "contact_vendor"),
    165: Fault("warning", "power smoothing hardware is at the end of its life", "contact_vendor"),
    166: Fault("critical", "traffic on a link before its encryption was set up", "check_link"),
    167: Fault("critical", "fatal timeout on PCIe", "reboot_node"),
    168: Fault("warning", "part of the GPU's memory is out of use", "contact_vendor"),
    169: Fault("critical", "internal security processor halted", "reset_gpu"),
    170: Fault("warning", "interrupt of a secured link", "check_link"),
    171: Fault("critical", "uncorrectable error in device memory (DRAM); detail to XID 48", "drain_and_reset"),
    172: Fault("critical", "uncorrectable error in on-chip memory (SRAM); detail to XID 48", "drain_and_reset"),
}
"""By XID code."""

UNLISTED_XID = Fault("warning", "XID that the catalogue does not list", "watch")
"""A code that came after the catalogue, or one it calls unused."""

RECOVERY_ACTIONS: dict[int, Fault] = {
    0: Fault("info", "the driver recommends no recovery any more", "none"),
    1: Fault("critical", "the driver recommends to reset the GPU", "reset_gpu"),
    2: Fault("critical", "the driver recommends to reboot the node", "reboot_node"),
    3: Fault("critical", "the driver recommends to drain GPUs that talk to this one", "drain_node"),
    4: Fault("critical", "the driver recommends to drain and reset the GPU", "drain_and_reset"),
    5: Fault("critical", "the driver recommends to recover the IMEX domain", "drain_node"),
    6: Fault("critical", "the driver recommends to reset the bus of the GPU", "drain_and_reset"),
    7: Fault("critical", "the driver recommends to reboot the system", "reboot_node"),
}
"""By the value of NVML field 230."""

UNLISTED_RECOVERY = Fault("critical", "the driver recommends a recovery this table does not list", "contact_vendor")


def xid(code: int) -> Fault:
    """What XID ``code`` means."""
    return XIDS.get(code, UNLISTED_XID)


def recovery(code: int) -> Fault:
    """What recovery action ``code`` (NVML field 230) means."""
    return RECOVERY_ACTIONS.get(code, UNLISTED_RECOVERY)
