"""Views of a range, written out where a query of ours reads one.

ClickHouse analyses a view with parameters once for its columns and once more for its rows: a third of what a query over
few rows takes. Written out it is analysed once; the answer is the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from schemas.ddl.declared import declared, made

_PLACE = re.compile(r"\{(\w+):\w+\}")
_GIVEN = r"(\w+) = (\{\w+:\w+\}|\d+)"
_BODY = re.compile(r"\n\)\nAS\s(.+)\nCOMMENT '[^\n]+'", re.DOTALL)


def written_out(sql: str) -> str:
    """The query with each view of a range as the subquery that it stands for."""
    return _read().sub(lambda found: _subquery(found["view"], dict(re.findall(_GIVEN, found["given"]))), sql)


def _subquery(view: str, given: Mapping[str, str]) -> str:
    return f"(\n{_PLACE.sub(lambda place: given[place[1]], _bodies()[view])}\n)"


@cache
def _bodies() -> dict[str, str]:
    """What stands behind AS, by the name of each view that has parameters."""
    views = (statement for statement in declared().values() if made(statement)[0] == "view")
    found = {made(one)[1]: body[1] for one in views if (body := _BODY.search(one))}
    return {name: body for name, body in found.items() if _PLACE.search(body)}


@cache
def _read() -> re.Pattern[str]:
    return re.compile(rf"\b(?P<view>{'|'.join(_bodies())})\((?P<given>{_GIVEN}(?:, {_GIVEN})*)\)")
