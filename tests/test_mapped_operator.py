"""Operators on mapped domains: coordinates of predictions, points, physical derivatives, saving, VTK files."""

import base64
import xml.etree.ElementTree as ET

import jax
import jax.numpy as jnp
import meshio
import numpy as np
import pytest

import seponet
from seponet import Domain, Mapped, Normal, Operator, Periodic, Problem, Value, maps, nn
from seponet.cli.files import check_output, write_fields
from seponet.drawing.prediction import draw
from seponet.functions import GaussianField, Scalar, SpectralField
from seponet.locations import Grid
from seponet.operator.placement import physical_coordinates

TWO_PI = 2 * np.pi
THETA = Domain(theta=Periodic(0, TWO_PI))


class Star(Problem):
    """A wall and its temperature, both random."""

    domain = maps.disk(lambda R: jnp.exp(0.25 * R))
    inputs = {
        "R": SpectralField(THETA, sigma=400.0, tau=3.0, gamma=6.0),
        "f": GaussianField(Domain(x=(-3, 3), y=(-3, 3)), length_scale=1.5),
    }
    conditions = [Value({"rho": 1}, equals="f")]

    def equation(self, s_xx, s_yy, f):
        return s_xx + s_yy + f


class Channel(Problem):
    """A moving wall; the floor is insulated, exactly, because grid lines are upright there."""

    domain = maps.channel(lambda h, t: (0.7 + 0.2 * h) * (1 + 0.1 * t), x=Periodic(0, 1), t=(0, 1))
    inputs = {"h": SpectralField(domain["x"], sigma=100.0, tau=5.0, gamma=4.0)}
    conditions = [Value({"t": 0}), Value({"q": 1}, equals=lambda x, t: t * jnp.cos(TWO_PI * x)), Normal({"q": 0})]

    def equation(self, s_t, s_xx, s_yy):
        return s_t - s_xx - s_yy


@pytest.fixture(scope="module")
def star():
    """An operator with random weights: what is tested here holds for any."""
    model = nn.build(
        Star(),
        decoder="tucker",
        rank={"rho": 6, "theta": 9},
        trunk="classical",
        exact="all",
        sensors=16,
        key=jax.random.key(0),
    )
    return Operator(model)


def functions_of(problem, count=3, seed=0):
    return problem.sample(jax.random.key(seed), count)


def test_predictions_have_coordinates_and_points_may_be_given_by_them(star):
    inputs = functions_of(star.problem)
    grid = {"rho": np.linspace(0.1, 1, 4), "theta": np.linspace(0, 5, 5)}
    s = star.predict(inputs, **grid)
    assert s.dims == ("function", "rho", "theta")
    assert s.x.dims == s.y.dims == ("function", "rho", "theta")
    slopes = star.predict(inputs, derivative=["s_x", "s_y"], **grid)
    # One evaluator for both: a point of the grid with its neighbours along x, another one, and one outside.
    h, at = 1e-5, {name: float(s[name][1, 1, 2]) for name in "xy"}
    one = {name: f[1:2] for name, f in inputs.items()}
    x = [at["x"], at["x"] - h, at["x"] + h, float(s.x[1, 3, 4]), 9.0]
    y = [at["y"], at["y"], at["y"], float(s.y[1, 3, 4]), 0.0]
    points = star.predict(one, points=True, x=x, y=y).to_numpy()[0]
    assert np.isnan(points[-1])
    np.testing.assert_allclose(points[[0, 3]], [s[1, 1, 2], s[1, 3, 4]], rtol=1e-6)
    np.testing.assert_allclose((points[2] - points[1]) / (2 * h), slopes["s_x"][1, 1, 2], rtol=1e-5)
    with pytest.raises(ValueError, match="for single points by coordinates pass points=True"):
        star.predict(inputs, x=[0.0], y=[0.0])
    with pytest.raises(ValueError, match="or by the axes of the box rho, theta; got x"):
        star.predict(inputs, points=True, x=[0.0])


def test_an_operator_on_a_mapped_domain_survives_saving(star, tmp_path):
    star.save(tmp_path / "star")
    again = seponet.load(tmp_path / "star", problem=Star)
    inputs = functions_of(star.problem, 1)
    where = {"x": [0.1, -0.2], "y": [0.3, 0.0], "points": True}
    np.testing.assert_array_equal(again.predict(inputs, **where), star.predict(inputs, **where))


