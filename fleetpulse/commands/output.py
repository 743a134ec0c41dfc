"""How commands speak: data to stdout (tables for people, JSON for programs), everything else to stderr.

Values come from anybody's events: nothing in them is taken for markup, and control characters are shown, not obeyed.
"""

from __future__ import annotations

import base64
import functools
import inspect
import json
import logging
import os
import select
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Any, ParamSpec, TextIO, TypeVar

import orjson
import typer
from rich.console import Console, RenderableType
from rich.text import Text

from fleetpulse.commands.table import Column, FittedTable
from fleetpulse.report.cells import rounded
from schemas.errors import ConfigError, FleetpulseError, UnavailableError
from stream_jobs.yaml_files.errors import FileError

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


class _Console(Console):
    """Where nobody reads standard output any more, printing raises ``BrokenPipeError``, and where nobody reads standard
    error, it prints nowhere: neither decides how a command ends, as it does in rich."""

    def on_broken_pipe(self) -> None:
        if not self.stderr:
            raise BrokenPipeError("nobody reads standard output any more")
        self.quiet = True
        _to_nowhere(sys.stderr)


out = _Console()
err = _Console(stderr=True)

P = ParamSpec("P")
R = TypeVar("R")
_for_program: ContextVar[bool] = ContextVar("for_program", default=False)
_OPTIONS = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS | orjson.OPT_NAIVE_UTC


@dataclass(frozen=True, slots=True)
class Result:
    """What a command found: ``data`` for programs, ``show`` prints it for people. ``wrong`` makes the exit code 1; a
    sentence is printed on stderr, too."""

    data: Any
    show: Callable[[], object]
    wrong: bool | str = False


class Ended(Exception):
    """Ends a command with a result from wherever it stands."""

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        self.result = result


def answers(command: Callable[..., Result | None]) -> Callable[..., None]:
    """The command with ``--json``, ``spoken``: prints its result as JSON or for people; exit 1 where it is wrong."""

    @functools.wraps(command)
    def wrapper(*args: Any, json: bool = False, **kwargs: Any) -> None:
        before = _for_program.set(json)
        try:
            result = command(*args, **kwargs)
        except Ended as ended:
            result = ended.result
        finally:
            _for_program.reset(before)
        if result is None:
            return
        with until_reader_goes():
            if json:
                print_json(result.data)
            else:
                result.show()
        if isinstance(result.wrong, str) and result.wrong:
            err.print(result.wrong, style="red", markup=False, highlight=False, soft_wrap=True)
        if result.wrong:
            raise typer.Exit(1)

    option = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json)
    parameters = {**inspect.signature(command, eval_str=True).parameters, "json": option}
    vars(wrapper)["__signature__"] = inspect.Signature(list(parameters.values()))
    wrapper.__annotations__ = {name: one.annotation for name, one in parameters.items()}
    return spoken(wrapper)


def for_program() -> bool:
    """Whether the command that runs was given ``--json``."""
    return _for_program.get()


def demand_alone(ctx: typer.Context, given: Mapping[str, object]) -> None:
    """Raise ``ConfigError`` for an option of a group, by its name, that stands before a command, which would not see
    it. ``--json`` is one of these."""
    if (name := ctx.invoked_subcommand) is None:
        return
    for option, value in {**given, "--json": for_program()}.items():
        if value:
            bound = f"is of `fleetpulse {ctx.info_name}` alone here; options of {name} stand behind it"
            raise ConfigError(option, value, bound)


@contextmanager
def checking(consequence: str) -> Iterator[None]:
    """Ends the command where a file of people's has mistakes: all of them, and what follows from that."""
    try:
        yield
    except FileError as error:
        problems, text = list(error.problems), str(error)
        count = f"{len(problems)} mistake{'s' * (len(problems) != 1)}"

        def show() -> None:
            err.print(text, style="red", markup=False, highlight=False, soft_wrap=True)
            err.print(f"{count}; {consequence}", markup=False, highlight=False)

        raise Ended(Result({"valid": False, "problems": problems}, show, wrong=True)) from None


def print_json(value: Any) -> None:
    """One JSON document on stdout: numbers and dataclasses as they are, times in UTC, bytes as base64, NaN as null."""
    sys.stdout.write(json_text(value) + "\n")
    sys.stdout.flush()


