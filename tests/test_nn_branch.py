"""Encoders and branches: statistics, convolutions, joining of inputs, and what mistakes are told."""

import re
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seponet import Domain, Problem, Value, nn
from seponet.functions import GaussianField, Scalar, resolve
from seponet.nn.branch import Branch, Constant
from seponet.nn.cnn import CNN
from seponet.nn.coordinate_maps import Chain
from seponet.nn.encoders import PCA, Flatten, Standardise, Transformed
from seponet.nn.fixed import Fixed, trainable
from seponet.nn.linear import Linear
from seponet.problems import Advection, Burgers

KEY = jax.random.key(0)


def numbers(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(0).normal(size=shape))


def correlated(n: int, shape: tuple[int, ...] = (12,), rank: int = 6) -> np.ndarray:
    rng = np.random.default_rng(3)
    mixing = rng.normal(size=(rank, int(np.prod(shape)))) * (0.5 ** np.arange(rank))[:, None]
    return (3.0 + rng.normal(size=(n, rank)) @ mixing).reshape(n, *shape)


@pytest.mark.parametrize("shape", [(12,), (2, 3, 2)])
def test_pca_decorrelates_to_unit_variance(shape):
    samples = correlated(200, shape)
    encoder = PCA(samples, count=4)
    encoded = np.asarray(encoder(jnp.asarray(samples)))
    assert encoder.shape == shape
    assert encoded.shape == (200, encoder.size) == (200, 4)
    np.testing.assert_allclose(encoded.mean(0), 0.0, atol=1e-10)
    np.testing.assert_allclose(np.cov(encoded.T), np.eye(4), atol=1e-10)


def test_a_transformed_input_is_encoded_as_the_transformed_samples_were():
    model = nn.build(Advection(), transform={"u": "reciprocal"}, encoder="pca", components=4, sensors=16, key=KEY)
    inputs = Advection().sample(jax.random.key(1), 500)
    code = model.encode(inputs)
    assert isinstance(model.branch, Branch)
    transformed = model.branch.encoders["u"]
    assert isinstance(transformed, Transformed)
    encoded = np.asarray(transformed(code["u"]))
    np.testing.assert_allclose(encoded, transformed.encoder(1 / code["u"]), rtol=1e-12)
    # Unit variance for other samples of the same distribution: the statistics are those of 1/u, not of u.
    np.testing.assert_allclose(encoded.std(0), 1.0, atol=0.25)


@pytest.mark.parametrize(
    ("problem", "transform", "message"),
    [
        (Advection(), {"v": "reciprocal"}, "must be one of u; got 'v'"),
        (Advection(), {"u": "reciprocl"}, "did you mean 'reciprocal'"),
        (Burgers(), {"u": "log"}, "needs a positive input; u takes values down to -"),
    ],
)
def test_a_transform_that_cannot_be_is_refused(problem, transform, message):
    with pytest.raises(ValueError, match=message):
        nn.build(problem, transform=transform, key=KEY)


def test_pca_keeps_the_directions_of_largest_variance():
    samples = correlated(200)
    kept = PCA(samples, energy=0.99)
    centred = samples - samples.mean(0)

    def explained(size: int) -> float:
        z = np.asarray(PCA(samples, count=size)(jnp.asarray(samples)))
        fit = z @ np.linalg.lstsq(z, centred, rcond=None)[0]
        return float(np.sum(fit**2) / np.sum(centred**2))

    assert 1 < kept.size < 6
    assert explained(kept.size) >= 0.99 > explained(kept.size - 1)


def test_pca_of_more_sensors_than_samples_is_the_singular_value_decomposition():
    samples = correlated(40, (90,))
    centred = samples - samples.mean(0)
    _, singular, directions = np.linalg.svd(centred, full_matrices=False)
    exact = centred @ directions[:5].T / singular[:5] * np.sqrt(39)
    encoded = np.asarray(PCA(samples, count=5)(jnp.asarray(samples)))
    np.testing.assert_allclose(np.abs(encoded), np.abs(exact), atol=1e-9)
    with pytest.raises(ValueError, match="vary in 6 directions"):
        PCA(samples, count=7)


def test_pca_of_a_known_covariance_needs_no_samples():
    factor = np.random.default_rng(0).normal(size=(5, 9))
    encoder = PCA(factor, count=5, factor=True)
    np.testing.assert_array_equal(encoder.mean(), 0.0)
    v = np.asarray(encoder.directions())
    np.testing.assert_allclose(v.T @ factor.T @ factor @ v, np.eye(5), atol=1e-10)


class Cube(Problem):
    """Poisson's equation in three dimensions, with a constant."""

    domain = Domain(x=(0, 1), y=(0, 1), z=(0, 1))
    inputs = {"u": GaussianField(domain, length_scale=0.25), "k": Scalar(1.0, 2.0)}
    conditions = [Value({name: (0, 1)}) for name in "xyz"]

    def equation(self, s_xx, s_yy, s_zz, u, k):
        return k * (s_xx + s_yy + s_zz) + u


