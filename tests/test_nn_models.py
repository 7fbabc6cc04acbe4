"""Models from configurations: decoders, the form of the paper's theorem, and mistakes in a configuration."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from zoo import AnisotropicHeat, Brusselator, KdV, Plate, Poisson, Reactor, Wave, quick_jit, random_grid, small

from seponet import nn
from seponet.calculus.evaluate import evaluate
from seponet.equations.symbols import Symbol
from seponet.nn import CP, MLP, BasisTrunk, Branch, Constant, DeepONet, NetworkTrunk, RepeatedDeepONet, SepONet, Tucker

S = Symbol("field", "s")


def test_the_form_of_the_universal_approximation_theorem():
    r"""Theorem 1, with $\sigma = \tanh$ and $g = \sin$, a branch of two layers and trunks of one:

    $$\sum_k \sum_i c_i^k \sigma(\sum_j \xi_{ij} u(x_j) + \theta_i)\; g(w_k y_1 + \zeta_k)\; g(w'_k y_2 + \zeta'_k),$$

    the inner layer of the branch being shared by all k, and its outer layer having a bias.
    """
    problem = KdV()
    model = small(problem, rank=4, branch_width=5, branch_depth=1, trunk_depth=0, trunk_final="sine", sensors=6)
    inputs, grid = problem.sample(jax.random.key(0), 2), random_grid(problem)
    assert isinstance(model, SepONet)
    assert isinstance(model.branch, Branch)
    assert isinstance(model.branch.body, MLP)
    inner, outer = model.branch.body.layers
    networks = [trunk.network for trunk in model.trunks if isinstance(trunk, NetworkTrunk)]
    trunks = [network.layers for network in networks if isinstance(network, MLP)]
    assert [len(layers) for layers in trunks] == [1, 1]
    found = quick_jit(lambda m: evaluate(m, inputs, grid, [S])[S])(model)

    axis = problem.domain.axis("x")
    sensors = axis.lower + axis.length * np.arange(6) / 6
    at_sensors = inputs["u"](type(grid).of(problem.domain["x"], {"x": jnp.asarray(sensors)}))
    u = np.asarray(at_sensors)
    branch = np.tanh(u @ inner.weight + inner.bias[None]) @ outer.weight + outer.bias[None]
    t, x = (
        np.sin(np.asarray(grid[name])[:, None] * layer.weight + layer.bias[None])
        for name, (layer,) in zip(("t", "x"), trunks, strict=True)
    )
    np.testing.assert_allclose(found, np.einsum("fk,ik,jk->fij", branch, t, x), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("grid", [True, False])
@pytest.mark.parametrize("decoder", [CP(3), Tucker((3, 4, 2))])
def test_decoders_are_their_formulas(decoder, grid):
    generator = np.random.default_rng(0)
    ranks, lengths = decoder.ranks(3), (5, 6, 7) if grid else (5, 5, 5)
    tables = [jnp.asarray(generator.normal(size=(3, r, n))) for r, n in zip(ranks, lengths, strict=True)]
    coefficients = jnp.asarray(generator.normal(size=(2, *decoder.shape(3))))
    terms = [(1.0, (0, 1, 2)), (-0.5, (2, 0, 2)), (3.0, (1, 1, 0))]
    letters = ("k", "k", "k", "k") if isinstance(decoder, CP) else ("abc", "a", "b", "c")
    axes = ("x", "y", "z") if grid else ("x", "x", "x")
    formula = f"f{letters[0]}," + ",".join(r + n for r, n in zip(letters[1:], axes, strict=True))
    formula += "->f" + ("xyz" if grid else "x")
    expected = sum(
        c * np.einsum(formula, coefficients, *(table[m] for table, m in zip(tables, orders, strict=True)))
        for c, orders in terms
    )
    np.testing.assert_allclose(decoder.contract(coefficients, tables, terms, grid), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("functions", [16, 17], ids=["few", "many"])
def test_cp_for_few_functions_is_the_same_without_laying_out_the_basis(functions):
    generator = np.random.default_rng(0)
    tables = [jnp.asarray(generator.normal(size=(2, 4, n))) for n in (5, 6, 16)]
    coefficients = jnp.asarray(generator.normal(size=(functions, 4)))
    contract = jax.jit(lambda c: CP(4).contract(c, tables, [(-2.0, (0, 1, 1))], True))
    expected = -2 * np.einsum("fk,kx,ky,kz->fxyz", coefficients, tables[0][0], tables[1][1], tables[2][1])
    np.testing.assert_allclose(contract(coefficients), expected, rtol=1e-12, atol=1e-12)
    materialised_rank = "f64[4,5,6,16]" in str(jax.make_jaxpr(contract)(coefficients))
    assert materialised_rank == (functions > 16)


def test_tucker_with_a_diagonal_core_is_cp():
    tables = [jnp.asarray(np.random.default_rng(i).normal(size=(1, 3, 4))) for i in range(2)]
    weights = jnp.asarray([[1.0, -2.0, 0.5]])
    cp = CP(3).contract(weights, tables, [(1.0, (0, 0))], True)
    tucker = Tucker((3, 3)).contract(jnp.diag(weights[0])[None], tables, [(1.0, (0, 0))], True)
    # Numbers of order one are summed in another order; a sum that nearly cancels has the round-off of its terms.
    np.testing.assert_allclose(cp, tucker, rtol=1e-13, atol=2e-14)


def test_a_configuration_makes_what_it_says():
    model = small(AnisotropicHeat(), decoder="tucker", rank={"t": 2, "x": 3, "y": 4, "z": 5}, exact=("z",))
    assert isinstance(model, SepONet)
    assert model.decoder == Tucker((2, 3, 4, 5))
    assert model.coefficient_shape() == (1, 2, 3, 4, 5)
    assert model.size == math.prod((2, 3, 4, 5))
    model = small(Brusselator(), trunk={"t": "mlp", "x": "legendre"}, rank=4)
    assert isinstance(model, SepONet)
    assert isinstance(model.trunks[0], NetworkTrunk)
    assert isinstance(model.trunks[1], BasisTrunk)
    assert model.coefficient_shape() == (2, 4)
    assert model.sensors == (("u", (("x", 4),)),)
    kinds = {"seponet": SepONet, "deeponet": DeepONet, "deeponet_repeated": RepeatedDeepONet}
    assert all(type(small(Wave(), kind=kind)) is made for kind, made in kinds.items())


def test_the_same_key_makes_the_same_model_and_another_another():
    one, same, other = (nn.build(Wave(), rank=2, trunk_width=3, sensors=4, key=jax.random.key(i)) for i in (0, 0, 1))
    assert eqx.tree_equal(one, same)
    assert not eqx.tree_equal(one, other)


@pytest.mark.parametrize(("decoder", "trained"), [("cp", False), ("tucker", True)])
def test_without_inputs_a_model_is_a_separable_pinn(decoder, trained):
    model = small(Plate(), decoder=decoder)
    assert isinstance(model.branch, Constant)
    assert (model.branch.coefficients is not None) == trained
    assert model.coefficients({}).shape[0] == 1


def test_several_inputs_enter_the_branch():
    """Each of two functions and a scalar changes the coefficients of its own function only."""
    problem = Reactor()
    model, inputs = small(problem), problem.sample(jax.random.key(0), 3)
    before = model.coefficients(model.encode(inputs))
    for name, functions in inputs.items():
        changed = jax.tree.map(lambda p: p.at[1].mul(1.5), functions)
        after = model.coefficients(model.encode({**inputs, name: changed}))
        different = np.abs(after - before).max(axis=(1, 2)) > 1e-8
        assert different.tolist() == [False, True, False], name


@pytest.mark.parametrize(
    ("kind", "config", "sentence"),
    [
        (Wave, {"kind": "deeponets"}, "kind must be one of seponet, deeponet.*did you mean 'deeponet'"),
        (Wave, {"decoder": "tuker"}, "did you mean 'tucker'"),
        (Wave, {"trunk": "fourier"}, "needs a periodic axis; t is an interval"),
        (Wave, {"trunk": {"t": "mlp"}}, "trunk must be one name or name the axes t, x"),
        (Wave, {"trunk": "hermite"}, "trunk of t must be one of"),
        (KdV, {"trunk": {"t": "mlp", "x": "legendre"}, "exact": "all"}, "legendre functions aren't periodic"),
        (Wave, {"rank": {"t": 2, "x": 3}}, "the CP decoder has one rank"),
        (Wave, {"decoder": "tucker", "rank": {"t": 2}}, "rank must name the axes t, x"),
        (Wave, {"kind": "deeponet", "rank": {"t": 2, "x": 3}}, "a DeepONet has one rank"),
        (Wave, {"kind": "deeponet", "trunk": "legendre"}, "one learned trunk for all axes"),
        (Wave, {"kind": "deeponet_repeated", "exact": "all"}, "softly only.*Use DeepONet"),
        (Wave, {"encoder": "pcaa"}, "did you mean 'pca'"),
        (Wave, {"branch": "cnn"}, "exactly one input"),
        (Poisson, {"trunk_activation": "sin"}, "sine"),
        (Poisson, {"trunk_activation": "gelu_exact"}, r"no activation 'gelu_exact' \(did you mean 'gelu'\?\)"),
    ],
)
def test_a_mistake_in_a_configuration_is_explained(kind, config, sentence):
    with pytest.raises(ValueError, match=sentence):
        small(kind(), **config)
