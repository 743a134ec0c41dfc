"""The frozen source of 0.1.0, of which the test of rolling upgrades builds a wheel, and the generator of its files."""

from __future__ import annotations

import hashlib
import subprocess
import tarfile

from tests.integration.frozen_release import COMMIT, ROOT, SOURCE

SHA256 = {
    "make.py": "56bba3f62a670511b76f3442e7b6984e4da848f050a10f155632f7aae923f7d7",
    "source.tar.xz": "afddafddf3ddfa2a9d06c7bb5b5a459d6f1075b145fd1674aef08c55f67f8820",
}
"""The generator is written in the names of 0.1.0: what is renamed today must not be renamed in it."""


def blobs_of_the_commit() -> dict[str, str]:
    """Git's ids of its files by path; none where the history does not reach back to it."""
    tree = subprocess.run(["git", "ls-tree", "-r", COMMIT], cwd=ROOT, capture_output=True, text=True, check=False)
    entries = (line.split("\t") for line in tree.stdout.splitlines())
    return {path: what.split()[2] for what, path in entries}


def test_the_frozen_source_is_that_of_the_release() -> None:
    """Nobody has changed it; where git has the commit, every file is the one of the commit."""
    assert {name: hashlib.sha256((SOURCE.parent / name).read_bytes()).hexdigest() for name in SHA256} == SHA256
    with tarfile.open(SOURCE) as archive:
        data = {one.name: archive.extractfile(one).read() for one in archive if one.isfile()}  # type: ignore[union-attr]
    found = {name: hashlib.sha1(b"blob %d\0%b" % (len(text), text)).hexdigest() for name, text in data.items()}
    expected = blobs_of_the_commit() or found

    assert len(found) > 300
    assert found == {name: expected[name] for name in found}
