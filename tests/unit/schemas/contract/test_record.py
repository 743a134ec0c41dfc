"""Records as the rest of the house sees them."""

from __future__ import annotations

import pytest

from schemas.contract.record import Record, unknown_schema
from schemas.errors import ContractError, NewerReleaseError


def test_a_record_says_where_it_stands() -> None:
    """As messages about it do."""
    assert Record("gpu.samples", 3, 41, 0, None, b"", ()).where == "gpu.samples[3] offset 41"


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        pytest.param("costs/3", NewerReleaseError, id="newer than all that are known"),
        pytest.param("costs/1", ContractError, id="older than all that are known"),
        pytest.param("bills/3", ContractError, id="another name"),
        pytest.param("costs/x", ContractError, id="no number"),
        pytest.param("costs/" + "9" * 5_000, ContractError, id="no number of a version"),
        pytest.param("", ContractError, id="none"),
    ],
)
def test_a_newer_version_of_a_known_schema_asks_for_an_upgrade(schema: str, kind: type[ContractError]) -> None:
    """Anything else was written by something else."""
    error = unknown_schema("costs[0] offset 7", schema, ["costs/2", "usage/1"])

    assert type(error) is kind
    assert str(error).startswith(f"costs[0] offset 7 has schema {schema!r}")
    assert ("upgrade this process" in str(error)) == (kind is NewerReleaseError)
