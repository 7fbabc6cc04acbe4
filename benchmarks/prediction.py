"""What a trained operator costs and reaches: prediction against the reference solver, and Gauss-Newton refinement.

    OPENBLAS_NUM_THREADS=1 python benchmarks/prediction.py burgers heat     # trains their quick recipes
    OPENBLAS_NUM_THREADS=1 python benchmarks/prediction.py burgers --recipe best
    OPENBLAS_NUM_THREADS=1 python benchmarks/prediction.py runs/burgers     # or a trained run
    OPENBLAS_NUM_THREADS=1 python benchmarks/prediction.py                  # all problems of one field

(Cholesky factorisations of this size are slower on several threads than on one.)
Times are medians in one run. The reference solver is timed at its converged resolution, batched over the functions.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from results import machine, store

import seponet
from seponet.evaluation.errors import compare
from seponet.evaluation.testset import load_testset
from seponet.operator.operator import Operator
from seponet.problems import PROBLEMS, name_of
from seponet.runs.folder import RunFolder

FUNCTIONS = {"nonlinear_diffusion": 20}
"""To predict and refine, where a hundred would take long."""
REPEATS = 10
STEPS = (1, 2)


def median_seconds(call: Callable[[], object], repeats: int = REPEATS) -> float:
    call()
    times: list[float] = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def measure(operator: Operator) -> dict[str, Any]:
    """Seconds a function of the network, the solver and a refinement; errors before and after it."""
    problem = operator.problem
    (field,) = problem.fields
    testset = load_testset(problem, "test", FUNCTIONS.get(str(name_of(problem)), 100))
    points, inputs = testset.points, testset.inputs
    exact = {field: testset.solution(field)}
    evaluator = operator.compile(**points)
    predict = median_seconds(lambda: evaluator(inputs).data) / len(testset)
    solve = median_seconds(lambda: problem.reference(inputs, points, problem.reference_resolution), 3) / len(testset)
    one = {name: functions[:1] for name, functions in inputs.items()}
    row: dict[str, Any] = {
        "functions": len(testset),
        "predict_seconds": predict,
        "solver_seconds": solve,
        "times_faster": solve / predict,
        "refine_seconds_one": median_seconds(lambda: operator.refine(one, steps=1).coefficients),
        "error_network": _errors(evaluator(inputs).to_numpy(), exact),
    }
    for steps in STEPS:
        refined = operator.refine(inputs, steps=steps).predict(**points).to_numpy()
        row[f"error_refined_{steps}"] = _errors(refined, exact)
    return row


def _errors(predicted: np.ndarray, exact: dict[str, np.ndarray]) -> dict[str, float]:
    errors = compare(dict.fromkeys(exact, predicted), exact)
    return {**errors.summary(), "relative_l2_median": float(np.median(errors.relative_l2))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    single = [name for name, kind in PROBLEMS.items() if len(kind().fields) == 1]
    parser.add_argument("what", nargs="*", default=single, help="problems, or folders of trained runs")
    parser.add_argument("--recipe", default="quick", help="of what is trained here")
    arguments = parser.parse_args()
    for source in arguments.what:
        trained = Path(source).is_dir()
        recipe = RunFolder(source).read_report()["recipe"] if trained else arguments.recipe
        operator = seponet.load(source) if trained else seponet.train(source, recipe, quiet=True)
        name = name_of(operator.problem)
        row = {"problem": name, "recipe": recipe, **measure(operator)}
        for key, value in row.items():
            print(f"{key}: {value}", flush=True)
        store(f"prediction_{name}_{recipe}", {"machine": machine(), **row})


if __name__ == "__main__":
    main()
