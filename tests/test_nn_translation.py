"""Models that commute with translations along a periodic axis."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

from seponet import nn
from seponet.operator.operator import Operator
from seponet.problems import PROBLEMS, Burgers

KEY = jax.random.key(0)
SMALL = {
    "decoder": "tucker",
    "rank": {"t": 4, "x": 9},
    "trunk": "classical",
    "exact": "all",
    "encoder": "pca",
    "components": 6,
    "sensors": 16,
    "branch_width": 8,
    "branch_depth": 2,
    "invariant": "x",
}
T, X = np.linspace(0, 1, 5), np.linspace(0, 1, 32, endpoint=False)


def operator():
    return Operator(nn.build(Burgers(), key=KEY, **SMALL))


def wave(x):
    return np.sin(2 * np.pi * x + 0.4) + 0.5 * np.cos(6 * np.pi * x) - 0.3 * np.sin(8 * np.pi * x)


@pytest.mark.parametrize("shift", [5 / 32, 0.1234, -0.4])
def test_moved_inputs_give_moved_solutions(shift):
    made = operator()
    here = made.predict(wave, t=T, x=X).to_numpy()
    there = made.predict(lambda x: wave(x - shift), t=T, x=(X + shift) % 1).to_numpy()
    plain = made.predict(wave, t=T, x=(X + shift) % 1).to_numpy()
    np.testing.assert_allclose(there, here, atol=1e-11)
    assert np.max(np.abs(plain - here)) > 0.1
    # What the network adds moves, not only the lift.
    assert np.max(np.abs(here[-1] - here[0])) > 1e-2


def test_inputs_are_seen_with_a_cosine_first():
    made = operator().model
    code = made.encode(Burgers().sample(KEY, 5))
    assert made.translation is not None
    moved, _ = made.translation.align(code)
    first = jnp.fft.rfft(moved["u"])[:, 1]
    np.testing.assert_allclose(jnp.imag(first), 0, atol=1e-12)
    assert np.all(jnp.real(first) > 0)
    np.testing.assert_allclose(jnp.abs(jnp.fft.rfft(moved["u"])[:, :8]), jnp.abs(jnp.fft.rfft(code["u"])[:, :8]))


def test_an_input_without_a_first_wave_has_a_gradient():
    made = operator()
    values = jnp.cos(4 * jnp.pi * jnp.arange(16) / 16)
    for given in (values, jnp.zeros(16)):
        gradient = jax.grad(lambda v: jnp.sum(made.evaluate(v, t=T, x=X) ** 2))(given)
        assert np.all(np.isfinite(gradient))


def test_a_saved_operator_moves_as_before(tmp_path):
    made = operator()
    made.save(tmp_path / "saved")
    again = Operator.load(tmp_path / "saved")
    np.testing.assert_array_equal(again.predict(wave, t=T, x=X), made.predict(wave, t=T, x=X))
    assert eqx.tree_equal(again.model.translation, made.model.translation)


@pytest.mark.parametrize(
    ("problem", "changes", "sentence"),
    [
        ("burgers", {"invariant": "t"}, "needs a periodic axis, and t is an interval"),
        ("burgers", {"invariant": "z"}, "there is no axis 'z'"),
        ("burgers", {"rank": {"t": 4, "x": 8}}, "an odd rank along x"),
        ("burgers", {"decoder": "cp", "rank": 9}, "decoder = 'tucker'"),
        ("burgers", {"trunk": "mlp"}, "trunk = 'fourier'"),
        ("burgers", {"exact": ("t",)}, "that axis exact"),
        ("burgers", {"kind": "deeponet", "rank": 9, "trunk": "mlp"}, "is for a SepONet"),
        ("navier_stokes", {"rank": {"t": 4, "x": 9, "y": 9}}, "derived functions or a known part"),
    ],
)
def test_what_cant_be_invariant_is_named(problem, changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        nn.build(PROBLEMS[problem](), key=KEY, **{**SMALL, **changes})


def test_an_equation_that_knows_its_place_is_refused():
    class Pinned(Burgers):
        """A force that depends on the place."""

        def equation(self, s, s_t, s_x, x):  # pyright: ignore[reportIncompatibleMethodOverride]
            return s_t + s * s_x - jnp.sin(2 * jnp.pi * x)

    with pytest.raises(ValueError, match="looks the same everywhere; 'equation' depends on x"):
        nn.build(Pinned(), key=KEY, **SMALL)
    assert nn.build(zoo.KdV(), key=KEY, **SMALL).translation is not None
