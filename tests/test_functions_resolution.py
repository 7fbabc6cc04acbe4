"""Sensors that resolve the functions of a space."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from zoo import LINE, TORUS

from seponet.domain import Domain, Periodic
from seponet.functions import (
    Bumps,
    GaussianField,
    Positive,
    Sampled,
    Scalar,
    SolenoidalField,
    Space,
    SpectralField,
    interpolate,
    resolve,
)

CUBE = Domain(x=(0.0, 1.0), y=(0.0, 1.0), z=(0.0, 1.0))


def interpolation_error(space: Space, counts: dict[str, int]) -> float:
    """Of functions that `resolve` has not seen, between the sensors along all axes at once."""
    functions = space.sample(jax.random.key(7), 20)
    values = functions(space.sensors(counts))
    between = interpolate(space, values if space.components is None else jnp.moveaxis(values, 0, 1))
    where = space.sensors({name: {1: 501, 2: 47, 3: 23}[len(counts)] for name in counts})
    exact, approximate = (np.asarray(f(where)) for f in (functions, between))
    spread = exact - exact.mean(axis=0 if space.components is None else 1, keepdims=True)
    return float(np.sqrt(np.mean((exact - approximate) ** 2) / np.mean(spread**2)))


@pytest.mark.parametrize(
    "space",
    [
        GaussianField(LINE, 0.02),
        GaussianField(CUBE["x", "y"], (0.1, 0.2)),
        GaussianField(CUBE, 0.2),
        Positive(SpectralField(Domain(x=Periodic(0.0, 1.0), y=(0.0, 2.0)), 1.0, 5.0, 4.0)),
        Bumps(Domain(x=(-1.0, 1.0), y=(-1.0, 1.0))),
        SolenoidalField(TORUS, modes=12, resolution=32),
    ],
    ids=["line", "square", "cube", "positive channel", "bumps", "solenoidal"],
)
def test_functions_are_interpolated_between_the_sensors_and_not_between_fewer(space: Space) -> None:
    resolution = resolve(space, 1e-3)
    counts = dict(resolution.counts)
    assert not resolution.limited
    assert max(resolution.errors.values()) <= 1e-3
    # The errors of the axes add up.
    assert interpolation_error(space, counts) <= 1e-3 * len(counts)
    assert interpolation_error(space, {name: 2 * n // 3 for name, n in counts.items()}) > 1e-3


def test_each_axis_gets_what_its_functions_need() -> None:
    counts = resolve(GaussianField(CUBE, (0.1, 0.3, 1.0))).counts
    assert counts["x"] > counts["y"] > counts["z"] >= 8
    # Twice the axis at twice the length scale is the same.
    longer = resolve(GaussianField(Domain(x=(0.0, 4.0), y=(0.0, 4.0)), 0.4)).counts
    assert longer == resolve(GaussianField(CUBE["x", "y"], 0.1)).counts
    assert resolve(Scalar(0.0, 1.0)).counts == {}


def test_a_rough_input_gets_no_more_than_is_affordable_and_this_is_told() -> None:
    rough = GaussianField(CUBE, 0.05)
    resolution = resolve(rough)
    assert resolution.limited
    assert 0.5 * 4096 < math.prod(resolution.counts.values()) <= 4096
    assert max(resolution.errors.values()) > 0.1
    # An axis that is resolved anyhow gives way before one that is not.
    resolution = resolve(GaussianField(CUBE, (0.03, 1.0, 1.0)), most=600)
    assert resolution.limited
    assert resolution.counts["x"] > 2 * resolution.counts["y"]


def test_data_take_no_more_sensors_than_they_have_points() -> None:
    noise = np.random.default_rng(0).normal(size=(6, 2, 50, 34))
    space = Sampled(Domain(x=(0.0, 1.0), y=Periodic(0.0, 1.0)), noise)
    resolution = resolve(space)
    assert resolution.counts == {"x": 50, "y": 34}
    assert max(resolution.errors.values()) < 1e-10
    smooth = np.sin(np.linspace(0, 3, 400)) * np.array([[1.0], [2.0]])
    assert resolve(Sampled(LINE, smooth)).counts == {"x": 65}


def test_functions_that_do_not_vary_are_resolved_too() -> None:
    space = Sampled(LINE, np.ones((1, 30)))
    assert resolve(space).counts == {"x": 30}
