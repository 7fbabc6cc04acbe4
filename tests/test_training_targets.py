"""Training on what the discretisation solves: targets are solutions, old ones are forgotten, runs can be resumed."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from zoo import AllenCahn, Poisson

from seponet import Domain, Grid, Periodic, Problem, Value
from seponet.discretise import Discretisation
from seponet.discretise.correction import make_corrector
from seponet.discretise.newton import newton
from seponet.functions import SpectralField
from seponet.losses.supervised import Data
from seponet.nn import GatedMLP
from seponet.nn.coefficient_maps import PrincipalComponents
from seponet.training.linear_part import fit_linear
from seponet.training.loop import prepare, train_model
from seponet.training.principal import principal_components
from seponet.training.recipe import Recipe
from seponet.training.solved_step import SolvedStep
from seponet.training.step import TrainStep
from seponet.training.target_pool import Solved, TargetPool


class Front(Problem):
    """Burgers' equation with much viscosity."""

    domain = Domain(t=(0, 1), x=Periodic(0, 1))
    inputs = {"u": SpectralField(domain["x"], sigma=300.0, tau=5.0, gamma=4.0, modes=4)}
    conditions = [Value({"t": 0}, equals="u")]

    def equation(self, s, s_t, s_x, s_xx):
        return s_t + s * s_x - 0.05 * s_xx


SMALL = {
    "model": {
        "decoder": "tucker",
        "trunk": "classical",
        "exact": "all",
        "rank": {"t": 4, "x": 9},
        "encoder": "pca",
        "sensors": 16,
        "branch": "gated",
        "branch_width": 16,
        "branch_depth": 2,
        "branch_activation": "gelu",
        "zero_last": True,
    },
    "train": {
        "steps": 300,
        "functions": 32,
        "whitening": "diagonal",
        "loss": {"residual": "tested"},
        "sampling": {"points": {"t": 8, "x": 16}},
        "targets": {"pool": 1000, "renew": 5},
    },
}


def recipe(**changes):
    return Recipe.from_dict(SMALL).changed({key.replace("__", "."): value for key, value in changes.items()})


def same(a, b):
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.array_equal(x, y) for x, y in pairs if eqx.is_array(x))


@pytest.fixture(scope="module")
def step():
    return prepare(Front(), recipe())


@pytest.mark.parametrize(
    ("problem", "ranks"), [(Poisson(), {"x": 6, "y": 6}), (Front(), {"t": 5, "x": 9}), (AllenCahn(), {"t": 4, "x": 6})]
)
def test_a_corrector_finds_the_solutions_of_newtons_method(problem, ranks):
    discretisation = Discretisation.of(problem, problem.domain.names, ranks)
    nodes = tuple((name, 2 * rank + 4) for name, rank in discretisation.ranks)
    corrector = make_corrector(
        problem, discretisation, nodes, jax.random.key(0), steps=8, iterations=25, tolerance=1e-6
    )
    inputs = problem.sample(jax.random.key(1), 6)
    start = np.zeros((6, *discretisation.coefficient_shape()))
    exact = newton(discretisation, nodes, inputs, start, tolerance=1e-10)
    assert np.all(exact.converged)
    corrected = corrector(inputs, jnp.asarray(start))
    assert np.all(corrected.solved)
    assert np.allclose(corrected.norms, exact.norms, rtol=1e-4)
    distance = np.sqrt(np.sum((corrected.coefficients - exact.coefficients) ** 2, axis=tuple(range(1, start.ndim))))
    assert np.all(distance < 1e-4 * exact.norms)
    assert corrector.linear == isinstance(problem, Poisson)
    # A guess that is worse than none is not used.
    astray = corrector(inputs, jnp.asarray(start + 1e3))
    assert np.allclose(astray.coefficients, corrected.coefficients, atol=1e-4 * float(np.max(exact.norms)))


def test_what_is_not_solved_is_no_target(step):
    """One iteration of one step is not enough, and no function enters with a weight."""
    weak = dataclasses.replace(step.corrector, steps=1, iterations=1, tolerance=1e-9)
    solved, error = eqx.filter_jit(step._solve)(step.trained, jnp.asarray(0), weak)
    assert np.all(solved.weights == 0)
    assert np.all(solved.targets == 0)
    assert float(error) == 1


