"""What a spool keeps of acknowledgements: read back whole, or refused without leaving anything open."""

from __future__ import annotations

from pathlib import Path

import pytest

from producers.spool.ack_state import AckState
from producers.spool.slots import Slots
from schemas.errors import ContractError


def written(folder: Path, name: str, value: bytes) -> None:
    """A value that is whole by its checksum."""
    state = AckState(folder)
    state.close()
    slots = Slots.open(folder / name, (folder / name).stat().st_size // 2)
    slots.write(value)
    slots.close()


@pytest.mark.parametrize("name", ["checkpoint", "shed"])
@pytest.mark.parametrize("value", [b"{", b"[]", b'{"low": [1, 2]}', b'[1, {"t": "x"}, 2]', b"\xff"])
def test_what_cannot_be_read_leaves_no_descriptor_open(tmp_path: Path, name: str, value: bytes) -> None:
    """An agent tries again for as long as it runs; each try once cost two descriptors."""
    written(tmp_path, name, value)
    before = len([*Path("/proc/self/fd").iterdir()])

    for _ in range(3):
        with pytest.raises(ContractError, match=f"{name} cannot be read"):
            AckState(tmp_path)

    assert len([*Path("/proc/self/fd").iterdir()]) == before
