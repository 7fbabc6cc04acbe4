"""A study: a grid of cells, each measured in a process of its own and kept in a file of its own.

A cell is a frozen dataclass of plain settings; its id, made of their values, names its file
`results/<study>/<id>.json`. A finished cell is never run twice, so a study goes on where it was stopped, by a budget,
by Ctrl-C or by a crash. A process of its own makes the peak memory that of the cell alone, and a failure a result.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from results import RESULTS, machine, store

from seponet._text import parse_duration, show_duration

GRACE = 30.0
"""Seconds that a cell may go on after the budget; then it is stopped, and not recorded."""


def stated(problem: str) -> dict[str, Any]:
    """What the `quick` recipe of a problem says: a setting of the cells that are run with it."""
    from seponet.runs.recipes import PACKAGED

    return tomllib.loads((PACKAGED / problem / "quick.toml").read_text())


def as_now(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Stored settings, with the defaults of those of a recipe that have come since."""
    from seponet.training.recipe import Recipe

    tables = settings.get("recipe")
    # Some studies note what a file says, or a part of it: that is compared as it is.
    if not isinstance(tables, dict) or set(tables) != {"model", "train"} or "targets" not in tables["train"]:
        return dict(settings)
    return {**settings, "recipe": json.loads(json.dumps(Recipe.from_dict(tables, "stored").to_dict()))}


@dataclass(frozen=True)
class Cell:
    """Settings of one measurement; studies declare theirs in a subclass."""

    @property
    def id(self) -> str:
        return "-".join(re.sub(r"[^\w.+]", "_", str(value)) for value in asdict(self).values())


C = TypeVar("C", bound=Cell)


@dataclass(frozen=True)
class Outcome:
    """What is known of a cell.

    - `cell`: its settings.
    - `status`: "measured", "predicted" (not run: it would not fit in memory or in the time for a cell) or "failed".
    - `result`: what was measured or predicted; of a failure the `reason`.
    - `cores`: that the process could use.
    """

    cell: Mapping[str, Any]
    status: str
    result: Mapping[str, Any]
    cores: int

    @property
    def measured(self) -> bool:
        return self.status == "measured"


Finished = Mapping[str, Outcome]
"""Outcomes by the ids of their cells."""


