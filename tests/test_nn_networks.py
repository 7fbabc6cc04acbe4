"""Networks: Taylor passes, parity with Equinox, formulas."""

from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seponet.calculus import taylor
from seponet.nn.activations import ACTIVATIONS, activation
from seponet.nn.coordinate_maps import Affine, Chain, Coordinatewise, PeriodicFeatures
from seponet.nn.linear import Linear
from seponet.nn.mlp import MLP
from seponet.nn.modified_mlp import ModifiedMLP

KEY = jax.random.key(0)
ORDER = 4


def numbers(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(0).normal(size=shape))


def _mlp(name: str, key: jax.Array, in_size: int = 2) -> MLP:
    return MLP(in_size, 3, 4, 2, name, "sine", key=key)


def _modified(name: str, key: jax.Array, in_size: int = 2) -> ModifiedMLP:
    return ModifiedMLP(in_size, 3, 4, 2, name, key=key)


FEATURES = PeriodicFeatures(0.5, 2.0, 5)

# Input size and network, for every network and activation; made on demand, as collection should cost nothing.
networks: dict[str, tuple[int, Callable[[jax.Array], eqx.Module]]] = {
    "linear": (2, lambda key: Linear(2, 3, key=key)),
    **{f"mlp {name}": (2, partial(_mlp, name)) for name in ACTIVATIONS},
    **{f"modified mlp {name}": (2, partial(_modified, name)) for name in ACTIVATIONS},
    "mlp skip": (2, lambda key: MLP(2, 3, 4, 1, "tanh", skip=True, key=key)),
    "universal trunk": (1, lambda key: MLP(1, 3, 4, 0, final_activation="sine", key=key)),
    "affine": (2, lambda key: Affine(-3.0, 1.0)),
    "periodic": (1, lambda key: FEATURES),
    "chain": (1, lambda key: Chain((FEATURES, MLP(11, 3, 4, 1, "sine", key=key)))),
    "coordinatewise": (2, lambda key: Chain((Coordinatewise((Affine(0.0, 2.0), FEATURES)), Linear(12, 3, key=key)))),
    "chain with an unknown callable": (2, lambda key: Chain((Linear(2, 3, key=key), jnp.arctan))),
}


@pytest.mark.parametrize("name", networks)
def test_taylor_pass_equals_nested_jvp(name):
    size, make = networks[name]

    @eqx.filter_jit
    def both(network, series):
        return taylor.push(network, series), taylor.push(lambda x: network(x), series)

    ours, nested = both(make(KEY), numbers(ORDER + 1, 4, size))
    assert nested.shape[0] == ORDER + 1
    np.testing.assert_allclose(ours, nested, rtol=0, atol=1e-10)


@eqx.filter_jit
def _along_and_hessian(network, points):
    along = [taylor.unnormalise(network.taylor(taylor.line(points, axis, 2))) for axis in range(2)]
    return network(points), jax.vmap(jax.hessian(lambda p: network(p)))(points), along


def test_one_pass_along_each_coordinate_of_a_trunk():
    values, hessian, along = _along_and_hessian(_mlp("sine", KEY), numbers(5, 2))
    for axis in range(2):
        np.testing.assert_allclose(along[axis][0], values, atol=1e-13)
        np.testing.assert_allclose(along[axis][2], hessian[..., axis, axis], atol=1e-12)


@pytest.mark.parametrize("make", [_mlp, _modified])
def test_gradients_flow_through_a_taylor_pass(make):
    points = jnp.linspace(0, 1, 4)
    network = make("tanh", KEY, in_size=1)
    direction = jax.tree.map(lambda w: np.cos(np.arange(w.size)).reshape(w.shape), network)

    def loss(size):
        moved = jax.tree.map(lambda w, d: w + size * d, network, direction)
        return jnp.sum(taylor.derivatives(moved, points, 3)[3] ** 2)

    value_and_slope = jax.jit(jax.value_and_grad(loss))
    h = 1e-5
    slope = value_and_slope(0.0)[1]
    finite = (value_and_slope(h)[0] - value_and_slope(-h)[0]) / (2 * h)
    assert abs(slope) > 1e-6
    np.testing.assert_allclose(slope, finite, rtol=1e-6)


