"""`seponet reference`."""

from argparse import Namespace

from ..evaluation.cache import cache_folder
from ..evaluation.testset import load_testset
from ..runs.problems import make_problem
from ..training.progress import progress_bar
from .output import write_line
from .values import constants_of


def reference_command(arguments: Namespace) -> int:
    problem = make_problem(arguments.problem, constants_of(arguments.set, "a reference"))
    with progress_bar("solving") as progress:
        testset = load_testset(
            problem,
            arguments.split,
            arguments.functions,
            kind=arguments.reference,
            refresh=arguments.refresh,
            progress=progress,
        )
    grid = " x ".join(f"{name} {len(points)}" for name, points in testset.points.items())
    write_line(f"{len(testset)} {arguments.split} functions of {problem!r} on the grid {grid}, in {cache_folder()}")
    if testset.kind == "own":
        write_line("the reference is the library's own discretisation")
    if testset.own_error is not None:
        worst = testset.data.attrs["own_error_max"]
        write_line(f"own relative error of the reference: {testset.own_error:.2g} on average, {worst:.2g} at worst")
    elif arguments.reference == "paper":
        write_line("a coarse solver like the paper's; compare it with the converged one to learn its error")
    return 0