def test_the_pool_forgets_the_oldest():
    def batch(i: float) -> Solved:
        return Solved({"u": jnp.full((2, 3), i)}, jnp.full((2, 5), i), jnp.full(2, i))

    pool = TargetPool.empty(4, batch(0.0), renew=7)
    begun = pool.add(batch(9.0), jnp.zeros(()))
    assert np.all(begun.rows(jax.random.key(0), 50).weights == 9)  # what was not written yet is not drawn
    for i in range(5):
        pool = pool.add(batch(float(i)), jnp.asarray(i / 10))
    for values in (pool.solved.weights, pool.solved.prepared["u"][:, 0], pool.solved.targets[:, 0]):
        assert np.array_equal(values, [4, 4, 3, 3])
    assert (int(pool.written), float(pool.error), int(pool.renew)) == (10, 0.4, 7)
    drawn = pool.rows(jax.random.key(0), 50)
    assert set(np.asarray(drawn.weights)) == {3, 4}
    assert np.array_equal(drawn.weights, drawn.targets[:, 0])


def test_a_network_learns_what_is_solved(step):
    """Its error on the newest functions is that on others, which it has not seen either."""
    assert isinstance(step, SolvedStep)
    early, _ = step.run(step.start(), 1)
    late, record = step.run(early, 299)
    assert early.targets is not None
    assert late.targets is not None
    assert bool(record.finite)
    assert float(early.targets.error) > 0.5  # a network that starts at zero gives the lift
    assert float(late.targets.error) < 0.1 * float(early.targets.error)
    inputs = Front().sample(jax.random.key(99), 64)
    model = step.model(late)
    assert model.discretisation is not None
    exact = newton(
        model.discretisation,
        step.corrector.nodes,
        inputs,
        np.zeros((64, *model.coefficient_shape())),
        tolerance=1e-8,
    )
    apart = model.coefficients(model.encode(inputs)) - exact.coefficients
    errors = np.sqrt(np.sum(apart**2, axis=(1, 2, 3))) / exact.norms
    assert float(late.targets.error) == pytest.approx(float(np.mean(errors)), rel=0.5)


def test_a_block_equals_its_steps_one_by_one(step):
    whole, _ = step.run(step.start(), 7)
    parts = step.start()
    for count in (1, 2, 4):
        parts, _ = step.run(parts, count)
    assert same(whole, parts)


def test_resumed_equals_uninterrupted(tmp_path):
    calls = []

    def interrupt(model: object) -> float:
        calls.append(model)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return 1.0

    short = recipe(train__steps=12, train__validate=0.0)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    whole = train_model(Front(), short, folder=tmp_path / "one", quiet=True)
    part = train_model(Front(), short, folder=tmp_path / "two", validate=interrupt, quiet=True)
    assert 0 < part.steps < 12
    rest = train_model(Front(), short, folder=tmp_path / "two", resume=True, quiet=True)
    assert (whole.steps, rest.steps) == (12, 12)
    assert same(whole.model, rest.model)
    assert whole.history[-1]["fresh"] == rest.history[-1]["fresh"]


