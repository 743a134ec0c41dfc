"""``stream_jobs.insight.lexicon``: words whose codes last from window to window."""

from __future__ import annotations

import numpy as np

from schemas.codec import native
from schemas.codec.build import rows_of
from schemas.rows.tables import PARTIALS
from stream_jobs.insight.lexicon import Lexicon, Lexicons
from tests.unit.stream_jobs.insight.cases import GPU, a_block, a_gpu

FIELDS = PARTIALS[GPU].fields


def test_a_word_keeps_its_code() -> None:
    """New ones get the next; null is 0; a word that nobody said has none."""
    lexicon = Lexicon()

    first, again = lexicon.take([None, b"b", b"a"]), lexicon.take([b"a", b"c", None, b"b"])

    assert (first.tolist(), again.tolist()) == ([0, 1, 2], [2, 3, 0, 1])
    assert (list(lexicon), [lexicon.code(word) for word in (None, "c", "d")]) == ([None, b"b", b"a", b"c"], [0, 3, -1])


def test_texts_are_made_once() -> None:
    """The same object for a word each time, whatever came since."""
    lexicon = Lexicon()
    lexicon.take(["ü-1".encode()])
    before = lexicon.texts()[1]
    lexicon.take([b"x"])

    assert lexicon.texts().tolist() == [None, "ü-1", "x"]
    assert lexicon.texts()[1] is before


def test_blocks_say_the_same_over_shared_words() -> None:
    """Two windows have the same words for a label, so that joining them looks at codes alone."""
    one, two = (a_block(GPU, [a_gpu(gpu, 1, host="h") for gpu in gpus]) for gpus in ("ba", "cab"))
    lexicons = Lexicons()

    first, second = (lexicons.shared({GPU: block})[GPU] for block in (one, two))
    whole = native.concat(FIELDS, [first, second])

    assert [rows_of(FIELDS, block) for block in (first, second)] == [rows_of(FIELDS, block) for block in (one, two)]
    assert rows_of(FIELDS, whole) == rows_of(FIELDS, one) + rows_of(FIELDS, two)
    assert whole.labels("gpu_uuid").words is first.labels("gpu_uuid").words
    assert whole.labels("gpu_uuid").codes.tolist() == np.concatenate([[1, 2], [3, 2, 1]]).tolist()


def test_too_many_words_begin_anew_with_the_next_window() -> None:
    """What was shared before stays as it is."""
    lexicons = Lexicons(words_max=3)
    blocks = [a_block(GPU, [a_gpu(gpu, 1) for gpu in gpus]) for gpus in ("abc", "d", "de")]

    words = [list(lexicons.shared({GPU: block})[GPU].labels("gpu_uuid").words) for block in blocks]

    assert words == [[None, b"a", b"b", b"c"], [None, b"d"], [None, b"d", b"e"]]