AUTO: dict[str, Any] = {"encoder": "pca", "sensors": "auto", "branch_width": 4, "branch_depth": 1, "key": KEY}


def test_sensors_follow_from_the_input(caplog):
    with caplog.at_level("INFO", logger="seponet"):
        model = nn.build(Cube(), rank=2, trunk_width=3, **AUTO)
    counts = resolve(Cube().inputs["u"]).counts
    assert model.sensors == (("k", ()), ("u", tuple(counts.items())))
    assert 8**3 <= np.prod(list(counts.values())) <= 16**3
    (message,) = (record.getMessage() for record in caplog.records if record.name.startswith("seponet"))
    assert re.fullmatch(
        r"sensors of u: x \d+, y \d+, z \d+; interpolated between them, its functions are right to 0\.0\d+%", message
    )
    # The covariance of the input is known, so functions that nobody has seen have features of unit variance. (Of 1000
    # samples some features would have a variance of 20.)
    assert isinstance(model.branch, Branch)
    encoder = model.branch.encoders["u"]
    features = np.asarray(encoder(model.encode(Cube().sample(jax.random.key(3), 800))["u"]))
    assert features.shape[1] > 400
    assert np.max(np.abs(np.var(features, axis=0) - 1)) < 6 * np.sqrt(2 / 800)
    np.testing.assert_allclose(np.var(features), 1.0, atol=0.01)


def test_sensors_that_do_not_resolve_an_input_are_told(caplog):
    class Rough(Cube):
        inputs = {"u": GaussianField(Cube.domain, length_scale=0.04), "k": Scalar(1.0, 2.0)}

    without_statistics: dict[str, Any] = {**AUTO, "encoder": "sensors"}
    with caplog.at_level("INFO", logger="seponet"):
        nn.build(Rough(), rank=2, trunk_width=3, **without_statistics)
    assert re.search(r"right to \d+% only, because 4096 are all that are taken; model.sensors sets more", caplog.text)


def test_sensors_follow_from_inputs_whose_statistics_are_sampled():
    options: dict[str, Any] = {"decoder": "tucker", "rank": {"t": 3, "x": 5}, "trunk": "classical", "exact": "all"}
    moved = nn.build(Burgers(), **options, invariant="x", **AUTO)
    positive = nn.build(Advection(), rank=2, trunk_width=3, **AUTO)
    assert moved.sensors == (("u", (("x", 64),)),)
    assert positive.sensors == (("u", (("x", 65),)),)
    for model in (moved, positive):
        values = model.encode(model.problem.sample(jax.random.key(3), 500))
        assert isinstance(model, nn.SepONet)
        assert isinstance(model.branch, Branch)
        if model.translation is not None:
            values, _ = model.translation.align(values)
        features = np.asarray(model.branch.encoders["u"](values["u"]))
        np.testing.assert_allclose(features.std(0), 1.0, atol=0.25)
    misspelt: dict[str, Any] = {**AUTO, "sensors": "autom"}
    with pytest.raises(ValueError, match="sensors must be one of auto; got 'autom'"):
        nn.build(Burgers(), rank=2, **misspelt)


def test_pca_mistakes():
    with pytest.raises(ValueError, match="vary in 6 directions"):
        PCA(correlated(50), count=7)
    with pytest.raises(ValueError, match="either count or energy"):
        PCA(correlated(50))
    with pytest.raises(ValueError, match="finite"):
        PCA(np.full((3, 2), np.nan), count=1)
    with pytest.raises(ValueError, match="vary in 0 directions"):
        PCA(np.ones((3, 2)), count=1)


def test_standardise_leaves_constant_sensors_at_zero():
    samples = correlated(100)
    samples[:, 3] = 5.0
    encoder = Standardise(samples)
    encoded = np.asarray(encoder(jnp.asarray(samples)))
    np.testing.assert_allclose(encoded.mean(0), 0.0, atol=1e-10)
    np.testing.assert_allclose(np.delete(encoded.std(0), 3), 1.0, atol=1e-10)
    np.testing.assert_array_equal(encoded[:, 3], 0.0)


def test_statistics_are_not_trained():
    branch = Branch.mlp({"u": PCA(correlated(50), count=3), "a": Flatten(())}, 2, 4, 1, key=KEY)
    trained, fixed = eqx.partition(branch, trainable(branch))
    assert jax.tree.leaves(trained.encoders) == []
    assert len(jax.tree.leaves(fixed.encoders)) == 2
    assert len(jax.tree.leaves(trained.body)) == 4
    assert jax.tree.leaves(fixed.body) == []
    gradient = jax.grad(lambda value: jnp.sum(Fixed(value)() ** 2))(jnp.ones(3))
    np.testing.assert_array_equal(gradient, 0.0)


