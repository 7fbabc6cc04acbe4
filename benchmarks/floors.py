"""The floor of a recipe's basis: what a perfect branch would reach.

    python benchmarks/floors.py                   # quick and best of all problems
    python benchmarks/floors.py advection quick --functions 20

The residual is minimised over the coefficients of single functions by Gauss-Newton, from the lift, without a network.
Ranks are chosen from it. It is not the projection error: residuals weigh fine structure more than errors do.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from results import machine, store

from seponet import nn
from seponet.calculus.collocation import quadrature_nodes
from seponet.calculus.model import FixedCoefficients
from seponet.evaluation.errors import compare, predict_fields
from seponet.evaluation.testset import grid_of, load_testset
from seponet.operator.refinement import gauss_newton
from seponet.problems import PROBLEMS
from seponet.runs.recipes import load_recipe, recipes_of

MEMORY = 2 << 30
THINNING = {"nonlinear_diffusion": 5}
"""The stride by which the problem's grid is thinned for comparison; 2 for the others."""


def floor(name: str, recipe: str, functions: int, steps: int = 3) -> dict[str, object]:
    """The mean relative error after each Gauss-Newton step, on validation functions."""
    problem = PROBLEMS[name]()
    model = nn.build(problem, load_recipe(recipe, name).model, key=jax.random.key(0))
    points = {axis: values[:: THINNING.get(name, 2)] for axis, values in problem.grid().items()}
    testset = load_testset(problem, "validation", functions, points=points)
    # Quadrature that sees the inputs too: four points for each function of the basis, two where that is too much.
    nodes = quadrature_nodes(model, 4.0 if len(problem.domain) == 2 else 1.5)
    coefficients = jnp.zeros((functions, *model.coefficient_shape()))
    errors = []
    for _ in range(steps):
        refined, *_ = gauss_newton(model, testset.inputs, coefficients, {}, nodes, 1, MEMORY)
        with jax.enable_x64(True):
            coefficients = jnp.asarray(refined)
            fields = predict_fields(FixedCoefficients(model, coefficients), testset.inputs, grid_of(testset))
        predicted = {field: np.asarray(v) for field, v in zip(problem.fields, fields, strict=True)}
        exact = {field: testset.solution(field) for field in problem.fields}
        errors.append(float(np.mean(compare(predicted, exact).relative_l2)))
    return {"problem": name, "recipe": recipe, "nodes": dict(nodes), "functions": functions, "relative_l2_mean": errors}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problem", nargs="?", choices=[*PROBLEMS])
    parser.add_argument("recipe", nargs="?", default="quick")
    parser.add_argument("--functions", type=int)
    arguments = parser.parse_args()
    cases = [(arguments.problem, arguments.recipe)]
    if arguments.problem is None:
        recipes = {name: recipes_of(name) for name in PROBLEMS if name != "navier_stokes"}
        cases = [(name, recipe) for name in recipes for recipe in ("quick", "best") if recipe in recipes[name]]
    for name, recipe in cases:
        default = 2 if len(PROBLEMS[name]().domain) == 3 else 20
        row = floor(name, recipe, arguments.functions or default)
        print(row, flush=True)
        store(f"floor_{name}_{recipe}", {**row, "machine": machine()})


if __name__ == "__main__":
    main()
