"""One way for ``--json``: a command returns what it found, and it is printed for programs or for people."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Annotated

import pytest
import typer
from click.testing import Result as Done
from typer.testing import CliRunner

from fleetpulse.commands import output
from fleetpulse.commands.output import Ended, Result, answers, checking, err, for_program, show
from fleetpulse.commands.ready_made import for_people
from fleetpulse.sql.database import Answer
from fleetpulse.sql.query import Query
from runtime.config import ClickHouseConfig
from stream_jobs.yaml_files.errors import FileError

app = typer.Typer()


@app.command()
@answers
def count(wrong: Annotated[str, typer.Option()] = "", nothing: bool = False, ended: bool = False) -> Result | None:
    """Count."""
    found = Result({"for_program": for_program()}, lambda: typer.echo("counted"), wrong)
    if ended:
        raise Ended(found)
    return None if nothing else found


@app.command()
@answers
def check(mistakes: int) -> Result:
    """Check."""
    with checking("no price of it is used"):
        raise FileError("p.yaml", *((f"p.yaml:{line}", "is wrong") for line in range(1, mistakes + 1)))


def run(*words: str) -> Done:
    return CliRunner().invoke(app, words)


@pytest.mark.parametrize("ended", [(), ("--ended",)], ids=["returned", "raised"])
def test_a_result_is_printed_for_programs_or_for_people(ended: tuple[str, ...]) -> None:
    """One of the two, and the command knows which, also when it ends early."""
    people, programs = run("count", *ended), run("count", *ended, "--json")

    assert (people.exit_code, people.stdout) == (0, "counted\n")
    assert (programs.exit_code, json.loads(programs.stdout)) == (0, {"for_program": True})
    assert not for_program()


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_wrong_result_is_exit_code_one_and_its_sentence_goes_to_stderr(words: tuple[str, ...]) -> None:
    """Behind the result, which is printed all the same."""
    done = run("count", "--wrong", "nothing adds up", *words)

    assert (done.exit_code, done.stderr) == (1, "nothing adds up\n")
    assert done.stdout


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_command_without_a_result_prints_nothing(words: tuple[str, ...]) -> None:
    """Such as a group whose subcommand runs, or a service that has ended."""
    done = run("count", "--nothing", *words)

    assert (done.exit_code, done.output) == (0, "")


def test_mistakes_of_a_file_end_the_command_with_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """As lines and a count for people, as a list for programs."""
    monkeypatch.setattr(output, "err", type(err)(stderr=True, width=80))
    people, programs = run("check", "2"), run("check", "1", "--json")

    assert (people.exit_code, programs.exit_code) == (1, 1)
    assert people.stderr == "p.yaml:1: is wrong\np.yaml:2: is wrong\n2 mistakes; no price of it is used\n"
    assert json.loads(programs.stdout) == {"valid": False, "problems": ["p.yaml:1: is wrong"]}
    assert run("check", "1").stderr.endswith("1 mistake; no price of it is used\n")


BROKEN = """
import os, sys
from fleetpulse.commands.output import spoken
from schemas.errors import FleetpulseError

@spoken
def command():
    if "own" in sys.argv:
        raise BrokenPipeError("a socket of ours")
    while True:
        os.write(1, b"x" * 65_536)

try:
    command()
except FleetpulseError as error:
    sys.exit(f"said: {error}")
"""


def test_a_reader_that_is_gone_ends_a_command_in_silence_and_no_other_pipe_does() -> None:
    """A broken socket or pipe to somebody else is an error that is said, with an exit code."""
    gone = subprocess.Popen([sys.executable, "-c", BROKEN], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert gone.stdout is not None
    gone.stdout.read(1)
    gone.stdout.close()
    with gone:
        said = gone.stderr.read() if gone.stderr is not None else b""
    own = subprocess.run([sys.executable, "-c", BROKEN, "own"], capture_output=True, text=True, check=False)

    assert (gone.returncode, said) == (0, b"")
    assert (own.returncode, own.stdout) == (1, "")
    assert own.stderr.startswith("said: a socket of ours")


ENDS = """
import sys, typer
from fleetpulse.commands.output import Result, answers, err, out, print_rows

