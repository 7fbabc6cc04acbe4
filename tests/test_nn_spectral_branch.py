"""Branches that return fields."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seponet import nn
from seponet.nn.spectral_branch import FieldBranch, SpectralFilter, convolve
from seponet.problems import Burgers, NavierStokes


def branch(grid=(12, 10), out=3):
    samples = {"u": np.random.default_rng(0).normal(2.0, 1.0, (4, 2, *grid)), "w": np.ones((4, *grid))}
    made = FieldBranch(samples, grid, out, width=4, blocks=2, reach=1, waves=2, key=jax.random.key(0))
    # The last layer and the long waves start from zero; here everything takes part.
    leaves, tree = jax.tree.flatten(made)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    leaves = [leaf + 0.3 * jax.random.normal(k, leaf.shape) for leaf, k in zip(leaves, keys, strict=True)]
    return samples, jax.tree.unflatten(tree, leaves)


def test_translated_inputs_give_translated_outputs():
    _, made = branch()
    code = {
        "u": jax.random.normal(jax.random.key(2), (3, 2, 12, 10)),
        "w": jax.random.normal(jax.random.key(3), (3, 12, 10)),
    }
    moved = {name: jnp.roll(values, (5, -3), (-2, -1)) for name, values in code.items()}
    here, there = (eqx.filter_jit(made)(given).reshape(3, 3, 12, 10) for given in (code, moved))
    assert float(jnp.std(here)) > 0.1
    np.testing.assert_allclose(there, jnp.roll(here, (5, -3), (-2, -1)), atol=1e-12)


def test_a_filter_is_a_small_kernel_plus_free_long_waves():
    made = SpectralFilter((9, 8), 1, 1, 2, key=jax.random.key(0))
    delta = jnp.zeros((1, 1, 9, 8)).at[0, 0, 4, 4].set(1.0)
    response = made(delta)[0, 0]
    near = response[3:6, 3:6]
    np.testing.assert_allclose(near, made.kernel[0], atol=1e-12)
    np.testing.assert_allclose(jnp.sum(response**2), jnp.sum(near**2), atol=1e-12)
    # A free multiplier of the wave (-2, 1) turns that wave and no other.
    turned = eqx.tree_at(lambda f: f.low, made, made.low.at[0, 0, 1].set(jnp.asarray([0.0, 1.0])))
    x, y = jnp.meshgrid(2 * jnp.pi * jnp.arange(9) / 9, 2 * jnp.pi * jnp.arange(8) / 8, indexing="ij")
    phase = -2 * x + y
    added = turned(jnp.cos(phase)[None, None]) - made(jnp.cos(phase)[None, None])
    np.testing.assert_allclose(added[0, 0], -jnp.sin(phase), atol=1e-12)
    other = jnp.cos(2 * x + y)[None, None]
    np.testing.assert_allclose(turned(other), made(other), atol=1e-12)


@pytest.mark.parametrize("grid", [(9,), (6, 8), (7, 5), (6, 5)])
def test_the_derivative_of_a_convolution_is_that_of_its_transforms(grid):
    x = jax.random.normal(jax.random.key(0), (3, 2, *grid))
    kernel = jax.random.normal(jax.random.key(1), (3, *grid))
    axes = tuple(range(2, x.ndim))

    def own(x, kernel):
        return jnp.sum(jnp.sin(convolve(x, jnp.fft.rfftn(kernel, axes=range(1, kernel.ndim)))))

    def plain(x, kernel):
        series = jnp.fft.rfftn(x, axes=axes) * jnp.fft.rfftn(kernel[:, None], axes=axes)
        return jnp.sum(jnp.sin(jnp.fft.irfftn(series, grid, axes)))

    for found, expected in zip(jax.grad(own, (0, 1))(x, kernel), jax.grad(plain, (0, 1))(x, kernel), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_inputs_are_scaled_to_size_one_and_checked():
    samples, made = branch()
    fresh = FieldBranch(samples, (12, 10), 3, width=4, blocks=2, reach=1, waves=2, key=jax.random.key(0))
    for name, values in samples.items():
        np.testing.assert_allclose(fresh.scales[name].value, 1 / np.sqrt(np.mean(values**2)), rtol=1e-6)
    with pytest.raises(ValueError, match="built for the inputs u, w; got u"):
        made({"u": jnp.zeros((1, 2, 12, 10))})
    with pytest.raises(ValueError, match=r"expected on the grid \(12, 10\)"):
        made({"u": jnp.zeros((1, 2, 12, 10)), "w": jnp.zeros((1, 10, 12))})


def test_a_field_branch_starts_from_the_lift():
    model = nn.build(
        Burgers(),
        decoder="tucker",
        rank={"t": 3, "x": 9},
        trunk={"t": "legendre", "x": "nodal"},
        exact="all",
        branch="spectral",
        branch_width=4,
        branch_depth=1,
        channels=("u", "u_x"),
        key=jax.random.key(0),
    )
    code = model.encode(Burgers().sample(jax.random.key(1), 2))
    assert {name: values.shape for name, values in code.items()} == {"u": (2, 9), "u_x": (2, 9)}
    coefficients = model.coefficients(code)
    assert coefficients.shape == (2, 1, 3, 9)
    assert not np.any(coefficients)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"trunk": "classical"}, 'trunk = "nodal"'),
        ({"channels": ("x",)}, "channels are given functions of x, y; got 'x'"),
        ({"channels": ("v",)}, "`v` means nothing here"),
        ({"trunk": "nodal"}, "nodal trunk needs a periodic axis; t is an interval"),
        ({"output": "curls"}, "did you mean 'curl'"),
        ({"kind": "deeponet", "rank": 4, "trunk": "mlp"}, "makes the core of a SepONet"),
    ],
)
def test_what_does_not_fit_is_said(changes, sentence):
    fitting = {"trunk": {"t": "legendre", "x": "nodal", "y": "nodal"}, "rank": 4, "decoder": "tucker"}
    with pytest.raises(ValueError, match=sentence):
        nn.build(NavierStokes(), exact="all", branch="spectral", **(fitting | changes), key=jax.random.key(0))


def test_a_curl_needs_two_fields():
    with pytest.raises(ValueError, match="needs two fields along two periodic axes; got the fields s"):
        nn.build(Burgers(), output="curl", key=jax.random.key(0))
