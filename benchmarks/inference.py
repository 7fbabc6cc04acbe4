"""How many functions a second: trained operators on 101 points along each axis, against solvers and peers.

    seponet bench inference
    seponet bench inference --only burgers

100 new input functions at once, from values at sensors to the solution on the whole grid (101^2, 101^3 for nonlinear
diffusion). The time of a network doesn't depend on its weights, so none is trained here. Solvers are ours: the
converged reference, and the coarse scheme like the one behind the paper's errors.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from study import Cell, Finished, Study, stated

PROBLEMS = ("burgers", "diffusion_reaction", "advection", "nonlinear_diffusion")
NETWORKS = ("seponet_quick", "seponet_paper", "deeponet")
PEERS = ("reference", "deepxde")
SOLVERS = ("solver_converged", "solver_coarse")
FUNCTIONS = 100
SOLVED = {"nonlinear_diffusion": 2}
"""Functions to time a solver with, where ten would take long."""


@dataclass(frozen=True)
class Inference(Cell):
    """Who predicts the solutions of which problem."""

    problem: str
    who: str


def cells() -> tuple[Inference, ...]:
    return tuple(Inference(problem, who) for problem in PROBLEMS for who in (*NETWORKS, *PEERS, *SOLVERS))


def measure(cell: Inference) -> Mapping[str, Any]:
    if cell.who in PEERS:
        from environments import drive

        return drive(cell.who, cell.problem, settings(cell.problem))
    return solve(cell.problem, cell.who) if cell.who in SOLVERS else predict(cell.problem, cell.who)


def settings(problem: str) -> dict[str, Any]:
    from seponet.runs.recipes import load_recipe

    model = load_recipe("paper", problem).model
    return {
        "what": "predict",
        "problem": problem,
        "width": model.trunk_width,
        "depth": model.trunk_depth,
        "rank": model.rank,
    }


def grid(problem: Any) -> dict[str, Any]:
    import numpy as np

    return {name: np.linspace(axis.lower, axis.upper, 101) for name, axis in problem.domain.axes}


def predict(name: str, who: str) -> Mapping[str, Any]:
    """Through `Operator.compile`, as a user would: trunks tabulated once, then a branch pass and a contraction."""
    import jax
    from peer import peak_bytes, time_prediction

    from seponet import nn
    from seponet.evaluation.testset import draw_functions
    from seponet.operator.operator import Operator
    from seponet.problems import PROBLEMS as KNOWN
    from seponet.runs.recipes import load_recipe

    problem = KNOWN[name]()
    recipe = load_recipe("quick" if who == "seponet_quick" else "paper", name)
    kind = "deeponet" if who == "deeponet" else "seponet"
    operator = Operator(nn.build(problem, recipe.model, key=jax.random.key(0), kind=kind))
    evaluator = operator.compile(**grid(problem))
    inputs = draw_functions(problem, "test", FUNCTIONS)
    timing = time_prediction(lambda: jax.block_until_ready(evaluator(inputs).data), FUNCTIONS)
    return {**timing, "process_bytes": peak_bytes()}


def solve(name: str, who: str) -> Mapping[str, Any]:
    """A solver, batched over the functions as it comes."""
    from seponet.evaluation.testset import draw_functions
    from seponet.problems import PROBLEMS as KNOWN
    from seponet.problems.published import paper_reference

    problem, count = KNOWN[name](), SOLVED.get(name, 10)
    inputs, points = draw_functions(problem, "test", count), grid(problem)

    def call() -> None:
        if who == "solver_converged":
            problem.reference(inputs, points, problem.reference_resolution)
        else:
            paper_reference(problem, inputs, points)

    call()
    began = time.perf_counter()
    call()
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "functions_per_second": count / seconds, "functions": count}


def prepare(todo: Sequence[Inference]) -> None:
    if any(cell.who in PEERS for cell in todo):
        from environments import prepare as install

        install(PROBLEMS, "predict")


def depends_on(cell: Inference) -> dict[str, Any]:
    return {"model": stated(cell.problem)["model"]} if cell.who == "seponet_quick" else {}


STUDY = Study("inference", cells(), measure, __file__, limit=240.0, settings=depends_on, prepare=prepare)

NAMES = {
    "seponet_quick": "seponet, `quick` recipe",
    "seponet_paper": "seponet, the paper's SepONet",
    "deeponet": "seponet, DeepONet of the paper's size",
    "reference": "separable-operator-networks 0.0.2",
    "deepxde": "DeepXDE 1.15.0, DeepONet",
    "solver_converged": "converged solver",
    "solver_coarse": "coarse solver, like the paper's",
}


def render() -> None:
    import tables

    runs: Finished = STUDY.finished()
    table = {(o.cell["problem"], o.cell["who"]): o for o in runs.values()}
    columns = ["functions a second", *(f"{tables.title(p)}, 101^{3 if p[:3] == 'non' else 2}" for p in PROBLEMS)]
    rows = []
    for who, name in NAMES.items():
        outcomes = [table.get((problem, who)) for problem in PROBLEMS]
        rows.append([name, *(tables.show(o, "functions_per_second", rounded) for o in outcomes)])
    note = (
        f"New input functions a second, 100 at once, from sensors to the whole grid on {tables.cores(runs)}. Networks "
        "are not trained for this: their time does not depend on the weights, and their errors are in other tables. "
        "The grid is known before: DeepONets, ours and DeepXDE's, have evaluated their trunks on it, and separable "
        "trunks take next to no time. The solvers (ours, in float64) solve 10 functions at once, 2 of nonlinear "
        "diffusion. –: not run yet."
    )
    tables.write("inference", ["# Inference", note, tables.markdown(columns, rows)])


def rounded(value: float) -> str:
    """Three digits, without an exponent."""
    from math import floor, log10

    digits = 2 - floor(log10(value))
    return f"{round(value, digits):,.{max(0, digits)}f}"


if __name__ == "__main__":
    sys.exit(STUDY.main(render=render))
