"""Windows of time: states advanced by the model, in training and in prediction."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_training import recipe, same, stepper
from zoo import AllenCahn, KdV, Poisson, Reactor, Wave

from seponet import Domain, Grid, Operator, Problem, Value, nn
from seponet.functions import Bumps, Functions, GaussianField, Scalar, SpectralField
from seponet.losses.pointwise import physics_loss
from seponet.losses.spectral import SpectralResidual
from seponet.operator.rollout import end_of_window
from seponet.problems import Burgers, NavierStokes
from seponet.training.checkpoints import Checkpoints
from seponet.training.state_pool import Pool

WINDOWS = {
    "model__decoder": "tucker",
    "model__exact": "all",
    "model__trunk": "classical",
    "train__sampling__resample": 1,
    "train__rollout__windows": 3,
    "train__rollout__pool": 8,
    "train__rollout__ramp": 0.5,
    "train__rollout__accept": 1e9,
}


def burgers(**config):
    sizes = {"decoder": "tucker", "rank": {"t": 3, "x": 9}, "trunk": "classical", "exact": "all"}
    return nn.build(
        Burgers(), **{**sizes, "sensors": 128, "branch_width": 4, "branch_depth": 1, **config}, key=jax.random.key(0)
    )


@pytest.mark.parametrize("space", [Burgers().inputs["u"], NavierStokes().inputs["u"]])
def test_values_on_a_grid_lead_back_to_the_function(space):
    u = space.sample(jax.random.key(0), 2)
    np.testing.assert_allclose(space.fit(u(space.sensors(128))).parameters, u.parameters, atol=1e-12)
    # A coarse grid gives the long waves, and no others.
    coarse = space.fit(u(space.sensors(16))).parameters
    np.testing.assert_allclose(coarse[:, 15:], 0, atol=1e-12)


def test_sines_are_fitted_too_and_other_spaces_say_no():
    domain = Domain(x=(0, 1))
    space = SpectralField(domain, sigma=1.0, tau=1.0, gamma=2.0, modes=5)
    u = space.sample(jax.random.key(0), 2)
    np.testing.assert_allclose(space.fit(u(space.sensors(20))).parameters, u.parameters, atol=1e-12)
    with pytest.raises(ValueError, match="a Bumps is not a linear expansion"):
        Bumps(domain).fit(jnp.zeros((1, 20)))


def test_a_pool_keeps_good_states_until_they_are_old():
    space = SpectralField(Burgers().domain["x"], sigma=1.0, tau=1.0, gamma=2.0, modes=1)

    def functions(value):
        return {"u": Functions(space, jnp.full((4, 3), value))}

    pool = Pool({"u": Functions(space, jnp.zeros((6, 3)))}, jnp.asarray([0, 1, 2, 0, 0, 0]))
    good = jnp.asarray([True, True, True, False])
    after = pool.replace(jnp.asarray([0, 1, 2, 3]), functions(1.0), functions(2.0), good, jnp.asarray(3.0))
    np.testing.assert_array_equal(after.age, [1, 2, 0, 0, 0, 0])
    np.testing.assert_array_equal(after.states["u"].parameters[:, 0], [1, 1, 2, 2, 0, 0])
    rows = pool.draw(jax.random.key(0), 4)
    assert len(set(rows.tolist())) == 4


def test_states_grow_older_as_training_goes_on_unless_their_residual_is_large():
    young = stepper(KdV(), **WINDOWS)
    state, record = young.run(young.start(), jnp.asarray(12))
    assert bool(record.finite)
    assert state.pool is not None
    assert int(jnp.max(state.pool.age)) == 2
    strict = stepper(KdV(), **{**WINDOWS, "train__rollout__accept": 1e-9})
    state, _ = strict.run(strict.start(), jnp.asarray(12))
    assert state.pool is not None
    assert not np.any(state.pool.age)


def test_the_pool_resumes_where_it_was(tmp_path):
    made = stepper(KdV(), **WINDOWS)
    whole, _ = made.run(made.start(), jnp.asarray(12))
    part, _ = made.run(made.start(), jnp.asarray(7))
    assert part.pool is not None
    assert np.any(part.pool.age)
    Checkpoints(tmp_path).save(7, part, 1.0, 0.0)
    found = Checkpoints(tmp_path).restore(made.start())
    assert found is not None
    rest, _ = made.run(found[1], jnp.asarray(5))
    assert same(whole, rest)


def test_the_end_of_a_window_is_the_state_there():
    model = burgers()
    inputs = Burgers().sample(jax.random.key(1), 2)
    following = eqx.filter_jit(end_of_window)(model, model.sensors, inputs)
    x = np.linspace(0, 1, 30, endpoint=False)
    operator = Operator(model)
    end = operator.predict(inputs, t=1.0, x=x).to_numpy()
    # The network's nine waves and the input's 64 are below what 128 sensors can tell.
    start = operator.predict(following, t=0.0, x=x).to_numpy()
    assert np.std(end - operator.predict(inputs, t=0.0, x=x).to_numpy()) > 1e-3
    np.testing.assert_allclose(start, end, atol=1e-10)


def test_windows_are_composed_one_after_the_other():
    operator = Operator(burgers())
    u = Burgers().sample(jax.random.key(1), 2)
    x = np.linspace(0, 1, 8, endpoint=False)
    t = np.asarray([0.0, 2.5, 0.5, 1.0, 1.25])
    found = operator.advance(u, t=t, x=x, residual=True)
    assert found["s"].dims == ("function", "t", "x")
    np.testing.assert_array_equal(found["t"], t)
    np.testing.assert_allclose(
        found["s"].to_numpy()[:, [0, 2, 3]], operator.predict(u, t=t[[0, 2, 3]], x=x).to_numpy(), atol=1e-12
    )
    second = end_of_window(operator.model, operator.model.sensors, u)
    third = end_of_window(operator.model, operator.model.sensors, second)
    np.testing.assert_allclose(found["s"].sel(t=1.25), operator.predict(second, t=0.25, x=x).to_numpy(), atol=1e-10)
    np.testing.assert_allclose(found["s"].sel(t=2.5), operator.predict(third, t=0.5, x=x).to_numpy(), atol=1e-10)
    assert found["residual equation"].dims == ("function", "window")
    np.testing.assert_allclose(found["residual equation"].isel(window=1), operator.residual(second)["equation"])
    one = operator.advance(u["u"](u["u"].space.sensors(128))[0], t=1.25, x=x)
    assert one["s"].dims == ("x",)


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (Reactor(), "`t` depends on t, so later windows are other problems|`v` depends on t"),
        (Poisson(), "no axis with initial values of all fields"),
    ],
)
def test_what_can_not_be_continued_is_said(problem, sentence):
    with pytest.raises(ValueError, match=sentence):
        problem.time_axis()


def test_the_next_input_is_the_one_of_the_initial_condition():
    class Driven(Problem):
        """Both ends of two axes have inputs; only one of them is an initial state."""

        domain = Domain(t=(0, 1), x=(0, 1))
        inputs = {"u": GaussianField(domain["x"], length_scale=0.3), "g": Scalar(0.5, 1.5)}
        conditions = [Value({"t": 0}, equals="u"), Value({"x": 0}, equals="g"), Value({"x": 1})]

        def equation(self, s_t, s_xx):
            return s_t - s_xx

    problem = Driven()
    inputs = problem.sample(jax.random.key(0), 2)
    x = np.linspace(0, 1, 64)
    following = problem.restart(inputs, {"s": jnp.asarray([np.sin(np.pi * x), x**2])})
    assert following["g"] is inputs["g"]
    at = Grid(("x",), (jnp.asarray([0.25, 0.5]),))
    np.testing.assert_allclose(following["u"](at), [np.sin(np.pi * at["x"]), at["x"] ** 2], atol=1e-3)


def test_how_a_state_becomes_an_input_must_be_known():
    assert Wave().time_axis() == "t"
    with pytest.raises(ValueError, match="does not say how a state becomes an input"):
        AllenCahn().restart({}, {"s": jnp.zeros((1, 4))})
    with pytest.raises(ValueError, match="continued from t = 0 on; got -1"):
        Operator(burgers()).advance(Burgers().sample(jax.random.key(1), 1), t=-1.0, x=0.5)


@pytest.mark.parametrize("residual", ["pointwise", "spectral"])
def test_beyond_the_cap_a_function_counts_with_its_logarithm(residual):
    options = {**WINDOWS, "train__rollout__windows": 1, "train__loss__residual": residual, "train__sampling": "gauss"}
    plain = stepper(KdV(), **options)
    state = plain.start()
    batch = plain.batch(state)

    def loss(made, parameters):
        return made.loss(parameters, state.balance, batch, state.step)

    _, (losses, _) = loss(plain, state.parameters)
    each = jnp.sum(losses.table * batch.scale[None], axis=0)
    cap = float(jnp.sort(each)[1]) * 1.0001
    capped = stepper(KdV(), **options, train__loss__cap=cap)
    found, gradient = jax.value_and_grad(lambda w: loss(capped, w)[0])(state.parameters)
    np.testing.assert_allclose(found, jnp.mean(jnp.minimum(each, cap)), rtol=1e-9)

    def robust(parameters):
        model = eqx.combine(parameters, plain.frozen)
        if residual == "spectral":
            assert plain.nodes is not None
            table = SpectralResidual().table(
                model, batch.inputs, plain.nodes, model.coefficients(batch.sensor_values), 4
            )
            own = jnp.sum(table * batch.scale[None], axis=0)
            return jnp.mean(jnp.where(own < cap, own, cap * (1 + jnp.log(own / cap))))
        weights = jnp.where(each < cap, 1.0, cap / each)[None] * batch.scale[None] / 4
        return physics_loss(model, batch.inputs, batch.collocation, weights).total

    expected = jax.grad(robust)(state.parameters)
    for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9 * float(jnp.max(jnp.abs(b)) + 1e-12))


def test_settings_of_windows_are_checked():
    with pytest.raises(ValueError, match=r"train\.sampling\.resample = 1"):
        recipe(train__windows=2, train__resample=2)
    with pytest.raises(ValueError, match=r"train\.rollout\.pool >= train\.functions"):
        recipe(**{**WINDOWS, "train__rollout__pool": 2})