@pytest.mark.parametrize(("components", "grid"), [(3, (16, 8)), (None, (12,))])
def test_cnn_moves_with_a_periodic_input(components, grid):
    network = CNN(components, grid, 7, width=2, blocks=2, periodic=True, key=KEY)

    @jax.jit
    def run(values):
        return network.feature_maps(values)

    values = numbers(2, *network.shape)
    features = run(values)
    assert features.shape == (2, *(n // 4 for n in grid), 8)
    # Four sensors are one cell after two halvings.
    np.testing.assert_allclose(run(np.roll(values, 4, axis=-1)), np.roll(features, 1, axis=-2), atol=1e-12)
    assert not np.allclose(run(np.roll(values, 3, axis=-1)), features)


def _paper_cnn(key, values):
    network = CNN(3, (128, 128), 512, key=key)
    return network, network(values)


def test_cnn_of_the_paper():
    values = jax.ShapeDtypeStruct((2, 3, 128, 128), jnp.float64)
    network, out = eqx.filter_eval_shape(_paper_cnn, KEY, values)
    assert network.first.weight.shape == (1, 1, 3, 16)
    assert [b.first.weight.shape for b in network.blocks] == [(3, 3, 16 * 2**i, 32 * 2**i) for i in range(4)]
    assert [b.skip.weight.shape for b in network.blocks] == [(1, 1, 16 * 2**i, 32 * 2**i) for i in range(4)]
    assert network.last.weight.shape == (8 * 8 * 256, 512)
    assert out.shape == (2, 512)


def test_cnn_on_an_odd_grid_without_wrapping():
    networks = [CNN(1, (9, 7), 4, width=2, blocks=1, periodic=wrap, key=KEY) for wrap in (False, True)]
    zero, wrapped = jax.jit(lambda values: [network(values) for network in networks])(numbers(3, 1, 9, 7))
    assert zero.shape == (3, 4)
    assert not np.allclose(zero, wrapped)


def test_branch_joins_its_inputs_by_name():
    encoders = {"u": Flatten((4,)), "a": Flatten(()), "v": Flatten((2, 3))}
    branch = Branch.mlp(encoders, 5, 8, 1, skip=True, key=KEY)
    code = {"v": jnp.ones((2, 2, 3)), "u": jnp.zeros((2, 4)), "a": jnp.full((2,), 3.0)}
    joined = jnp.concatenate([code["a"][:, None], code["u"], code["v"].reshape(2, 6)], axis=-1)
    np.testing.assert_allclose(branch(code), branch.body(joined))
    assert branch(code).shape == (2, 5)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            {"u": np.zeros((2, 100)), "a": np.zeros(2)},
            "input 'u' was expected with 128 sensor values a function; got 100",
        ),
        (
            {"u": np.zeros((2, 128)), "a": np.zeros((2, 3))},
            "input 'a' was expected with 1 sensor value a function; got 3",
        ),
        ({"u": np.zeros((2, 128))}, "built for the inputs a, u; got u"),
        ({"u": np.zeros((2, 128)), "a": np.zeros(3)}, "got 3 of a, 2 of u"),
    ],
)
def test_branch_says_what_it_expected(code, message):
    branch = Branch.mlp({"u": Flatten((128,)), "a": Flatten(())}, 5, 8, 1, key=KEY)
    with pytest.raises(ValueError, match=message):
        branch({name: jnp.asarray(values) for name, values in code.items()})


def test_branch_construction_mistakes():
    with pytest.raises(ValueError, match="give 4 features and the body expects 5"):
        Branch({"u": Flatten((4,))}, Linear(5, 2, key=KEY))
    with pytest.raises(ValueError, match="without inputs use Constant"):
        Branch({}, Chain(()))


def test_a_cnn_can_be_the_whole_branch():
    branch = Branch({"u": CNN(None, (16,), 6, width=2, blocks=1, key=KEY)}, Chain(()))
    assert branch({"u": jnp.ones((3, 16))}).shape == (3, 6)


def test_constant_branch_serves_one_function():
    np.testing.assert_array_equal(Constant(4)({}), np.ones((1, 4)))
    learned = Constant(4, key=KEY)
    assert learned.coefficients is not None
    np.testing.assert_array_equal(learned({})[0], learned.coefficients)
    assert len(jax.tree.leaves(eqx.filter(learned, trainable(learned)))) == 1
    assert jax.tree.leaves(Constant(4)) == []
    np.testing.assert_array_equal(Constant(4, key=KEY, scale=0.0)({}), 0.0)
    with pytest.raises(ValueError, match="without inputs; got u"):
        Constant(4)({"u": jnp.zeros((1, 2))})


def test_a_ridge_makes_fine_directions_count_less():
    samples = correlated(200)
    plain, damped = (np.asarray(PCA(samples, count=5, ridge=r)(jnp.asarray(samples))) for r in (0.0, 0.01))
    variances = np.linalg.svd(samples - samples.mean(0), compute_uv=False)[:5] ** 2
    expected = variances / (variances + 0.01 * variances[0])
    np.testing.assert_allclose(damped.var(0, ddof=1), expected, rtol=1e-10)
    np.testing.assert_allclose(damped / damped.std(0), plain / plain.std(0), rtol=1e-10)
    assert expected[-1] < 0.9
    with pytest.raises(ValueError, match="ridge is a part of the largest variance"):
        PCA(samples, count=5, ridge=-1.0)
