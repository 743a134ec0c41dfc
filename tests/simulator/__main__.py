"""Random schedules against the real runner: ``python -m tests.simulator --schedules 20000 --seed 1 --jobs 2``.

Prints one JSON line; exit 1 when a schedule shows a violation. ``--mutations`` switches every rule off in turn and
prints the table of docs/why/guarantees.md; exit 1 when one is not noticed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.simulator.mutations import Mutation
from tests.simulator.pool_work import MUTATIONS, WINDOWS_EVERY, run_one, schedules_to_notice
from tests.simulator.schedule import Outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--schedules", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--mutations", action="store_true", help="switch each rule off, within --schedules each")
    told = parser.parse_args()
    with ProcessPoolExecutor(told.jobs) as pool:
        if told.mutations:
            tries = [(number, told.schedules, told.seed) for number in range(len(MUTATIONS))]
            return _print_mutations(list(pool.map(schedules_to_notice, tries)))
        seeds = range(told.seed, told.seed + told.schedules)
        return _print_summary(pool.map(run_one, seeds, chunksize=20), told.seed)


def _print_summary(outcomes: Iterator[Outcome], seed: int) -> int:
    began_s = time.monotonic()
    ends: Counter[str] = Counter()
    blows: Counter[str] = Counter()
    violations: dict[int, list[str]] = {}
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        ends += outcome.ends
        blows += outcome.blows
        windows = outcome.seed % WINDOWS_EVERY == 0
        counts.update(schedules=1, of_windows_job=windows, records=outcome.records, commits=outcome.commits)
        if outcome.violations:
            violations[outcome.seed] = outcome.violations[:3]
    told = {
        **counts,
        "violations": len(violations),
        "violating_seeds": dict(list(violations.items())[:10]),
        "blows": dict(blows),
        "process_ends": dict(ends),
        "seed": seed,
        "taken_s": round(time.monotonic() - began_s, 1),
    }
    sys.stdout.write(json.dumps(told) + "\n")
    return 1 if violations else 0


def _print_mutations(found: list[int | None]) -> int:
    sys.stdout.write(table(list(zip(MUTATIONS, found, strict=True))))
    return 1 if None in found else 0


def table(rows: list[tuple[Mutation, int | None]]) -> str:
    """The table of docs/why/guarantees.md. The last column: how many schedules it took to notice."""
    lines = ["| rule | switched off | noticed after |", "|---|---|---|"]
    for mutation, schedules in rows:
        off = mutation.off + (f" (and {mutation.also_off} is off too)" if mutation.also_off else "")
        lines.append(f"| {mutation.rule} | {off} | {'**never**' if schedules is None else schedules} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
