"""What stands beside a figure."""

from __future__ import annotations

import pytest

from lab.bench.measurement import command_of


@pytest.mark.parametrize(
    "arguments",
    [
        ("bench", "size", "--json"),
        ("bench", "size", "--data-dir", "/a/b c", "--json", "--results", "/r"),
        ("bench", "size", "--results=/r", "--json", "--data-dir=/a"),
    ],
)
def test_a_command_is_told_without_the_folders_of_its_machine(arguments: tuple[str, ...]) -> None:
    """All else stays."""
    assert command_of(arguments) == "fleetpulse bench size --json"
