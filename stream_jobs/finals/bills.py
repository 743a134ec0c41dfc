"""Bills as far as their spend goes: of each row of ``costs`` its key, its version, and who pays what of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.codec import native
from schemas.codec.block import Block, Labels, Lists, Numbers
from schemas.contract.record import Record
from schemas.errors import ContractError, RejectedError
from schemas.rows.costs import COSTS

Payer = tuple[str | None, str | None]
"""Tenant and model; null: no tenant in particular, no model."""
Name = tuple[str | None, ...]
"""Use, owner and placement group."""
Ints = npt.NDArray[np.int64]


class Bill(NamedTuple):
    """``spend`` in nano-dollars, parts without a price left out; no amount is 0."""

    minute_ms: int
    name: Name
    version: int
    spend: dict[Payer, int]


def source_of(record: Record) -> int:
    """The partition of ``window.partials`` that the bills of a record come from. Raises ``ContractError``."""
    found = dict(record.headers)
    try:
        if found["schema"] != COSTS.schema.encode():
            raise ContractError(f"{record.where} has schema {found['schema']!r}, not {COSTS.schema}; who wrote it?")
        return int(found["source-partition"])
    except (KeyError, ValueError) as error:
        raise ContractError(f"{record.where}: a header is missing or no number: {error}; who wrote it?") from error


def bills_of(record: Record) -> Iterator[Bill]:
    """The bills of a record, in their order. Raises ``ContractError`` for a value that holds none."""
    try:
        block = native.decode(record.value or b"", COSTS.fields)
    except RejectedError as error:
        raise ContractError(f"{record.where} cannot be read as {COSTS.schema}: {error}") from error
    spends = _spends(block)
    minutes, versions = (block.numbers(name).values.tolist() for name in ("minute_ms", "version"))
    names = zip(*(_labels(block, name) for name in ("use", "owner", "placement_group")), strict=True)
    for row, (minute_ms, version, name) in enumerate(zip(minutes, versions, names, strict=True)):
        yield Bill(minute_ms, name, version, spends[row])


def _spends(block: Block) -> list[dict[Payer, int]]:
    """Of each row what every payer pays: sums of whole numbers."""
    tenants, models, costs = (block.columns[f"part_{name}"] for name in ("tenant", "model", "cost_nusd"))
    assert isinstance(tenants, Lists)
    assert isinstance(models, Lists)
    assert isinstance(costs, Lists)
    assert isinstance(tenants.items, Labels)
    assert isinstance(models.items, Labels)
    assert isinstance(costs.items, Numbers)
    found: list[dict[Payer, int]] = [{} for _ in range(block.rows)]
    row = np.repeat(np.arange(block.rows, dtype=np.int64), np.diff(costs.ends, prepend=0))
    width, height = len(models.items.words), len(tenants.items.words)
    key = (row * height + tenants.items.codes) * width + models.items.codes
    priced = costs.items.values != 0
    if costs.items.known is not None:
        priced &= costs.items.known
    keys, sums = _added(key[priced], costs.items.values[priced])
    tenant_words, model_words = _texts(tenants.items.words), _texts(models.items.words)
    for one, amount in zip(keys.tolist(), sums.tolist(), strict=True):
        payer = tenant_words[one // width % height], model_words[one % width]
        if amount:
            found[one // width // height][payer] = amount
    return found


def _added(keys: Ints, amounts: Ints) -> tuple[Ints, Ints]:
    """Each key once, rising, with the sum of its amounts."""
    if not len(keys):
        return keys, amounts
    order = np.argsort(keys, kind="stable")
    rising = keys[order]
    first = np.flatnonzero(np.diff(rising, prepend=rising[0] - 1))
    return rising[first], np.add.reduceat(amounts[order], first)


def _labels(block: Block, name: str) -> list[str | None]:
    column = block.labels(name)
    words = _texts(column.words)
    return [words[code] for code in column.codes.tolist()]


def _texts(words: list[bytes | None]) -> list[str | None]:
    return [None if word is None else word.decode() for word in words]
