"""Rules made of other rules, as nodes: a shipped one with a user's changes, one per service class. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stream_jobs.rules.kinds import KINDS
from stream_jobs.rules.ruleset import SloClass
from stream_jobs.rules.sections import LATENCIES
from stream_jobs.yaml_files.nodes import Node, Scalar, Table
from stream_jobs.yaml_files.problems import Problems, WrongError
from stream_jobs.yaml_files.scalars import choice, table

_INNER = ("options", "measures", "while")
"""Keys whose own keys are replaced one by one."""


def called(node: Table) -> str:
    """The name of a rule as written; empty where there is none."""
    given = node.get("name")
    return given.text if isinstance(given, Scalar) else ""


def merged(mine: Sequence[Table], base: Sequence[Table], told: Problems) -> list[Table]:
    """The base's rules with what ``mine`` of the same name say in their place, then the others of ``mine``.

    A name that stands twice in ``mine`` is told.
    """
    own: dict[str, Table] = {}
    for node in mine:
        first = own.setdefault(called(node), node)
        if first is not node and called(node):
            told.add(node.at, f"the name is taken by {first.at}; give it another", called(node)[:64])
    known = {called(node) for node in base}
    kept = [_changed(node, own[called(node)]) if called(node) in own else node for node in base]
    return [*kept, *(node for node in mine if called(node) not in known)]


def _changed(base: Table, mine: Table) -> Table:
    """``mine`` over ``base``. Another kind of detector takes no options over."""
    kind, new = base.get("kind"), mine.get("kind")
    other = isinstance(kind, Scalar) and isinstance(new, Scalar) and kind.text != new.text
    dropped = {"options"} if other else set()
    if mine.get("metric") is not None:
        dropped |= {"topic", "slo"}
    inherited = Table(tuple(pair for pair in base.pairs if pair[0].text not in dropped), mine.at)
    pairs = {key.text: (key, node) for key, node in inherited.pairs}
    for key, node in mine.pairs:
        before = inherited.get(key.text)
        both = key.text in _INNER and isinstance(before, Table) and isinstance(node, Table)
        pairs[key.text] = (key, _inner(before, node, kind) if both else node)
    return Table(tuple(pairs.values()), mine.at)


def _inner(base: Node | None, mine: Node, kind: Node | None) -> Table:
    """Keys of ``mine`` over those of ``base``; of options that exclude one another the new one stays alone."""
    assert isinstance(base, Table)
    assert isinstance(mine, Table)
    given = {key.text for key, _ in mine.pairs}
    found = KINDS.get(kind.text) if isinstance(kind, Scalar) else None
    for group in found.one_of if found else ():
        if given & set(group):
            given |= {*group, "leave"}
    kept = tuple(pair for pair in base.pairs if pair[0].text not in given)
    return Table((*kept, *mine.pairs), mine.at)


def per_class(node: Table, classes: Sequence[SloClass], *, named: bool = True) -> list[Table]:
    """A rule with ``slo: ttft`` once for every class that has that objective: ``named`` after the class, looking at
    its requests that took longer."""
    slo = node.get("slo")
    assert slo is not None
    column = LATENCIES[choice(slo, "slo", tuple(LATENCIES))]
    if node.get("metric") is not None:
        raise WrongError(slo.at, "slo makes the metric; leave metric out")
    where, options = node.get("where"), node.get("options")
    made = []
    for one in classes:
        limit = getattr(one, column)
        if limit is None:
            continue
        at, suffix = slo.at, "_" + re.sub("[^a-z0-9_]", "_", one.name.lower())
        changes: dict[str, Node] = {
            "name": Scalar((called(node) + suffix * named)[:64], at),
            "metric": Scalar(f"share({column} > {limit}us)", at),
            "where": _with(where, "slo_class", one.name, at, "where"),
            "options": _with(options, "objective", repr(one.share), at, "options"),
        }
        kept = [pair for pair in node.pairs if pair[0].text not in {*changes, "slo"}]
        made.append(Table((*((Scalar(key, at), value) for key, value in changes.items()), *kept), node.at))
    return made


def _with(node: Node | None, key: str, value: str, at: str, what: str) -> Table:
    """The mapping with one key more."""
    before = () if node is None else tuple(pair for pair in table(node, what).pairs if pair[0].text != key)
    return Table((*before, (Scalar(key, at), Scalar(value, at, plain=key != "slo_class"))), at)
