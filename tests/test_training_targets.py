"""Training on what the discretisation solves: targets are solutions, old ones are forgotten, runs can be resumed."""

import dataclasses

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
from seponet.training.loop import prepare, train_model
from seponet.training.recipe import Recipe
from seponet.training.solved_step import SolvedStep
from seponet.training.target_pool import TargetPool


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
    # A guess that is worse than none is not used.
    astray = corrector(inputs, jnp.asarray(start + 1e3))
    assert np.allclose(astray.coefficients, corrected.coefficients, atol=1e-4 * float(np.max(exact.norms)))


def test_what_is_not_solved_is_no_target(step):
    """One iteration of one step is not enough, and no function enters with a weight."""
    weak = dataclasses.replace(step.corrector, steps=1, iterations=1, tolerance=1e-9)
    _, coefficients, weights, error = eqx.filter_jit(step._solve)(step.trained, jnp.asarray(0), weak)
    assert np.all(weights == 0)
    assert np.all(coefficients == 0)
    assert float(error) == 1


def test_the_pool_forgets_the_oldest():
    batch = [{"u": jnp.full((2, 3), float(i))} for i in range(5)]
    pool = TargetPool.empty(4, batch[0], jnp.zeros((2, 1, 5)))
    rows = [pool.add(batch[0], jnp.ones((2, 1, 5)), jnp.ones(2), jnp.zeros(())).rows(jax.random.key(0), 50)]
    assert set(np.asarray(rows[0])) == {0, 1}  # what was not written yet is not drawn
    for i, values in enumerate(batch):
        pool = pool.add(values, jnp.full((2, 1, 5), float(i)), jnp.full(2, float(i)), jnp.asarray(i / 10))
    assert np.array_equal(pool.weights, [4, 4, 3, 3])
    assert np.array_equal(pool.sensor_values["u"][:, 0], [4, 4, 3, 3])
    assert np.array_equal(pool.coefficients[:, 0, 0], [4, 4, 3, 3])
    assert (int(pool.written), float(pool.error)) == (10, 0.4)
    assert set(np.asarray(pool.rows(jax.random.key(0), 50))) == {0, 1, 2, 3}


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
        ({"train__targets": {"pool": 3}}, "at least train.functions; got 3 and 32"),
        ({"train__loss": {"residual": "pointwise"}}, 'set train.loss.residual = "tested"'),
        ({"train__polish": 5}, "neither train.rollout.windows > 1 nor train.polish"),
        ({"train__targets": {"pool": 100, "renew": 0}}, "renew must be at least 1; got 0"),
        ({"model__branch_depth": 0}, "at least one block; got depth 0"),
        (
            {"train__targets": {"pool": 64, "newton": 1, "iterations": 1, "tolerance": 1e-9}},
            "only 0 of 32",
        ),
        ({"model__trunk": "mlp", "train__whitening": "none"}, 'model.trunk = "classical"'),
    ],
)
def test_what_does_not_fit_is_told(changes, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        prepare(Front(), recipe(**changes))


def test_data_are_for_residuals():
    middle = Grid.of(Front.domain, {"t": jnp.array([0.5]), "x": jnp.array([0.5])})
    data = Data(Front().sample(jax.random.key(0), 2), middle, {"s": jnp.zeros((2, 1, 1))})
    with pytest.raises(ValueError, match=r"train\.targets\.pool = 0 to train on both"):
        prepare(Front(), recipe(), data=data)


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
