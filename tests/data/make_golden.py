"""Golden operators: small ones of each kind, saved in today's format, with what they predict.

    python tests/data/make_golden.py [FOLDER]

Run once for a format (and for each kind of model that comes to it), and never again for operators that are there: they
stand for those that users have. `tests/test_golden.py` reads them all.
"""

import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import seponet
from seponet import nn
from seponet.nn.cnn import CNN
from seponet.nn.coefficient_maps import ModalScaling, Whitening
from seponet.operator.saving import FORMAT
from seponet.problems import PROBLEMS

POINTS = 5
"""Along each axis, where predictions are stored."""

SMALL = {"rank": 3, "trunk_width": 4, "trunk_depth": 1, "branch_width": 4, "branch_depth": 1, "sensors": 8}
BASES: dict[str, Any] = {"decoder": "tucker", "rank": 3, "exact": "all", "trunk": "classical"}
CASES: dict[str, tuple[str, dict[str, float], dict[str, Any], str]] = {
    "cp_exact_modified": (
        "heat",
        {},
        {
            **SMALL,
            "decoder": "cp",
            "exact": "all",
            "trunk": {"t": "modified_mlp", "x": "mlp"},
            "encoder": "standardise",
        },
        "none",
    ),
    "cp_soft": ("diffusion_reaction", {}, {**SMALL, "wavenumbers": 2, "decoder": "cp", "trunk": "mlp"}, "none"),
    "cnn": ("heat", {}, {**SMALL, "branch": "cnn", "sensors": 16, "exact": "all"}, "none"),
    "deeponet": ("burgers", {}, {**SMALL, "wavenumbers": 2, "kind": "deeponet", "exact": "all"}, "none"),
    "deeponet_repeated": (
        "advection",
        {},
        {**SMALL, "kind": "deeponet_repeated", "transform": {"u": "reciprocal"}},
        "none",
    ),
    "fields": (
        "navier_stokes",
        {"duration": 0.2},
        {
            **BASES,
            "rank": {"t": 2, "x": 6, "y": 6},
            "trunk": {"t": "legendre", "x": "nodal", "y": "nodal"},
            "output": "curl",
            "branch": "spectral",
            "branch_width": 2,
            "branch_depth": 1,
            "channels": ("u", "w_x", "f"),
            "reach": 1,
            "waves": 2,
        },
        "modal",
    ),
    "informed": (
        "advection_informed",
        {},
        {**SMALL, **BASES, "encoder": "pca", "components": 3, "ridge": 0.1, "transform": {"u": "log"}},
        "full",
    ),
    "mixed_trunks": (
        "burgers",
        {"nu": 0.02},
        {**SMALL, **BASES, "wavenumbers": 2, "trunk": {"t": "chebyshev", "x": "mlp"}},
        "none",
    ),
    "plane": (
        "nonlinear_diffusion",
        {},
        {
            **SMALL,
            **BASES,
            "rank": {"t": 2, "x": 3, "y": 3},
            "trunk": {"t": "legendre", "x": "sine", "y": "legendre"},
        },
        "none",
    ),
    "tucker_translation": (
        "burgers",
        {},
        {
            **SMALL,
            **BASES,
            "rank": {"t": 3, "x": 5},
            "encoder": "pca",
            "components": 3,
            "skip": True,
            "invariant": "x",
        },
        "diagonal",
    ),
}
"""For each case: the problem, its constants, the model, and how its coefficients are scaled."""


def make_operator(case: str) -> seponet.Operator:
    """The operator of a case; its weights are random, and so are the scales of its coefficients."""
    name, constants, config, scaling = CASES[case]
    problem: seponet.Problem = PROBLEMS[name](**constants)
    model = nn.build(problem, key=jax.random.key(3), **config)
    if config.get("branch") == "cnn":
        # As large as it is built it would take megabytes.
        cnn = CNN(None, (16,), model.size, width=2, blocks=1, key=jax.random.key(4))
        model = eqx.tree_at(lambda m: m.branch.encoders["u"], model, cnn)
    if scaling != "none":
        model = eqx.tree_at(
            lambda m: m.whitening, model, _coefficient_map(model, scaling), is_leaf=lambda leaf: leaf is None
        )
    return seponet.Operator(model)


def _coefficient_map(model: Any, kind: str) -> eqx.Module:
    numbers = np.random.default_rng(1)
    if kind == "modal":
        _, *grid = model.decoder.sizes
        components = model.size // int(np.prod(grid))
        weight = numbers.uniform(0.1, 0.5, (components, *grid[:-1], grid[-1] // 2 + 1))
        return ModalScaling(nn.Fixed(jnp.asarray(weight)), tuple(grid))
    diagonal = numbers.uniform(0.5, 1.5, model.size)
    weight = diagonal if kind == "diagonal" else np.diag(diagonal) + numbers.uniform(-0.1, 0.1, (model.size,) * 2)
    return Whitening(nn.Fixed(jnp.asarray(weight)), 0.3)


def make_inputs(problem: seponet.Problem) -> dict[str, np.ndarray]:
    """Two functions of each input, `[2, (components,) *grid]`."""
    numbers = np.random.default_rng(0)
    shapes = {
        name: (() if space.components is None else (space.components,)) + (16,) * len(space.domain)
        for name, space in sorted(problem.inputs.items())
    }
    return {name: 1.5 + numbers.uniform(-0.2, 0.2, (2, *shape)) for name, shape in shapes.items()}


def predict(operator: seponet.Operator, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """What is stored: `[functions, *grid]`, or `[fields, functions, *grid]` if there are several."""
    problem = operator.problem
    points: dict[str, Any] = {name: np.linspace(axis.lower, axis.upper, POINTS) for name, axis in problem.domain.axes}
    predicted = operator.predict(inputs, **points)
    if len(problem.fields) == 1:
        return predicted.to_numpy()
    return np.stack([predicted[field].to_numpy() for field in problem.fields])


def write_golden(folder: Path) -> None:
    """Write the cases that are not there yet."""
    for case in CASES:
        if (folder / case).exists():
            continue
        operator = make_operator(case)
        operator.save(folder / case / "operator")
        inputs = make_inputs(operator.problem)
        stored: dict[str, Any] = {f"input_{name}": values for name, values in inputs.items()}
        np.savez_compressed(folder / case / "expected.npz", values=predict(operator, inputs), **stored)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    write_golden(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / f"format{FORMAT}")
