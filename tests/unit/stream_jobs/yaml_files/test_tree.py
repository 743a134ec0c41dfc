"""YAML as a tree that knows its lines, within limits."""

from __future__ import annotations

import pytest

from stream_jobs.yaml_files.errors import FileError
from stream_jobs.yaml_files.tree import BYTES_MAX, DEPTH_MAX, NODES_MAX, parse


def test_the_tree_knows_its_lines() -> None:
    """Keys and values, behind comments and folded texts; null is None, a word in quotes is not."""
    tree = parse(b"# first\na: 1\nb:\n  - x\n  - 'null'\nc: ~\nnull: 2\n", "f", "a")

    assert tree == {"a": "1", "b": ["x", "null"], "c": None, "null": "2"}
    assert [(key, tree.key_at(key), tree.at_of(key)) for key in [*tree, "d"]] == [
        ("a", "f:2", "f:2"), ("b", "f:3", "f:4"), ("c", "f:6", "f:6"), ("null", "f:7", "f:7"), ("d", "f:2", "f:2"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b"", "f:1: the file is empty; it needs `a`"),
        (b"# nothing\n", "f:1: the file is empty; it needs `a`"),
        (b"~", "f:1: the file is empty; it needs `a`"),
        (b"[1]", "f:1: the file must be a mapping (key: value)"),
        (b"a: []\na: []", "f:2: key 'a' stands twice; it was at f:1"),
        (b"a: &a [1]\nb: *a", "f:2: aliases (*name) are not allowed; write the value again"),
        (b"a: !!python/object:os.system []", "f:1: tags are not allowed: 'tag:yaml.org,2002:python/object:os.system'"),
        (b"a: []\n---\na: []", "f:2: a second document (---) is not allowed; write a file of its own"),
        (b"a: []\n\xff", "f:2: this is no UTF-8 at byte 6; save the file as UTF-8"),
        (b"a: [", "f:2: this is no YAML: did not find expected node content"),
        (b"a:\n\t- a", "f:2: this is no YAML: found character that cannot start any token"),
        (b"? [a]\n: b", "f:1: a key must be a word"),
        (b"[" * (DEPTH_MAX + 1), f"f:1: more than {NODES_MAX} values or {DEPTH_MAX} levels; no file needs so many"),
        (b"[" * 200_000, f"f:1: more than {NODES_MAX} values or {DEPTH_MAX} levels; no file needs so many"),
        (
            b"[" + b"1," * NODES_MAX + b"1]",
            f"f:1: more than {NODES_MAX} values or {DEPTH_MAX} levels; no file needs so",
        ),
        (b"#" * (BYTES_MAX + 1), f"f:1: the file is larger than {BYTES_MAX} bytes; split it or drop what is unused"),
    ],
)
def test_what_is_no_tree_is_refused(data: bytes, wrong: str) -> None:
    """Bytes, syntax and shape; bombs end early."""
    with pytest.raises(FileError) as caught:
        parse(data, "f", "`a`")

    assert str(caught.value).startswith(wrong)


def test_the_limits_are_allowed() -> None:
    """On the boundary; a byte order mark is no mistake."""
    deep = b"\xef\xbb\xbfa: " + b"[" * (DEPTH_MAX - 1) + b"]" * (DEPTH_MAX - 1)

    assert parse(deep + b"#" * (BYTES_MAX - len(deep)), "f", "a").keys() == {"a"}
    assert len(parse(b"a: [" + b"1," * (NODES_MAX - 3) + b"]", "f", "a")["a"]) == NODES_MAX - 3