app = typer.Typer()

def show():
    err.print("behind it")
    print_rows("T", ("n",), [(1,)], empty="")
    out.print("more")

@app.command()
@answers
def command(wrong: bool = False):
    return Result([1], show, "not exact" if wrong else False)

app()
"""


def ended(words: list[str], closed: str, script: str = ENDS) -> tuple[int, bytes]:
    """Exit code, and what the other stream got, of a script of which nobody reads the one that is ``closed``."""
    reading, writing = os.pipe()
    os.close(reading)
    out, err = (writing if closed == name else subprocess.PIPE for name in ("stdout", "stderr"))
    done = subprocess.run([sys.executable, "-c", script, *words], stdout=out, stderr=err, check=False)
    os.close(writing)
    return done.returncode, done.stderr if closed == "stdout" else done.stdout


@pytest.mark.parametrize(("words", "code", "said"), [([], 0, b""), (["--wrong"], 1, b"not exact\n")])
@pytest.mark.parametrize("json", [True, False], ids=["program", "people"])
def test_a_reader_that_is_gone_leaves_the_exit_code_of_the_result(
    words: list[str], code: int, said: bytes, json: bool
) -> None:
    """As for whoever reads to the end: what is right does not fail, and what is wrong is not taken for right."""
    before = b"" if json else b"behind it\n"

    assert ended([*words, *["--json"] * json], "stdout") == (code, before + said)


@pytest.mark.parametrize(("words", "code"), [([], 0), (["--wrong"], 1)])
def test_a_reader_of_stderr_that_is_gone_changes_nothing(words: list[str], code: int) -> None:
    """Neither what is printed nor the exit code."""
    found, shown = ended(words, "stderr")

    assert (found, [line.strip() for line in shown.splitlines()][-2:]) == (code, [b"1", b"more"])


RESET = """
import sys
from types import SimpleNamespace
from fleetpulse.alerts import actions
from fleetpulse.cli import main
from fleetpulse.services import reset_partition

async def reset(*given, **named):
    done = given[4](SimpleNamespace(lines=lambda: ["it costs nothing"]))
    print("carried out" if done else "left", file=sys.stderr)
    return None, done

reset_partition.reset_partition = reset
actions.record_run = lambda *given: None
main()
"""


@pytest.mark.parametrize(("words", "expected"), [(["--yes"], (0, b"carried out\n")), ([], (1, b"left\n"))])
def test_a_reader_that_is_gone_stops_no_reset(words: list[str], expected: tuple[int, bytes]) -> None:
    """It was recorded as a run; ``--yes`` decides, not whether somebody reads what it costs to the end."""
    assert ended(["jobs", "reset", "--partition", "llm.requests:3", *words], "stdout", RESET) == expected


def test_a_sentence_about_a_wrong_result_stays_one_line() -> None:
    """Also in a pipe, for whoever looks for it in a log."""
    sentence = "bills differ " * 20

    assert run("count", "--wrong", sentence).stderr == f"{sentence}\n"


def test_numbers_of_peoples_own_sql_keep_their_digits(capsys: pytest.CaptureFixture[str]) -> None:
    """Money is not rounded to whole dollars there; in tables of ours three digits do."""
    answer = Answer(("usd", "share"), ((1234.56, 0.123456),))
    query = Query("SELECT 1234.56 AS usd, 0.123456 AS share", {})

    for_people(ClickHouseConfig(), query.sql, query, answer).show()

    assert "1,234.56" in (said := capsys.readouterr().out)
    assert "0.123456" in said
    assert (show(1234.56), show(0.123456)) == ("1,235", "0.123")
