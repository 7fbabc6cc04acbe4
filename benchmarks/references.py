"""The references' own errors, by refinement, and what they cost.

python benchmarks/references.py
"""

import argparse
import time

import numpy as np
from results import machine, store

from seponet.evaluation.testset import load_testset
from seponet.problems import PROBLEMS, NavierStokes

TARGETS = {
    "diffusion_reaction": 1e-4,
    "advection": 5e-3,
    "burgers": 1.5e-3,
    "nonlinear_diffusion": 6e-3,
    "heat": 5e-5,
    "navier_stokes": 1e-3,
    "navier_stokes T=1": 1e-2,
}
"""The errors that we aim at; a reference should be ten times as good."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", type=int, default=100, help="how many functions to solve for the timing")
    functions = parser.parse_args().functions
    cases = {name: kind() for name, kind in PROBLEMS.items()}
    cases["navier_stokes T=1"] = NavierStokes(duration=1.0)
    rows = []
    for name, problem in cases.items():
        began = time.perf_counter()
        testset = load_testset(problem, "test", functions, refresh=True)
        seconds = time.perf_counter() - began
        attributes = testset.data.attrs
        row = {
            "problem": name,
            "own_error_mean": attributes["own_error_mean"],
            "own_error_max": attributes["own_error_max"],
            "own_error_functions": int(attributes["own_error_functions"]),
            "allowed": TARGETS[name] / 10,
            "functions": functions,
            "seconds": seconds,
        }
        rows.append({key: float(v) if isinstance(v, np.floating) else v for key, v in row.items()})
        print(rows[-1], flush=True)
    store("references", {"machine": machine(), "rows": rows})


if __name__ == "__main__":
    main()
