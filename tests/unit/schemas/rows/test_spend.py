"""The row type of spend: what it says, and that its records are known by their header."""

from __future__ import annotations

from schemas.fields import Role
from schemas.rows.costs import COSTS
from schemas.rows.finals import PassedOnHeaders, decode
from schemas.rows.spend import SPEND


def test_payers_are_those_of_the_parts_of_bills() -> None:
    """The labels of a row are what each part of a bill says of who pays it."""
    labels = {field.name for field in SPEND.fields if field.role is Role.DIMENSION}

    assert labels == {"tenant", "model"}
    assert {f"part_{name}" for name in labels} < {field.name for field in COSTS.fields}


def test_an_amount_is_never_unknown_and_adds() -> None:
    """What has no price is in no row."""
    amounts = [field for field in SPEND.fields if field.role is Role.DIFFERENCE]

    assert [(field.name, field.kind.optional) for field in amounts] == [("cost_nusd", False)]


def test_its_records_stand_among_finals() -> None:
    """With the headers of what is passed on."""
    headers = PassedOnHeaders(SPEND.schema, 7, 2)

    assert decode(headers.encode(), "here") == headers
