"""Parts of ClickHouse's tables whose files are damaged: how an error says so. Pure.

What is read from such a file is anything: an empty file of marks (246), one that is cut (33), bytes that do not fit
their checksum (40) or do not unpack (271), a file that is gone (107). Several of these codes also mean a statement of
ours that does not fit; then no part is named.
"""

from __future__ import annotations

import re

CODES = {
    32: "ATTEMPT_TO_READ_AFTER_EOF",
    33: "CANNOT_READ_ALL_DATA",
    40: "CHECKSUM_DOESNT_MATCH",
    107: "FILE_DOESNT_EXIST",
    117: "INCORRECT_DATA",
    226: "NO_FILE_IN_DATA_PART",
    228: "BAD_SIZE_OF_FILE_IN_DATA_PART",
    246: "CORRUPTED_DATA",
    271: "CANNOT_DECOMPRESS",
}
"""Error codes of a file that cannot be read, where the error names a part."""
READING = re.compile(r"while reading from part (?:.*/)?([^/\s]+)/ in table (\S+)")
"""Part and table (with its database), as errors name them since ClickHouse 23."""


def broken_part(code: int | None, text: str) -> tuple[str, str] | None:
    """Table (with its database) and part that cannot be read; None where the error is another."""
    found = READING.search(text) if code in CODES else None
    return None if found is None else (found[2], found[1])
