from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.requests.sse import SseReader


def whole(stream: bytes, event_bytes_max: int = 1_000_000) -> list[bytes]:
    reader = SseReader(event_bytes_max)
    return reader.feed(stream) + reader.close()


def cut(stream: bytes, places: list[int], event_bytes_max: int = 1_000_000) -> tuple[list[bytes], int]:
    reader = SseReader(event_bytes_max)
    ends = [0, *sorted(places), len(stream)]
    out = [event for a, b in pairwise(ends) for event in reader.feed(stream[a:b])]
    return out + reader.close(), reader.oversize_events


def reference(stream: bytes, event_bytes_max: int) -> tuple[list[bytes], int]:
    """The standard's rules on the whole stream, line by line, written without regard to cost."""
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    *lines, rest = text.split(b"\n")
    events: list[list[bytes]] = [[]]
    for line in lines:
        if line:
            events[-1].append(line)
        else:
            events.append([])
    if rest:
        events[-1].append(rest)
    out, oversize = [], 0
    for event in events:
        if sum(map(len, event)) > event_bytes_max:
            oversize += 1
            continue
        data = [line[5:].removeprefix(b" ") for line in event if line == b"data" or line.startswith(b"data:")]
        out += [b"\n".join(data)] if data else []
    return out, oversize


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"data: a\n\n", [b"a"], id="one event"),
        pytest.param(b"data: a\n\ndata: b\n\n", [b"a", b"b"], id="two in one piece"),
        pytest.param(b"data:a\n\n", [b"a"], id="no space after the colon"),
        pytest.param(b"data:  a\n\n", [b" a"], id="only one space belongs to the syntax"),
        pytest.param(b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"], id="CR LF"),
        pytest.param(b"data: a\r\rdata: b\r\r", [b"a", b"b"], id="CR"),
        pytest.param(b"data: a\ndata: b\n\n", [b"a\nb"], id="two data lines are one event"),
        pytest.param(b"data\n\n", [b""], id="a field without a value"),
        pytest.param(b"dat: a\ndatax: b\n\n", [], id="fields that only look alike"),
        pytest.param(b": ping\n\nevent: error\nid: 7\ndata: a\nretry: 5\n\n", [b"a"], id="comments and other fields"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", [b"a"], id="byte order mark"),
        pytest.param(b"\xef\xbbdata: a\n\ndata: b\n\n", [b"b"], id="half a byte order mark is part of the name"),
        pytest.param(b"\n\n\ndata: a\n\n\n\n", [b"a"], id="blank lines"),
        pytest.param(b"data: [DONE]", [b"[DONE]"], id="the stream ends in the last line"),
        pytest.param(b"data: [DONE]\n", [b"[DONE]"], id="the stream ends without the blank line"),
        pytest.param(b"data: \xff\xfe\n\n", [b"\xff\xfe"], id="bytes that are no UTF-8"),
    ],
)
def test_events_of_a_stream(stream: bytes, events: list[bytes]) -> None:
    """Lines end in LF, CR LF or CR; data lines join; a blank line or the end of the stream ends the event."""
    assert whole(stream) == events


@pytest.mark.parametrize(
    "stream", [b"data: a\xc3\xa4\r\n\r\ndata: b\r\rdata: c\n\n", b"\xef\xbb\xbfdata: x\ndata: y\n\n"]
)
def test_every_single_cut_gives_the_same_events(stream: bytes) -> None:
    """A cut inside a character, a CR LF or a byte order mark changes nothing."""
    assert [cut(stream, [place])[0] for place in range(len(stream) + 1)] == [whole(stream)] * (len(stream) + 1)
    assert cut(stream, list(range(len(stream))))[0] == whole(stream)


PIECES = st.sampled_from(
    [b"data: ", b"data:", b"data", b"x", b'{"a":1}', b"\n", b"\r", b"\r\n", b"\n\n", b":", b"\xef\xbb\xbf", b"\xc3"]
)


@given(
    stream=st.lists(PIECES, max_size=25).map(b"".join),
    places=st.lists(st.integers(0, 120), max_size=6),
    event_bytes_max=st.integers(4, 40),
)
def test_any_cut_gives_what_the_standard_says(stream: bytes, places: list[int], event_bytes_max: int) -> None:
    """Whatever the stream and its pieces: the same events and the same count of oversize ones."""
    inside = [min(place, len(stream)) for place in places]

    assert cut(stream, inside, event_bytes_max) == reference(stream, event_bytes_max)


@pytest.mark.parametrize(("size", "kept"), [(93, 1), (94, 1), (95, 0)])
@pytest.mark.parametrize("piece", [1, 7, 1_000], ids="pieces of {}".format)
def test_an_event_above_the_bound_is_skipped_up_to_the_next(size: int, kept: int, piece: int) -> None:
    """On the bound it is read; one byte more, it is counted and the event after it is read."""
    reader = SseReader(event_bytes_max=100)
    stream = b"data: " + b"x" * size + b"\n\ndata: next\n\n"

    events = [event for at in range(0, len(stream), piece) for event in reader.feed(stream[at : at + piece])]

    assert events == [b"x" * size] * kept + [b"next"]
    assert reader.oversize_events == 1 - kept


def test_an_endless_line_takes_no_memory() -> None:
    """What is skipped is not kept, however long it goes on; at the end it counts once."""
    reader = SseReader(event_bytes_max=1_000)

    assert [reader.feed(b"x" * 400) for _ in range(100)] == [[]] * 100
    assert len(reader._line) <= 1_000
    assert reader.close() == []
    assert reader.oversize_events == 1


def test_a_run_of_blank_lines_is_walked_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of them costs what two do, wherever it stands and whatever ends a line."""
    walked: list[bytes] = []
    end_line = SseReader._end_line

    def counted(reader: SseReader, rest: bytes, out: list[bytes]) -> None:
        walked.append(rest)
        end_line(reader, rest, out)

    monkeypatch.setattr(SseReader, "_end_line", counted)

    assert whole(b"\n" * 100_000 + b"data: a" + b"\r\n" * 100_000 + b"data: b" + b"\r" * 100_000) == [b"a", b"b"]
    assert len(walked) <= 8
