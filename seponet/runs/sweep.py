"""Trainings for every combination of some settings: side by side on this machine, or as an array of Slurm's."""

import itertools
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .folder import RunFolder

MOST = 10_000
"""The most trainings of a sweep."""


@dataclass(frozen=True)
class Case:
    """One combination.

    - `index`: which one.
    - `settings`: its values as text, by key.
    - `out`: its run folder.
    """

    index: int
    settings: Mapping[str, str]
    out: Path

    def options(self) -> list[str]:
        """The options of `seponet train` that make it."""
        options: list[str] = []
        for key, value in self.settings.items():
            options += ["--seed", value] if key == "seed" else ["--set", f"{key}={value}"]
        return [*options, "--out", str(self.out)]


def read_over(texts: Sequence[str]) -> dict[str, list[str]]:
    """The values of each key: `seed=0..7` counts, `constants.nu=0.01,0.02` lists; commas in brackets belong to a
    value."""
    over: dict[str, list[str]] = {}
    for text in texts:
        key, equals, values = (part.strip() for part in text.partition("="))
        counted = re.fullmatch(r"(-?\d{1,9})\.\.(-?\d{1,9})", values)
        if counted:
            first, last = map(int, counted.groups())
            # One more than there may be is enough to be refused.
            found = [str(number) for number in range(first, min(last, first + MOST) + 1)]
        else:
            found = [value.strip() for value in re.split(r",(?![^\[{]*[\]}])", values)]
        if not equals or not key or not all(found) or not found or key in over or len(set(found)) < len(found):
            raise ValueError(
                f"--over is written KEY=VALUES, for instance seed=0..7 or constants.nu=0.01,0.02, with each key and "
                f"value once; got {text!r}"
            )
        if key != "seed" and key.partition(".")[0] not in ("constants", "model", "train"):
            raise ValueError(f"--over changes seed, constants.<name>, model.<key> or train.<key>; got {key!r}")
        over[key] = found
    return over


def make_cases(over: Mapping[str, Sequence[str]], out: Path) -> list[Case]:
    """All combinations, the last key fastest."""
    combinations = list(itertools.islice(itertools.product(*over.values()), MOST + 1))
    if not over or len(combinations) > MOST:
        raise ValueError(f"a sweep has 1 to {MOST:,} combinations: give --over KEY=VALUES, with fewer values")
    cases = []
    for index, values in enumerate(combinations):
        settings = dict(zip(over, values, strict=True))
        name = ",".join(f"{key.rpartition('.')[2]}={value}" for key, value in settings.items())
        cases.append(Case(index, settings, out / f"{index:0{len(str(len(combinations) - 1))}d}-{_as_name(name)}"))
    return cases


def run_cases(
    cases: Sequence[Case],
    arguments: Sequence[str],
    jobs: int,
    told: Callable[[Case, int], None] = lambda *_: None,
) -> bool:
    """Train what is not complete, each in a process of its own, `jobs` at the same time.

    **Arguments:**

    - `arguments`: of `seponet train`, the same for all.
    - `told`: is told of each training that ends, with its exit code. What it wrote is in the log beside its folder.

    A signal to end is passed on to the trainings, which write checkpoints; no other one begins, and the process waits.

    **Returns:** whether there was such a signal.
    """
    running: set[subprocess.Popen[bytes]] = set()
    ended = threading.Event()

    def end(*_: object) -> None:
        ended.set()
        for process in tuple(running):
            process.terminate()

    def train(case: Case) -> None:
        if ended.is_set():
            return
        case.out.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "seponet", "train", *arguments, *case.options(), "--distributed", "off"]
        resume = ["--resume"] if RunFolder(case.out).config.exists() else []
        with (
            _log(case).open("w") as file,
            # In a session of its own, a training hears of Ctrl-C from us alone, and once.
            subprocess.Popen(
                [*command, *resume], stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            ) as process,
        ):
            running.add(process)
            if ended.is_set():
                process.terminate()
            code = process.wait()
            running.discard(process)
        told(case, code)

    before = {which: signal.signal(which, end) for which in (signal.SIGINT, signal.SIGTERM)}
    try:
        with ThreadPoolExecutor(jobs) as threads:
            list(threads.map(train, [case for case in cases if not _is_complete(case)]))
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
    return ended.is_set()


def last_line(case: Case) -> str:
    """The last thing that a training said."""
    lines = _log(case).read_text(errors="replace").split("\n") if _log(case).exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def table(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """What each case came to: a row for each, whether or not it has been trained."""
    rows = []
    for case in cases:
        report = RunFolder(case.out).read_report() if case.out.is_dir() else {}
        state = "not trained" if not report else "stopped" if report.get("interrupted", True) else "complete"
        rows.append(
            {
                **case.settings,
                "state": state,
                "steps": report.get("steps"),
                "seconds": report.get("training_seconds"),
                "validation": report.get("validation_relative_l2"),
                "relative_l2_mean": report.get("relative_l2_mean"),
                "out": str(case.out),
            }
        )
    return rows


def slurm_script(command: Sequence[str], count: int, jobs: int | None, seconds: float | None) -> str:
    """An array script for `sbatch`: one task for each case.

    **Arguments:**

    - `command`: the words of the sweep itself, without `--slurm`.
    - `jobs`: how many run at the same time; as many as Slurm starts, if it is None.
    - `seconds`: the budget of a training, if there is one: twice as long, and ten minutes, is asked for.
    """
    limit = "" if seconds is None else f"#SBATCH --time={int(2 * seconds / 60) + 10}\n"
    return (
        "#!/bin/bash\n"
        "#SBATCH --job-name=seponet-sweep\n"
        f"#SBATCH --array=0-{count - 1}{'' if jobs is None else f'%{jobs}'}\n"
        "#SBATCH --ntasks=1\n"
        f"{limit}"
        "# A minute before the end the training is told, writes a checkpoint and can be resumed by the same script.\n"
        "#SBATCH --signal=B:TERM@60\n"
        "# The table, at any time:\n"
        f"#   {shlex.join(command)} --table\n"
        f'exec {shlex.join(command)} --only "$SLURM_ARRAY_TASK_ID"\n'
    )


def _log(case: Case) -> Path:
    return case.out.with_name(f"{case.out.name}.log")


def _is_complete(case: Case) -> bool:
    return case.out.is_dir() and not RunFolder(case.out).read_report().get("interrupted", True)


def _as_name(text: str) -> str:
    """Text as part of a file's name."""
    return re.sub(r"[^\w.,=+-]", "_", text)[:100]
