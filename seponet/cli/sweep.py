"""`seponet sweep`."""

import logging
from argparse import Namespace
from pathlib import Path
from typing import Any

from .._files import write_text
from .._text import parse_duration, show_duration
from ..runs.sweep import Case, last_line, make_cases, read_over, run_cases, slurm_script, table
from .output import NOT_REACHED, write_json, write_line, write_table
from .parser import parse
from .train import configure

logger = logging.getLogger(__name__)


def sweep_command(arguments: Namespace) -> int:
    seconds = None if arguments.budget is None else parse_duration(arguments.budget)
    over = read_over(arguments.over)
    name = Path(arguments.problem.rpartition(":")[2] or arguments.problem).name
    out = Path(arguments.out or Path("runs") / f"sweep-{name}-{Path(arguments.recipe).stem}")
    cases = make_cases(over, out)
    if not arguments.table:
        _check(arguments, cases)
    if arguments.slurm:
        return _write_script(arguments, out, cases, seconds)
    if arguments.only is not None and arguments.only >= len(cases):
        raise ValueError(f"--only is below the number of combinations, {len(cases)}; got {arguments.only}")
    chosen = cases if arguments.only is None else [cases[arguments.only]]
    codes: list[int] = []
    if not arguments.table:

        def tell(case: Case, code: int) -> None:
            codes.append(code)
            words = {0: "trained", NOT_REACHED: "trained, but not well enough"}
            logger.info("%s: %s", case.out, words.get(code) or f"failed: {last_line(case)} ({case.out}.log)")

        jobs = arguments.jobs or 1
        logger.info("%d trainings, %d at a time, in %s", len(chosen), jobs, out)
        if run_cases(chosen, _train_options(arguments), jobs, tell):
            raise ValueError("stopped by a signal; give the same command again, and it goes on where it was")
    _show(arguments, table(chosen))
    return 1 if any(code not in (0, NOT_REACHED) for code in codes) else max(codes, default=0)


def _check(arguments: Namespace, cases: list[Case]) -> None:
    """Refuse what no training would take, before the first one of many."""
    seen: set[tuple[str, ...]] = set()
    for case in cases:
        settings = tuple(f"{key}={value}" for key, value in case.settings.items() if key != "seed")
        if settings not in seen:
            seen.add(settings)
            configure(parse(["train", *_train_options(arguments), *case.options()]))


def _train_options(arguments: Namespace) -> list[str]:
    options = [arguments.problem, "--recipe", arguments.recipe, "--functions", str(arguments.functions), "--no-figures"]
    for setting in arguments.set:
        options += ["--set", setting]
    for name in ("budget", "tolerance"):
        if getattr(arguments, name) is not None:
            options += [f"--{name}", getattr(arguments, name)]
    return [*options, *(["--trust"] if arguments.trust else [])]


def _write_script(arguments: Namespace, out: Path, cases: list[Case], seconds: float | None) -> int:
    path = Path(arguments.slurm)
    if path.exists():
        raise ValueError(f"{path} exists already; choose another name for the script")
    over = [word for text in arguments.over for word in ("--over", text)]
    command = ["seponet", "sweep", *_train_options(arguments), *over, "--out", str(out)]
    command.remove("--no-figures")
    write_text(path, slurm_script(command, len(cases), arguments.jobs, seconds))
    write_line(f"{path}: an array of {len(cases)} trainings; start it with: sbatch {path}")
    return 0


def _show(arguments: Namespace, rows: list[dict[str, Any]]) -> None:
    if arguments.json:
        write_json({"cases": rows})
        return
    keys = [key for key in rows[0] if key not in ("state", "steps", "seconds", "validation", "relative_l2_mean", "out")]
    shown = []
    for row in rows:
        seconds = "" if row["seconds"] is None else show_duration(row["seconds"])
        errors = ["" if row[key] is None else f"{100 * row[key]:.3g}%" for key in ("validation", "relative_l2_mean")]
        shown.append([*(row[key] for key in keys), row["state"], str(row["steps"] or ""), seconds, *errors])
    write_table("Sweep", [*keys, "state", "steps", "time", "validation", "relative L2 error"], shown)