@pytest.fixture(scope="module")
def moving():
    problem = Channel()
    model = nn.build(problem, decoder="tucker", rank={"t": 3, "x": 5, "q": 4}, trunk="classical", exact="all",
                     sensors=16, key=jax.random.key(0))  # fmt: skip
    grid = {"t": np.array([0.0, 0.5, 1.0]), "x": np.linspace(0, 1, 6), "q": np.linspace(0, 1, 4)}
    return Operator(model).predict(functions_of(problem, 2), **grid)


def test_a_vtu_file_is_read_by_meshio(moving, tmp_path):
    one = moving.isel(function=1, t=2)
    seponet.write_vtk(one, tmp_path / "s.vtu")
    mesh = meshio.read(tmp_path / "s.vtu")
    assert mesh.cells_dict["quad"].shape == (15, 4)
    np.testing.assert_allclose(mesh.points[:, 1], one.y.to_numpy().ravel(order="F"), rtol=1e-6)
    np.testing.assert_allclose(mesh.point_data["s"], one.to_numpy().ravel(order="F"), rtol=1e-6)
    points = np.asarray(mesh.points)[mesh.cells_dict["quad"]]
    edges = points - np.roll(points, 1, axis=1)
    turns = edges[:, :, 0] * np.roll(edges, -1, axis=1)[:, :, 1] - edges[:, :, 1] * np.roll(edges, -1, axis=1)[:, :, 0]
    assert np.all(turns > 0)  # every cell is convex and counterclockwise


def test_the_command_line_writes_vtk_files(moving, tmp_path):
    check_output(tmp_path / "s.vts")
    write_fields(moving.isel(function=0, t=1), tmp_path / "s.vts")
    assert ET.parse(tmp_path / "s.vts").getroot().attrib["type"] == "StructuredGrid"
    with pytest.raises(ValueError, match=r"must end in .nc or .npy or .vts"):
        check_output(tmp_path / "s.vtk")


def test_pictures_show_the_true_shape(moving):
    figure = draw(moving.isel(function=0))
    axes = figure.axes[0]
    assert axes.get_aspect() == 1
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("$x$", "$y$")
    low, high = axes.dataLim.intervaly
    np.testing.assert_allclose([low, high], [0.0, float(moving.y[0, 2].max())], atol=1e-6)


def test_a_series_in_time_is_a_collection_of_structured_grids(moving, tmp_path):
    files = seponet.write_vtk(moving, tmp_path / "s.pvd")
    assert len(files) == 1 + 2 * 3
    entries = ET.parse(files[0]).getroot().findall("Collection/DataSet")
    assert sorted({float(e.attrib["timestep"]) for e in entries}) == [0.0, 0.5, 1.0]
    piece = ET.parse(tmp_path / entries[-1].attrib["file"]).getroot().find("StructuredGrid/Piece")
    assert piece is not None
    assert piece.attrib["Extent"] == "0 5 0 3 0 0"

    def numbers(where):
        return np.frombuffer(base64.b64decode(piece.findtext(where) or "")[8:])

    np.testing.assert_allclose(numbers("PointData/DataArray"), moving[1, 2].to_numpy().ravel(order="F"))
    points = numbers("Points/DataArray").reshape(-1, 3)
    np.testing.assert_allclose(points[:, 1], moving.y[1, 2].to_numpy().ravel(order="F"))
    with pytest.raises(ValueError, match=r"holds one function at one time, and there are 2 along 'function'"):
        seponet.write_vtk(moving, tmp_path / "s.vts")


def test_a_coordinate_that_no_shape_changes_has_a_row_for_each_function():
    class Slanted(Problem):
        domain = Mapped(Domain(p=(0, 1), q=(0, 1)), x=lambda p, q, a: p * (1 + a * q), y=lambda q: 2 * q, keep=())
        inputs = {"a": Scalar(0.5, 1.0)}
        conditions = [Value({"p": (0, 1)}), Value({"q": (0, 1)})]

        def equation(self, s_xx, s_yy):
            return s_xx + s_yy + 1.0

    problem = Slanted()
    where = Grid.of(problem.domain, {"p": jnp.array([0.0, 1.0]), "q": jnp.array([0.0, 0.5, 1.0])})
    inputs = functions_of(problem, 2)
    found = physical_coordinates(problem, inputs, where, ("p", "q"), many=True)
    for name in "xy":
        dims, values, _ = found[name]
        assert dims == ("function", "p", "q")
        assert values.shape == (2, 2, 3)
    np.testing.assert_allclose(found["y"][1], np.broadcast_to([0.0, 1.0, 2.0], (2, 2, 3)))
