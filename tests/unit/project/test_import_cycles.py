"""No two modules need one another: each can be read, and tested, before those that import it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.unit.project.test_tidy import PACKAGES, ROOT

Graph = dict[str, set[str]]
"""Modules by dotted name, with those that they import."""


def files() -> dict[str, Path]:
    """Every module of the product by its dotted name; a package by the name of its folder."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(tree: ast.AST, known: Mapping[str, object]) -> Iterator[str]:
    """Modules that are imported anywhere: at the top, inside a function, under ``TYPE_CHECKING``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in known else node.module for name in inner]
        else:
            continue
        yield from (name for name in names if name in known)


def in_cycles(graph: Graph) -> Graph:
    """What is left when modules that import none of the rest, or that none of the rest imports, are taken away."""
    left = dict(graph)
    while True:
        wanted = set().union(*left.values())
        rest = {name: uses & left.keys() for name, uses in left.items() if name in wanted and uses & left.keys()}
        if rest == left:
            return left
        left = rest


def test_no_modules_import_one_another_in_a_circle() -> None:
    """Also not inside functions or for types alone: who needs a type of its user declares a protocol."""
    known = files()
    graph = {name: set(imported(ast.parse(path.read_text()), known)) - {name} for name, path in known.items()}

    assert len(graph) > 500
    assert in_cycles(graph) == {}


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import a.b", {"a.b"}),
        ("from a import b, Name", {"a.b", "a"}),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a.b import Name", {"a.b"}),
        ("def late():\n    from a.b import Name", {"a.b"}),
    ],
    ids=["module", "module and name of a package", "for types", "in a function"],
)
def test_every_way_to_import_is_seen(code: str, found: set[str]) -> None:
    """Of modules of ours alone."""
    assert set(imported(ast.parse(code), {"a": 0, "a.b": 0})) == found


def test_a_circle_is_found_with_what_lies_on_it() -> None:
    """Not what leads into it, nor what it leads to."""
    graph: Graph = {"above": {"a"}, "a": {"b"}, "b": {"c"}, "c": {"a", "below"}, "below": set()}

    assert in_cycles(graph) == {"a": {"b"}, "b": {"c"}, "c": {"a"}}