@pytest.mark.parametrize("depth", [0, 2])
def test_the_same_key_gives_the_network_of_equinox(depth):
    ours = MLP(2, 3, 4, depth, "tanh", key=KEY)
    theirs = eqx.nn.MLP(2, 3, 4, depth, jnp.tanh, key=KEY)
    assert len(ours.layers) == len(theirs.layers) == depth + 1
    for mine, other in zip(ours.layers, theirs.layers, strict=True):
        np.testing.assert_array_equal(mine.weight.T, other.weight)
        np.testing.assert_array_equal(mine.bias, other.bias)
    x = numbers(3, 4, 2)
    np.testing.assert_allclose(ours(x), jax.vmap(jax.vmap(theirs))(x), atol=1e-14)


def test_skip_adds_a_linear_map_of_the_input():
    network = MLP(3, 2, 5, 2, "gelu", skip=True, key=KEY)
    x = numbers(4, 3)
    last = network.layers[-1]
    assert last.weight.shape == (5 + 3, 2)
    plain = eqx.tree_at(lambda n: n.layers[-1].weight, network, last.weight.at[5:].set(0.0))
    np.testing.assert_allclose(network(x) - plain(x), x @ last.weight[5:], atol=1e-14)


@pytest.mark.parametrize("make", [MLP, ModifiedMLP])
def test_zero_last_layer(make):
    x = numbers(4, 3)
    np.testing.assert_array_equal(make(3, 2, 5, 2, zero_last=True, key=KEY)(x), 0.0)
    assert jnp.all(make(3, 2, 5, 2, key=KEY)(x) != 0)


def test_modified_mlp_is_the_formula_of_wang_et_al():
    width, net = 5, ModifiedMLP(2, 3, 5, 3, "tanh", key=KEY)
    x = numbers(4, 2)
    w, b = net.encoder.weight, net.encoder.bias
    u, v, h = (jnp.tanh(x @ w[:, i : i + width] + b[None, i : i + width]) for i in (0, width, 2 * width))
    assert len(net.gates) == 2
    for gate in net.gates:
        z = jnp.tanh(h @ gate.weight + gate.bias[None])
        h = (1 - z) * u + z * v
    np.testing.assert_allclose(net(x), h @ net.last.weight + net.last.bias[None], atol=1e-14)


def test_periodic_features():
    features = PeriodicFeatures(0.5, 2.0, 5)
    x = jnp.linspace(0.5, 2.5, 7)[:, None]
    values = features(x)
    assert values.shape == (7, 11)
    np.testing.assert_allclose(values, features(x + 2.0), atol=1e-12)
    np.testing.assert_allclose(values[:, 2], jnp.cos(2 * np.pi * (x[:, 0] - 0.5)), atol=1e-12)
    np.testing.assert_allclose(values[:, 7], jnp.sin(2 * np.pi * (x[:, 0] - 0.5)), atol=1e-12)


def test_affine_maps_the_ends_to_plus_minus_one():
    np.testing.assert_allclose(Affine(2.0, 6.0)(jnp.array([[2.0, 4.0, 6.0]])), [[-1.0, 0.0, 1.0]])


def test_mistakes_are_named():
    with pytest.raises(ValueError, match=r"no activation 'sin' \(did you mean 'sine'\?\); choose one of sine, "):
        activation("sin")
    with pytest.raises(ValueError, match="no activation 'relu'"):
        MLP(1, 1, 4, 1, "relu", key=KEY)
    with pytest.raises(ValueError, match="skip=True"):
        MLP(1, 1, 4, 0, skip=True, key=KEY)
    with pytest.raises(ValueError, match="returns 11 features and MLP expects 10"):
        Chain((PeriodicFeatures(0.0, 1.0, 5), MLP(10, 1, 4, 1, key=KEY)))
    with pytest.raises(ValueError, match="each of 2 coordinates; got points with 3"):
        Coordinatewise((Affine(0.0, 1.0), Affine(0.0, 1.0)))(jnp.zeros((2, 3)))
