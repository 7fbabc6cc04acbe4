"""The code of a page, run from top to bottom in one namespace and one folder, as a reader would.

Commands (`sh` blocks) run in this process, through the function that the command line calls. At small size every
training takes a few steps of a few functions in a small basis: that the code runs is seen, and no number is. Solutions
are solved to a rough tolerance."""

import ast
import contextlib
import io
import itertools
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

from blocks import Block

FEW: Mapping[str, Any] = {
    "train.steps": 2,
    "train.functions": 4,
    "model.branch_width": 8,
    "model.branch_depth": 1,
    "model.rank": 5,
}
"""Settings of a training at small size, before those of the page."""
FEW_TARGETS: Mapping[str, Any] = {
    "train.targets.first": 12,
    "train.targets.pool": 12,
    "train.targets.renew": 10,
    "train.targets.newton": 3,
    "train.targets.iterations": 5,
}
"""The same for trainings on solved functions."""
ROUGH = 0.3
"""The tolerance to which is solved at small size, unless a page asks for less."""
FLAGS: Mapping[str, tuple[str, ...]] = {
    "train": ("--functions=2", "--calibration=0", "--no-figures", "--quiet"),
    "evaluate": ("--functions=2",),
    "reference": ("--functions=2",),
    "explore": ("--no-open",),
    "export": ("--overwrite",),
    "solve": ("--overwrite",),
}
"""Flags that commands get at small size, unless the page gives them."""


@dataclass
class Output:
    """What a block wrote, and the pictures that it drew, as PNG."""

    text: str = ""
    figures: list[bytes] = field(default_factory=list)


class Session:
    """One reader of one page.

    **Arguments:**

    - `folder`: where commands run and files are written.
    - `small`: the settings of the page at small size; None runs it at full size.
    - `names`: what the code may use without having defined it.
    """

    def __init__(self, folder: Path, small: Mapping[str, Any] | None = None, names: Mapping[str, Any] | None = None):
        self.folder, self.small = folder, small
        self.namespace: dict[str, Any] = {"__name__": "page", **(names or {})}

    def run(self, block: Block, source: str = "page") -> Output:
        """Run a block of Python or of commands; blocks in other languages give nothing."""
        output = Output()
        with contextlib.chdir(self.folder), _smaller(self.small):
            if block.language == "python":
                written = io.StringIO()
                with contextlib.redirect_stdout(written):
                    value = self._execute(block, source)
                output.text, output.figures = written.getvalue(), _figures(value)
            elif block.language == "sh":
                for command in commands_of(block.code):
                    self._command(command)
        return output

    def _execute(self, block: Block, source: str) -> Any:
        """Run a block as a notebook does: the value of a last expression is returned, and shown if it is no figure."""
        tree = ast.parse("\n" * (block.line - 1) + block.code, source)
        if self.small:
            tree = _Assigned(self.small).visit(tree)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, source, "exec", dont_inherit=True), self.namespace)
        if not isinstance(last, ast.Expr):
            return None
        value = eval(compile(ast.Expression(last.value), source, "eval", dont_inherit=True), self.namespace)
        if value is not None and not hasattr(value, "savefig"):
            print(value)
        return value

    def _command(self, words: list[str]) -> None:
        if words[0] != "seponet":
            return
        from seponet.cli import main

        _, command, *rest = words
        if self.small is not None:
            given = {word.split("=")[0] for word in rest}
            rest += [flag for flag in FLAGS.get(command, ()) if flag.split("=")[0] not in given]
            if command == "train":
                _make_room(self.folder, rest)
            else:
                _provide_runs(self.folder, rest)
        code = main([command, *rest])
        # At small size no accuracy is asked for: 3 is an answer that is less accurate than it should be.
        if code not in ((0, 3) if self.small is not None else (0,)):
            raise RuntimeError(f"{shlex.join(words)} ended with code {code}")


def commands_of(code: str) -> Iterator[list[str]]:
    """The commands of a shell block as words: without comments, lines that end in a backslash joined."""
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words:
            yield words


def _make_room(folder: Path, words: list[str]) -> None:
    """Remove the run that a training would not overwrite: a page begins where there is none."""
    given = dict(itertools.pairwise(words))
    out = given.get("--out", f"runs/{words[0]}-{given.get('--recipe', 'quick')}")
    if "--resume" not in words and (folder / out).exists():
        shutil.rmtree(folder / out)


def _provide_runs(folder: Path, words: list[str]) -> None:
    """Folders that a page only names (`runs/mine`) hold the run that the folder has."""
    run = folder / "runs" / "burgers-quick"
    for word in words:
        if word.startswith("runs/") and run.exists():
            named = folder / "runs" / Path(word).parts[1]
            if not named.exists():
                shutil.copytree(run, named)


class _Assigned(ast.NodeTransformer):
    """Other values for variables that a page assigns at its top level."""

    def __init__(self, values: Mapping[str, Any]):
        self.values = values

    def visit_Module(self, node: ast.Module) -> ast.Module:
        for statement in node.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                name = statement.targets[0].id
                if name in self.values:
                    statement.value = ast.copy_location(ast.Constant(self.values[name]), statement.value)
        return node


@contextlib.contextmanager
def _smaller(small: Mapping[str, Any] | None) -> Iterator[None]:
    """Trainings take the few steps of `FEW` instead of their recipes', and are neither validated nor calibrated;
    solutions are rough."""
    if small is None:
        yield
        return
    from seponet.operator import operator
    from seponet.runs import solve, start, train
    from seponet.runs.config import RunConfig

    settings = {key: value for key, value in small.items() if "." in key}
    make = RunConfig.make.__func__  # pyright: ignore[reportFunctionMemberAccess]

    def quickly(
        cls: Any, problem: Any, recipe: Any = "quick", seed: int = 0, changes: Any = None, **others: Any
    ) -> Any:
        config = make(cls, problem, recipe, seed, changes, **others)
        few = {**FEW, **(FEW_TARGETS if config.recipe.train.targets.pool else {}), **settings}
        if config.recipe.model.kind != "seponet" or config.recipe.model.branch == "spectral":
            few = {key: value for key, value in few.items() if key != "model.rank"}
        return replace(config, recipe=config.recipe.changed(few))

    solve_and_tell, solve_to = solve.solve_and_tell, operator.solve_to

    def roughly(problem: Any, inputs: Any, tolerance: float, exact: Any) -> Any:
        return solve_and_tell(problem, inputs, max(tolerance, ROUGH), exact)

    def correct_roughly(estimator: Any, inputs: Any, count: int, rtol: float, memory: int) -> Any:
        return solve_to(estimator, inputs, count, max(rtol, ROUGH), memory)

    with (
        mock.patch.object(solve, "solve_and_tell", roughly),
        mock.patch.object(operator, "solve_to", correct_roughly),
        mock.patch.object(RunConfig, "make", classmethod(quickly)),
        mock.patch.object(start, "find_validation", return_value=None),
        mock.patch.object(train, "calibrated", lambda operator, _: (operator, {})),
    ):
        yield


def _figures(shown: Any) -> list[bytes]:
    """The figures that pyplot has open, which are closed, and the one that a block has shown."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    figures = [pyplot.figure(number) for number in pyplot.get_fignums()] if pyplot else []
    if hasattr(shown, "savefig") and shown not in figures:
        figures.append(shown)
    written = [io.BytesIO() for _ in figures]
    for figure, file in zip(figures, written, strict=True):
        figure.savefig(file, format="png", dpi=110, bbox_inches="tight")
    if pyplot:
        pyplot.close("all")
    return [file.getvalue() for file in written]