def json_text(value: Any) -> str:
    """The document that ``print_json`` writes. Whole numbers beyond 64 bits stay numbers; other types become text."""
    try:
        return orjson.dumps(value, option=_OPTIONS, default=_plain).decode()
    except TypeError:
        return json.dumps(_whole_numbers(value), indent=2, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


def _whole_numbers(value: Any) -> Any:
    """The value as what the standard library can write: everything but numbers above 64 bits goes by ``orjson``."""
    if isinstance(value, Mapping):
        return {str(key): _whole_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_whole_numbers(inner) for inner in value]
    if isinstance(value, int):
        return value
    return orjson.loads(orjson.dumps(value, option=_OPTIONS, default=_plain))


def print_rows(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    empty: str,
    least: Sequence[str] = (),
    exact: bool = False,
) -> None:
    """A table on stdout; without rows only the sentence ``empty``, on stderr. ``least``, ``exact`` as in ``table``."""
    listed = list(rows)
    if listed:
        print_whole(table(title, columns, listed, least=least, exact=exact))
    else:
        err.print(empty, markup=False, highlight=False, soft_wrap=True)


def print_whole(*parts: RenderableType) -> None:
    """Texts and tables on stdout: as wide as the terminal; in a pipe wide enough for every column of the tables."""
    if has_width():
        out.print(*parts, sep="\n")
        return
    widths = [part.width_min() for part in parts if isinstance(part, FittedTable)]
    _Console(file=out.file, width=max([out.width, *widths])).print(*parts, sep="\n")


def has_width() -> bool:
    """Whether stdout is a terminal, or somebody said how wide it is; lines of a pipe are as long as need be."""
    return out.is_terminal or "COLUMNS" in os.environ


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    right: Collection[str] = (),
    least: Sequence[str] = (),
    exact: bool = False,
) -> FittedTable:
    """A table; numbers, and the columns ``right``, stand to the right, unknown values show as an en dash.

    ``least`` are the columns to leave out first where there is no room for all. ``exact``: floats with all digits.
    """
    listed = [tuple(row) for row in rows]
    numeric = [
        name in right or any(isinstance(row[at], int | float) for row in listed) for at, name in enumerate(columns)
    ]
    heads = [Column(name, is_number) for name, is_number in zip(columns, numeric, strict=True)]
    return FittedTable(show(title), heads, [[Text(show(value, exact=exact)) for value in row] for row in listed], least)


def show(value: Any, *, exact: bool = False) -> str:
    """A cell: thousands separated, floats to three digits unless they are ``exact``, unknown as a dash, control
    characters as escapes."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,}" if exact else rounded(value)
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in str(value))


def spoken(command: Callable[P, R]) -> Callable[P, R]:
    """The command with what the world does to it as one sentence (``FleetpulseError``), never as a traceback.

    A reader of our output that has gone away (``| head``) ends the command in silence.
    """

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)  # what it says comes in our sentence
        try:
            return command(*args, **kwargs)
        except BrokenPipeError as error:
            if not _reader_is_gone():  # another pipe or socket of ours: no reason to say nothing
                raise sentence_of(error) or error from error
            _to_nowhere(sys.stdout)
            sys.exit(0)
        except Exception as error:
            ours = sentence_of(error)
            if ours is None:
                raise
            raise ours from error

    return wrapper


@contextmanager
def until_reader_goes() -> Iterator[None]:
    """What is printed within ends in silence where the reader of our output goes away; the command goes on."""
    try:
        yield
    except BrokenPipeError:
        if not _reader_is_gone():
            raise
        _to_nowhere(sys.stdout)


def _to_nowhere(stream: TextIO) -> None:
    """What is still to be written goes nowhere; else Python complains of it while it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _reader_is_gone() -> bool:
    """Whether nobody reads our standard output any more."""
    try:
        looked = select.poll()
        looked.register(sys.stdout.fileno(), 0)
        return bool(looked.poll(0))
    except (OSError, ValueError):  # no file behind it, or a closed one
        return True


def sentence_of(error: BaseException) -> FleetpulseError | None:
    """The world's error as one of ours, with what to do about it; None for a defect, which deserves its traceback."""
    from aiokafka.errors import KafkaError
    from clickhouse_connect.driver.exceptions import ClickHouseError

    if isinstance(error, FleetpulseError):
        return error
    said = (str(error).splitlines() or [""])[0] or type(error).__name__
    if isinstance(error, KafkaError):
        return UnavailableError(
            f"Kafka does not answer as it should ({said}); is the stack up? See `fleetpulse status`"
        )
    if isinstance(error, ClickHouseError):
        return UnavailableError(f"ClickHouse does not answer as it should ({said}); see `fleetpulse status`")
    if isinstance(error, TimeoutError):
        return UnavailableError(f"no answer in time ({said}); is the stack up? See `fleetpulse status`")
    if isinstance(error, OSError):
        return FleetpulseError(f"{said}; check the file, the folder's rights and the disk")
    return None
