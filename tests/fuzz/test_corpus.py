"""Every harness of the fuzzer on sound captures and on each input that was ever found: none raises, none takes long.

Covers what ``make fuzz`` searches with: a harness whose seeds its reader refuses would search in the dark.
"""

from __future__ import annotations

import pytest

from tests.fuzz.harnesses import CORPUS, HARNESSES, Harness


@pytest.mark.parametrize("harness", HARNESSES, ids=lambda one: one.name)
def test_what_was_found_is_mended(harness: Harness) -> None:
    """Inputs of the corpus, and all beginnings of the seeds at which a cut is likely to hurt."""
    for path in sorted((CORPUS / harness.name).glob("*")):
        harness(path.read_bytes())
    for seed in harness.seeds():
        whole = seed[: harness.bytes_max]
        for at in {0, 1, 2, 7, len(whole) // 2, len(whole) - 1}:
            harness(whole[:at])


@pytest.mark.parametrize("harness", HARNESSES, ids=lambda one: one.name)
def test_a_harness_has_a_seed_that_is_taken(harness: Harness) -> None:
    """At least one is read to its end: the way behind the refusals is open to the search."""
    seeds = [seed for seed in harness.seeds() if len(seed) <= harness.bytes_max]
    assert seeds, "no seed is short enough"

    assert any(_taken(harness, seed) for seed in seeds)


def _taken(harness: Harness, seed: bytes) -> bool:
    try:
        harness.run(seed)
    except harness.refusals:
        return False
    return True


def test_every_folder_of_the_corpus_has_its_harness() -> None:
    """None is left behind by a harness that was renamed."""
    assert {path.name for path in CORPUS.glob("*/")} <= {one.name for one in HARNESSES}
