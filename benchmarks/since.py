"""This tree against an earlier commit of it: steps, set-up, predictions and the first one, in one run.

    seponet bench since            # against the commit that issues of speed were written for
    seponet bench since COMMIT     # against another one, which is checked out beside
    seponet bench since --render   # the table from what is stored

Both trees do the same: steps with the earlier one's recipe `quick`, so at equal learning curves; whose turn it is
alternates, so that whatever else the machine does meets both.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from results import RESULTS, machine, store

HERE = Path(__file__).parent
TABLE = HERE / "tables" / "since.md"
BASE = "454fcd7"
PROBLEMS = ("burgers", "diffusion_reaction", "nonlinear_diffusion", "advection", "heat")
WHO = ("before", "now")


class Tree:
    """A checkout, and processes that measure it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def drive(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(HERE / "_drive_since.py"), *arguments]
        # Nothing that one of them has compiled earlier shall count.
        places = {"PYTHONPATH": str(self.folder), "JAX_ENABLE_COMPILATION_CACHE": "false"}
        return subprocess.Popen(
            command,
            env={**os.environ, **places},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=tempfile.gettempdir(),
        )

    def once(self, *arguments: str) -> dict[str, Any]:
        said, _ = self.drive(*arguments).communicate()
        lines = said.splitlines()
        return json.loads(lines[-1]) if lines else {}


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """A work tree of a commit, for a while."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(HERE.parent), "worktree"]
        subprocess.run([*git, "add", "--detach", str(tree), commit], check=True, capture_output=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True, capture_output=True)


@contextmanager
def driven(trees: dict[str, Tree], *arguments: tuple[str, ...]) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """A process of each tree, which are set up one after the other, with arguments of its own."""
    with ExitStack() as stack:
        processes: dict[str, subprocess.Popen[str]] = {}
        for (who, tree), own in zip(trees.items(), arguments, strict=True):
            processes[who] = stack.enter_context(tree.drive(*own))
            _read(processes[who])
        yield processes  # to each of which the stack closes its input, which ends it


def by_turns(processes: dict[str, subprocess.Popen[str]], repeats: int) -> dict[str, float]:
    """The median of what each answers."""
    values: dict[str, list[float]] = {who: [] for who in processes}
    for _ in range(repeats):
        for who, process in processes.items():
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
            values[who].append(_read(process)["value"])
    return {who: statistics.median(of) for who, of in values.items()}


def _read(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"{' '.join(map(str, process.args[1:]))} has failed")  # pyright: ignore
    return json.loads(line)


def compare(commit: str, problems: list[str], repeats: int) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []

    def row(what: str, values: dict[str, float]) -> None:
        rows.append({"what": what, **values, "ratio": values["now"] / values["before"]})
        told = f"{values['before']:.4g} before, {values['now']:.4g} now, ratio {rows[-1]['ratio']:.2f}"
        print(f"{what}: {told}", flush=True)

    with checked_out(commit) as folder, tempfile.TemporaryDirectory() as runs:
        trees = {"before": Tree(folder), "now": Tree(HERE.parent)}
        for name in problems:
            # In processes of their own, so that set-ups do not overlap.
            setups: dict[str, list[float]] = {who: [] for who in WHO}
            recipe = str(folder / "seponet" / "recipes" / name / "quick.toml")
            for _ in range(3):
                for who, tree in trees.items():
                    setups[who].append(tree.once("steps", recipe, name)["setup"])
            row(f"{name}: set-up and first step, s", {who: min(of) for who, of in setups.items()})
            with driven(trees, *[("steps", recipe, name)] * 2) as processes:
                row(f"{name}: step, ms", by_turns(processes, repeats))
        for who, tree in trees.items():
            tree.once("train", f"{runs}/{who}")
        firsts: dict[str, list[float]] = {who: [] for who in WHO}
        for _ in range(5):
            for who, tree in trees.items():
                firsts[who].append(tree.once("first", f"{runs}/{who}")["seconds"])
        row("import, load, first prediction, s", {who: min(of) for who, of in firsts.items()})
        with driven(trees, *[("predictions", f"{runs}/{who}") for who in WHO]) as processes:
            row("predictions of Burgers a second", by_turns(processes, repeats))
    return {"commit": commit, "rows": rows, "machine": machine()}


def table(content: dict[str, Any]) -> str:
    cores = "one core" if content["machine"]["cores"] == 1 else f"{content['machine']['cores']} cores"
    lines = [
        f"# Against commit {content['commit']}",
        "",
        f"Commit {content['machine']['commit'][:7]}, {cores}, by turns in one run; medians "
        "of steps and predictions, the least of what is done once in a process. Steps are those of the earlier recipe.",
        "",
        "| what | before | now | ratio |",
        "|---|---|---|---|",
        *(f"| {r['what']} | {r['before']:.3g} | {r['now']:.3g} | {r['ratio']:.2f} |" for r in content["rows"]),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", default=BASE)
    parser.add_argument(
        "--only", nargs="+", choices=PROBLEMS, default=list(PROBLEMS), help="problems; nothing is stored"
    )
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--render", action="store_true", help="only write the table from what is stored")
    arguments = parser.parse_args()
    if not arguments.render:
        found = compare(arguments.commit, arguments.only, arguments.repeats)
        if set(arguments.only) == set(PROBLEMS):
            store("since", found)
    TABLE.write_text(table(json.loads((RESULTS / "since.json").read_text())))


if __name__ == "__main__":
    main()
