"""What a trained operator costs and reaches: prediction against the reference solver, and Gauss-Newton refinement.

    seponet train burgers --recipe quick --out runs/burgers
    OPENBLAS_NUM_THREADS=1 python benchmarks/prediction.py runs/burgers

(Cholesky factorisations of this size are slower on several threads than on one.)
Times are medians in one run. The reference solver is timed at its converged resolution, batched over the functions.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import jax
import numpy as np
from results import machine, store

import seponet
from seponet.metrics import compare
from seponet.problems import name_of
from seponet.testset import load_testset


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    call()
    times: list[float] = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--functions", type=int, default=100)
    arguments = parser.parse_args()
    operator = seponet.load(arguments.run)
    problem = operator.problem
    testset = load_testset(problem, "test", arguments.functions)
    points, inputs = testset.points, testset.inputs
    view = operator.on(**points)
    predict = median_seconds(lambda: view(inputs).data, 10) / len(testset)
    began = time.perf_counter()
    problem.reference(inputs, points, problem.reference_resolution)
    solve = (time.perf_counter() - began) / len(testset)
    exact = {field: testset.solution(field) for field in problem.fields}
    rows: dict[str, object] = {"problem": name_of(problem), "predict_seconds": predict, "solver_seconds": solve}
    rows["times_faster"] = solve / predict
    (field,) = problem.fields
    rows["error_network"] = compare({field: view(inputs).to_numpy()}, exact).summary()
    one = {name: functions[:1] for name, functions in inputs.items()}
    rows["refine_seconds_one"] = median_seconds(lambda: operator.refine(one, steps=1).coefficients, 10)
    for steps in (1, 2, 3):
        errors = compare({field: operator.refine(inputs, steps=steps).predict(**points).to_numpy()}, exact)
        rows[f"error_refined_{steps}"] = {
            **errors.summary(),
            "relative_l2_median": float(np.median(errors.relative_l2)),
        }
    for key, value in rows.items():
        print(f"{key}: {value}")
    store("prediction", {"machine": machine(), **rows})


if __name__ == "__main__":
    main()
