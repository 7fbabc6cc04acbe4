"""Domains, multi-indices and locations."""

import jax.numpy as jnp
import numpy as np
import pytest

from seponet import Domain, Grid, Interval, Periodic, Points
from seponet.derivatives import Trace, compose, multi_index, order_along

DOMAIN = Domain(t=(0, 2), x=Periodic(-1, 1), theta=Interval(0.0, 3.0))


def test_axes_keep_their_order_kind_and_bounds():
    assert DOMAIN.names == ("t", "x", "theta")
    assert len(DOMAIN) == 3
    assert "x" in DOMAIN
    assert "y" not in DOMAIN
    assert DOMAIN.axis("x") == Periodic(-1, 1)
    assert [axis.periodic for _, axis in DOMAIN.axes] == [False, True, False]
    assert DOMAIN.axis("theta").length == 3
    assert DOMAIN["theta", "t"] == Domain(theta=(0, 3), t=(0, 2))
    assert DOMAIN["t"] | DOMAIN["x"] == DOMAIN["t", "x"]
    assert hash(DOMAIN["t"]) == hash(Domain(t=(0, 2)))


@pytest.mark.parametrize(
    ("suffix", "alpha"),
    [
        ("t", (("t", 1),)),
        ("xtx", (("t", 1), ("x", 2))),
        ("theta", (("theta", 1),)),
        ("tthetat", (("t", 2), ("theta", 1))),
        ("xxxx", (("x", 4),)),
        ("", None),
        ("y", None),
        ("thet", None),
    ],
)
def test_a_derivative_is_read_from_its_suffix(suffix, alpha):
    assert DOMAIN.parse_derivative(suffix) == alpha


def test_a_suffix_is_read_to_its_end_even_if_the_longest_name_first_leads_astray():
    """Axes a, ab, bc: `abc` must be a + bc, although `ab` fits first."""
    assert Domain(a=(0, 1), ab=(0, 1), bc=(0, 1)).parse_derivative("abc") == (("a", 1), ("bc", 1))


@pytest.mark.parametrize(
    ("axes", "sentence"),
    [
        ({"x": (1, 0)}, "lower < upper"),
        ({"x": (0, float("inf"))}, "finite bounds"),
        ({"x": (0, float("nan"))}, "finite bounds"),
        ({"x_1": (0, 1)}, "no underscore"),
        ({"t": (0, 1), "tt": (0, 1)}, "two meanings"),
    ],
)
def test_a_wrong_axis_says_what_is_expected(axes, sentence):
    with pytest.raises(ValueError, match=sentence):
        Domain(**axes)


def test_an_unknown_axis_names_the_known_ones():
    with pytest.raises(ValueError, match="no axis 'y'; the axes are t, x, theta"):
        DOMAIN.axis("y")


def test_multi_indices():
    alpha = multi_index(x=2, t=1, y=0)
    assert alpha == (("t", 1), ("x", 2))
    assert [order_along(alpha, name) for name in "txy"] == [1, 2, 0]
    assert compose(alpha, multi_index(x=1, y=3)) == multi_index(t=1, x=3, y=3)
    assert compose(alpha, ()) == alpha
    assert Trace(0.0, (0.0, 0.0, 1.0)).order == 2


GRID = Grid.of(Domain(t=(0, 1), x=(0, 1)), {"x": jnp.asarray([0.0, 0.5, 1.0]), "t": jnp.asarray([0.25, 0.75])})


def test_a_mesh_has_the_points_of_its_grid_with_the_last_axis_fastest():
    mesh = GRID.mesh()
    assert GRID.shape == (2, 3)
    assert mesh.shape == (6,)
    np.testing.assert_array_equal(mesh["t"], [0.25] * 3 + [0.75] * 3)
    np.testing.assert_array_equal(mesh["x"], [0.0, 0.5, 1.0] * 2)
    for name in GRID.names:
        broadcast = jnp.broadcast_to(GRID.coordinate(name), (1, 2, 3))
        np.testing.assert_array_equal(broadcast.reshape(1, -1), mesh.coordinate(name))


def test_faces_fix_one_coordinate_and_keep_the_others():
    face, points = GRID.fix("t", 0.1), GRID.mesh().fix("t", 0.1)
    np.testing.assert_array_equal(face["t"], [0.1])
    np.testing.assert_array_equal(points["t"], [0.1] * 6)
    np.testing.assert_array_equal(face["x"], GRID["x"])
    np.testing.assert_array_equal(points["x"], GRID.mesh()["x"])


def test_rows_are_slabs_of_the_first_axis():
    slab = GRID.rows(1, 1)
    np.testing.assert_array_equal(slab["t"], [0.75])
    np.testing.assert_array_equal(slab["x"], GRID["x"])
    some = GRID.mesh().rows(2, 3)
    np.testing.assert_array_equal(some["t"], [0.25, 0.75, 0.75])
    np.testing.assert_array_equal(some["x"], [1.0, 0.0, 0.5])


def test_values_on_axes_in_any_order_are_spread_to_the_rank_of_the_grid():
    grid = Grid(("t", "x", "y"), (jnp.arange(2.0), jnp.arange(3.0), jnp.arange(4.0)))
    values = jnp.arange(5.0 * 4 * 2).reshape(5, 4, 2)  # functions, y, t
    spread = grid.spread(values, ("y", "t"))
    assert spread.shape == (5, 2, 1, 4)
    np.testing.assert_array_equal(spread[:, :, 0], jnp.swapaxes(values, 1, 2))
    points = Points(("t", "x"), (jnp.arange(6.0), jnp.arange(6.0)))
    assert points.spread(jnp.ones((5, 6)), ("x",)).shape == (5, 6)
