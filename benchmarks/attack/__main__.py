"""Mutated inputs of all kinds through `hf-pct`, in one process: `make test-attack`.

Bars: no unforeseen error (exit 70) and no traceback, no command that takes longer than 20 seconds, and no damaged
report whose verdict is greener than that of the whole one. Exits with 1 when one is missed. The same seed gives the
same cases.
"""

import argparse
import contextlib
import io
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.attack.case import Case
from benchmarks.attack.cases import Attack
from hf_pct.cli import main as hf_pct
from hf_pct.core.errors import UNFORESEEN

LONGEST = 20  # seconds


class Hang(BaseException):
    """A command that took too long; no `except Exception` of the command itself takes it for its own."""


@dataclass
class Findings:
    """How often every kind ended with every exit code, and what went wrong."""

    codes: dict[str, Counter[int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, case: Case, code: int, shown: str) -> None:
        self.codes.setdefault(case.kind, Counter())[code] += 1
        if code == UNFORESEEN or "Traceback (most recent call last)" in shown:
            self.problems.append(f"unforeseen, {case.kind}: {shown.strip()[-300:]}")
        if case.verdict is not None and code < case.verdict:
            self.problems.append(f"greener, {case.kind}: exit {code} for {' '.join(case.arguments)}")

    def table(self) -> str:
        lines = ["| input | cases | exit 0 | 1 | 2 | 3 | 70 |", "|---|---|---|---|---|---|---|"]
        for kind, codes in self.codes.items():
            cells = " | ".join(str(codes[code]) for code in (0, 1, 2, 3, UNFORESEEN))
            lines.append(f"| {kind} | {codes.total()} | {cells} |")
        return "\n".join(lines)


def run(case: Case) -> tuple[int, str]:
    """The exit code of one command line, and what it printed."""
    shown = io.StringIO()
    signal.alarm(LONGEST)
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            code = hf_pct(case.arguments)
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    except Hang:
        return UNFORESEEN, f"took longer than {LONGEST} seconds: {' '.join(case.arguments)}"
    except BaseException:
        return UNFORESEEN, traceback.format_exc()
    finally:
        signal.alarm(0)
    return code, shown.getvalue()


def attack(count: int, seed: int, keep_going: bool = True) -> Findings:
    """Run about `count` cases."""

    def stop(*_: object) -> None:
        raise Hang

    findings = Findings()
    before = signal.signal(signal.SIGALRM, stop)
    try:
        with tempfile.TemporaryDirectory() as folder:
            for case in Attack(Path(folder), seed).cases(count):
                findings.add(case, *run(case))
                if findings.problems and not keep_going:
                    break
    finally:
        signal.signal(signal.SIGALRM, before)
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=12_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    start = time.perf_counter()
    findings = attack(args.cases, args.seed)
    total = sum(codes.total() for codes in findings.codes.values())
    print(findings.table())
    print(f"\n{total:,} cases in {time.perf_counter() - start:.0f} s, {len(findings.problems)} problems")
    for problem, times in Counter(findings.problems).most_common(20):
        print(f"- {times} x {problem}")
    return 1 if findings.problems else 0


if __name__ == "__main__":
    sys.exit(main())
