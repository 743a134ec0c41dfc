from __future__ import annotations

import pytest

from producers.gpu.faults import ACTIONS, RECOVERY_ACTIONS, UNLISTED_RECOVERY, UNLISTED_XID, XIDS, Fault, recovery, xid
from schemas.events import event_fields

ALL = [*XIDS.values(), *RECOVERY_ACTIONS.values(), UNLISTED_XID, UNLISTED_RECOVERY]


def test_every_action_is_of_the_closed_set_and_fits_a_label() -> None:
    """Alert rules name these words."""
    assert {fault.action for fault in ALL} <= set(ACTIONS)
    assert set(ACTIONS) == set(event_fields.ACTIONS)
    assert {fault.severity for fault in ALL} == {"info", "warning", "critical"}


def test_what_is_critical_says_what_to_do() -> None:
    """Every fault that calls a person says what to do."""
    assert [fault for fault in ALL if fault.severity == "critical" and fault.action in ("none", "watch")] == []


def test_what_needs_nothing_is_only_information() -> None:
    """An action of none is never more than info."""
    assert [fault for fault in ALL if fault.action == "none" and fault.severity != "info"] == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (13, ("warning", "restart_workload")),
        (31, ("warning", "restart_workload")),
        (43, ("info", "none")),
        (48, ("critical", "drain_and_reset")),
        (63, ("warning", "watch")),
        (64, ("critical", "drain_and_reset")),
        (74, ("critical", "check_link")),
        (79, ("critical", "reboot_node")),
        (94, ("warning", "restart_workload")),
        (95, ("critical", "drain_and_reset")),
        (119, ("critical", "reset_gpu")),
        (9_999, ("warning", "watch")),
    ],
)
def test_the_well_known_xids(code: int, expected: tuple[str, str]) -> None:
    """As the vendor's catalogue has them; one it does not list is watched."""
    fault = xid(code)

    assert (fault.severity, fault.action) == expected


def test_engines_are_numbered_as_the_catalogue_does() -> None:
    """Copy engines 0 to 9 and 10 to 19, video decoders 0 to 7."""
    assert [XIDS[code].meaning.split(" raised")[0] for code in (39, 85, 126, 135, 68, 98)] == [
        "copy engine 0",
        "copy engine 9",
        "copy engine 10",
        "copy engine 19",
        "video decoder 0",
        "video decoder 7",
    ]


def test_recovery_actions_of_field_230() -> None:
    """0 to 7 are known; a new one calls the vendor."""
    assert [recovery(code).action for code in range(9)] == [
        "none",
        "reset_gpu",
        "reboot_node",
        "drain_node",
        "drain_and_reset",
        "drain_node",
        "drain_and_reset",
        "reboot_node",
        "contact_vendor",
    ]
    assert recovery(0) == Fault("info", "the driver recommends no recovery any more", "none")