@dataclass(frozen=True)
class Study(Generic[C]):
    """A grid of cells and how one is measured.

    **Arguments:**

    - `name`: of the folder of results.
    - `cells`: in the order in which they are run.
    - `measure`: a cell to its numbers; runs in a process of its own.
    - `predict`: a cell and the finished ones to its predicted numbers if it should not be run, else None.
    - `script`: the file that runs the study; `flags` are the arguments that choose it there.
    - `limit`: seconds after which a cell has failed.
    - `settings`: what a cell depends on beside its own settings; an outcome with other ones doesn't count.
    - `prepare`: makes what has to be there before some cells run, for which they should not pay.
    - `price`: about how long cells take: the cheapest are run first, so that a study that is stopped has many.
    """

    name: str
    cells: Sequence[C]
    measure: Callable[[C], Mapping[str, Any]]
    script: str
    predict: Callable[[C, Finished], Mapping[str, Any] | None] = lambda _cell, _finished: None
    flags: tuple[str, ...] = ()
    limit: float = 300.0
    settings: Callable[[C], Mapping[str, Any]] = lambda _cell: {}
    prepare: Callable[[Sequence[C]], None] = lambda _cells: None
    price: Callable[[Sequence[C]], Sequence[float]] | None = None

    def finished(self) -> dict[str, Outcome]:
        """The outcomes of this study's cells that are stored, in the order of the cells."""
        outcomes: dict[str, Outcome] = {}
        for cell in self.cells:
            path = self._path(cell)
            if path.exists():
                content = json.loads(path.read_text())
                if as_now(content.get("settings", {})) != as_now(self._settings(cell)):
                    continue
                outcomes[cell.id] = Outcome(
                    content["cell"], content["status"], content["result"], content["machine"]["cores"]
                )
        return outcomes

    def choose(self, only: Sequence[str], again: bool = False, retry: bool = False) -> list[C]:
        """The cells still to be run among those that have all of the words in `only` as settings."""
        finished = {} if again else self.finished()
        matching = [cell for cell in self.cells if set(only) <= {str(value) for value in asdict(cell).values()}]
        if not matching:
            values = sorted({str(value) for cell in self.cells for value in asdict(cell).values()})
            raise SystemExit(f"no cell of {self.name} has {' and '.join(only)}; settings are {', '.join(values)}")
        todo = [c for c in matching if c.id not in finished or (retry and finished[c.id].status == "failed")]
        if self.price is None:
            return todo
        return [cell for _, _, cell in sorted(zip(self.price(todo), range(len(todo)), todo, strict=True))]

    def run(self, cells: Sequence[C], budget: float | None = None, quiet: bool = False) -> int:
        """Run cells until the budget is spent; how many were done."""
        # Not imported in the processes of cells, whose memory is measured.
        from seponet.training.progress import progress_bar

        self.prepare(cells)
        deadline = time.monotonic() + (float("inf") if budget is None else budget)
        done = 0
        with progress_bar(self.name, quiet) as show:
            for cell in cells:
                if show is not None:
                    show(done, len(cells))
                if time.monotonic() >= deadline:
                    break
                outcome = self._in_process(cell, deadline + GRACE)
                if outcome is None:
                    break
                self._keep(cell, outcome)
                done += 1
                if not quiet:
                    print(f"{self.name} {cell.id}: {outcome['status']}, {_brief(outcome['result'])}", flush=True)
        return done

    def main(self, argv: Sequence[str] | None = None, render: Callable[[], None] | None = None) -> int:
        """The command line of a study. `render` writes tables and figures from what is stored."""
        parser = argparse.ArgumentParser(
            prog=f"seponet bench {Path(self.script).stem}", description=sys.modules["__main__"].__doc__
        )
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="cells with all of these settings")
        parser.add_argument("--budget", type=parse_duration, metavar="TIME", help="start no cell after: 90s, 10min")
        parser.add_argument("--again", action="store_true", help="measure finished cells again")
        parser.add_argument("--retry", action="store_true", help="run cells again that had failed")
        parser.add_argument("--render", action="store_true", help="only write tables and figures from what is stored")
        parser.add_argument("--list", action="store_true", help="only show what there is to run")
        parser.add_argument("--json", action="store_true", help="write all outcomes as JSON, and nothing else")
        parser.add_argument("--cell", help=argparse.SUPPRESS)
        parser.add_argument("--to", type=Path, help=argparse.SUPPRESS)
        arguments = parser.parse_args(argv)
        if arguments.cell:
            arguments.to.write_text(json.dumps(self._outcome_of(arguments.cell)))
            return 0
        todo = self.choose(arguments.only, arguments.again, arguments.retry)
        if arguments.list:
            for cell in todo:
                print(cell.id)
            return 0
        if not arguments.render:
            began = time.monotonic()
            # So that whatever asks the study to end also ends its cell.
            before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
            done = self.run(todo, arguments.budget, quiet=arguments.json)
            signal.signal(signal.SIGTERM, before)
            if not arguments.json:
                spent = show_duration(time.monotonic() - began)
                print(f"{self.name}: {done} cells in {spent}, {len(todo) - done} to go")
        if render is not None:
            render()
        if arguments.json:
            print(json.dumps({cell: asdict(outcome) for cell, outcome in self.finished().items()}, indent=1))
        return 0

    def _outcome_of(self, name: str) -> dict[str, Any]:
        """Inside the process of a cell."""
        cell = next(cell for cell in self.cells if cell.id == name)
        predicted = self.predict(cell, self.finished())
        if predicted is not None:
            return {"status": "predicted", "result": dict(predicted)}
        return {"status": "measured", "result": dict(self.measure(cell))}

    def _in_process(self, cell: C, deadline: float) -> dict[str, Any] | None:
        """The outcome of a cell; None if the budget ended it."""
        with tempfile.TemporaryDirectory() as folder:
            to = Path(folder) / "outcome.json"
            command = [sys.executable, self.script, *self.flags, "--cell", cell.id, "--to", str(to)]
            left = deadline - time.monotonic()
            # A session of its own, so that what the cell has started ends with it.
            cell_process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
            )
            try:
                _, said = cell_process.communicate(timeout=min(self.limit, left))
            except subprocess.TimeoutExpired:
                reason = f"took longer than {show_duration(self.limit)}"
                return {"status": "failed", "result": {"reason": reason}} if self.limit < left else None
            finally:
                if cell_process.poll() is None:
                    os.killpg(cell_process.pid, signal.SIGKILL)
                    cell_process.communicate()
            code = cell_process.returncode
            if code == 0 and to.exists():
                return json.loads(to.read_text())
        lines = said.strip().splitlines() or ["no message"]
        killed = f"killed by signal {-code}" if code < 0 else lines[-1]
        return {"status": "failed", "result": {"reason": killed[:300]}}

    def _keep(self, cell: C, outcome: Mapping[str, Any]) -> None:
        kept = {"cell": asdict(cell), "settings": self._settings(cell), **outcome, "machine": machine()}
        store(f"{self.name}/{cell.id}", kept)

    def _settings(self, cell: C) -> Any:
        """As they are after having been stored."""
        return json.loads(json.dumps(self.settings(cell)))

    def _path(self, cell: C) -> Path:
        return RESULTS / self.name / f"{cell.id}.json"


def _brief(result: Mapping[str, Any]) -> str:
    shown = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in result.items()}
    return ", ".join(f"{key} {value}" for key, value in shown.items() if not isinstance(value, list | dict))