def test_a_problem_without_inputs_is_solved_and_fitted():
    class Still(Problem):
        domain = Domain(x=(0, 1))
        conditions = [Value({"x": (0, 1)})]

        def equation(self, s_xx, x):
            return s_xx + jnp.pi**2 * jnp.sin(jnp.pi * x)

    single = recipe(model__rank={"x": 8}, model__branch="mlp", train__sampling={"points": {"x": 16}}, train__steps=400)
    single = single.changed({"train.optimizer.rate": 0.1})
    trained = train_model(Still(), single, quiet=True)
    assert trained.history[-1]["fresh"] < 1e-2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train__targets": {"pool": 3}}, "at least train.functions and train.targets.first; got 3, 32 and 0"),
        ({"train__loss": {"residual": "pointwise"}}, 'set train.loss.residual = "tested"'),
        ({"train__polish": 5}, "neither train.rollout.windows > 1 nor train.polish"),
        ({"train__targets": {"pool": 100, "renew": 0}}, "renew must be at least 1; got 0"),
        ({"model__branch_depth": 0}, "at least one block; got depth 0"),
        ({"model__trunk": "mlp", "train__whitening": "none"}, 'model.trunk = "classical"'),
    ],
)
def test_what_does_not_fit_is_told(changes, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        prepare(Front(), recipe(**changes))


def test_data_are_for_residuals():
    middle = Grid.of(Front.domain, {"t": jnp.array([0.5]), "x": jnp.array([0.5])})
    data = Data(Front().sample(jax.random.key(0), 2), middle, {"s": jnp.zeros((2, 1, 1))})
    assert isinstance(prepare(Front(), recipe(), data=data), TrainStep)


def test_what_newton_can_t_solve_is_trained_on_residuals(caplog):
    weak = recipe(train__targets={"pool": 64, "newton": 1, "iterations": 1, "tolerance": 1e-9})
    with caplog.at_level("WARNING", "seponet"):
        assert isinstance(prepare(Front(), weak), TrainStep)
    assert "only 0 of 32 sampled inputs of Front are solved" in caplog.text
    assert "training on residuals instead" in caplog.text


@pytest.mark.parametrize("invariant", ["", "x"])
def test_components_of_solutions_are_what_a_branch_gives(invariant):
    """Compact numbers of a model have the distances of its coefficients, aligned or not; and the network learns."""
    small = recipe(model__invariant=invariant, train__targets={"pool": 1000, "renew": "auto", "first": 128})
    step = prepare(Front(), small)
    assert isinstance(step, SolvedStep)
    start = step.start()
    assert start.targets is not None
    assert int(start.targets.written) == 128
    late, _ = step.run(start, 300)
    program: Any = step._compiled
    assert program._run._cache_size() == 1  # to choose an interval, a step was run before
    model = step.model(late)
    assert isinstance(model.whitening, PrincipalComponents)
    vectors = np.asarray(model.whitening.vectors.value)
    assert np.allclose(vectors @ vectors.T, np.eye(len(vectors)), atol=1e-6)
    assert len(vectors) < model.size
    sensor_values = model.encode(Front().sample(jax.random.key(5), 4))
    coefficients = model.coefficients(sensor_values)
    prepared, angle = model.prepare(sensor_values)
    assert np.allclose(model.compress(coefficients, angle), model.compact(prepared), atol=1e-5)
    norms = np.sqrt(np.sum(np.asarray(coefficients) ** 2, axis=(1, 2, 3)))
    assert np.allclose(np.linalg.norm(model.compact(prepared), axis=1), norms, rtol=1e-5)
    assert late.targets is not None
    assert float(late.targets.error) < 0.2


def test_components_leave_little_of_other_functions():
    """A cloud in five directions of a space of forty: five components are enough, and as large as it is."""
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.normal(size=(40, 5)))[0]
    sizes = np.array([1.0, 0.5, 0.1, 0.05, 0.01])
    rows = rng.normal(size=(200, 5)) * sizes @ directions.T
    vectors = principal_components(rows, np.ones(200), left=1e-6)
    assert vectors.shape == (5, 40)
    assert np.allclose(vectors.T @ vectors, directions @ directions.T, atol=1e-5)
    assert np.allclose(np.std(rows @ vectors.T, axis=0), sizes, rtol=0.2)
    # Without five directions in the sample, all forty are kept.
    noise = rows + 1e-3 * rng.normal(size=rows.shape)
    full = principal_components(noise, np.ones(200), left=1e-6)
    assert np.allclose(full @ full.T, np.eye(40), atol=1e-5)
    # Functions that were not solved do not count.
    weights = np.where(np.arange(200) % 2, 1.0, 0.0)
    spoiled = np.where(weights[:, None] > 0, rows, 1e3)
    assert principal_components(spoiled, weights, left=1e-6).shape == (5, 40)


def test_what_is_linear_is_found_by_regression():
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(200, 30)), rng.uniform(0.5, 2.0, size=200)
    matrix, offset = rng.normal(size=(30, 4)), rng.normal(size=4)
    y = x @ matrix + offset
    linear = fit_linear(x, y, weights)
    assert linear.error < 1e-6
    assert np.allclose(linear.matrix, matrix, atol=1e-6)
    assert np.allclose(linear.offset, offset, atol=1e-6)
    bent = fit_linear(x, y + 0.1 * x[:, :1] ** 2 * np.array([0.0, 1.0, 0.0, 0.0]), weights)
    assert bent.left[1] > 10 * bent.left[0]
    # Noise is not fitted: where nothing is linear, nothing is said.
    noise = fit_linear(x, rng.normal(size=y.shape), weights)
    assert np.abs(noise.matrix).max() < 0.1
    spoiled = fit_linear(np.concatenate([x, x]), np.concatenate([y, 1e3 + y]), np.concatenate([weights, 0 * weights]))
    assert np.allclose(spoiled.matrix, matrix, atol=1e-6)


def test_a_gated_network_is_its_formula():
    network = GatedMLP(3, 2, 4, 1, "tanh", key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (5, 3))
    block = network.blocks[0]
    h = x @ network.first.weight + network.first.bias[None]
    gate = jnp.tanh(h @ block.gate.weight + block.gate.bias[None])
    h = h + (gate * (h @ block.value.weight + block.value.bias[None])) @ block.out.weight + block.out.bias[None]
    expected = jnp.concatenate([h, x], axis=1) @ network.last.weight + network.last.bias[None]
    assert np.allclose(network(x), expected)
    assert (network.in_size, network.out_size) == (3, 2)
