"""The explorer page in a real browser: drawn with mouse and keys, compared with `predict`, offline."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from zoo import Brusselator, Pendulum, Plate, small

import seponet
from seponet import maps
from seponet.export.packing import pack, unpack
from seponet.export.trace import trace
from seponet.functions import GaussianField, SpectralField
from seponet.problems import Burgers, NonlinearDiffusion
from seponet.runs.gallery import write_gallery

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and "SEPONET_NEEDS_BROWSER" not in os.environ,
    reason="there is no Chromium here: apt-get install chromium",
)

CLASSICAL: dict[str, Any] = {"exact": "all", "decoder": "tucker", "trunk": "classical"}


class Star(seponet.Problem):
    """A wall and a source, both drawn; the source is a function of coordinates."""

    domain = maps.disk(lambda R: jnp.exp(R / 4))
    inputs = {
        "R": SpectralField(seponet.Domain(theta=seponet.Periodic(0, 2 * np.pi)), sigma=400, tau=3, gamma=6),
        "f": GaussianField(seponet.Domain(x=(-3, 3), y=(-3, 3)), length_scale=1.5),
    }
    conditions = [seponet.Value({"rho": 1})]

    def equation(self, s_xx, s_yy, f):
        return s_xx + s_yy + f


class Channel(seponet.Problem):
    """A wall that moves in time, and that can be drawn through the floor."""

    domain = maps.channel(lambda h, t: (1 + h) * (1 + t / 4), x=seponet.Periodic(0, 1), t=(0, 1))
    inputs = {"h": SpectralField(domain["x"], sigma=25, tau=5, gamma=4)}
    conditions = [seponet.Value({"t": 0}), seponet.Value({"q": 0}), seponet.Value({"q": 1})]

    def equation(self, s_t, s_xx, s_yy):
        return s_t - s_xx - s_yy


OPERATORS = {
    "burgers": lambda: small(Burgers(), **CLASSICAL, sensors=16),
    "brusselator": lambda: small(Brusselator(), decoder="tucker", trunk="mlp", exact=(), sensors=8),
    "pendulum": lambda: small(Pendulum(), decoder="tucker", trunk="mlp", exact=()),
    "plate": lambda: small(Plate(), decoder="tucker", trunk="mlp", exact=(), sensors=8),
    "plane": lambda: small(NonlinearDiffusion(), decoder="tucker", trunk="mlp", exact=(), sensors=8),
    "star": lambda: small(Star(), **CLASSICAL, sensors=8),
    "channel": lambda: small(Channel(), **CLASSICAL, sensors=8),
}
GRIDS: dict[str, dict[str, Any]] = {
    "burgers": {"t": np.linspace(0, 1, 5), "x": np.linspace(0, 1, 33)},
    "brusselator": {"t": np.linspace(0, 1, 4), "x": np.linspace(0, 1, 33)},
    "pendulum": {"t": np.linspace(0, 3, 31)},
    "plate": {"x": np.linspace(0, 1, 9), "y": np.linspace(0, 1, 9)},
    "plane": {"t": np.linspace(0, 1, 3), "x": np.linspace(-1, 1, 33), "y": np.linspace(-1, 1, 33)},
    "star": {"rho": np.linspace(0, 1, 9), "theta": np.linspace(0, 2 * np.pi, 33)},
    "channel": {"t": np.linspace(0, 1, 3), "x": np.linspace(0, 1, 33), "q": np.linspace(0, 1, 5)},
}


@dataclass
class Opened:
    """A page with what it said and asked for."""

    page: Any
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def ask(self, script: str) -> Any:
        return self.page.evaluate(script)

    def settle(self) -> None:
        self.page.wait_for_timeout(120)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[seponet.Operator, Path]]:
    folder = tmp_path_factory.mktemp("pages")
    made = {name: seponet.Operator(build()) for name, build in OPERATORS.items()}
    return {name: (op, op.export(folder / f"{name}.html", **GRIDS[name])) for name, op in made.items()}


@pytest.fixture
def open_page(browser: Any, operators: dict[str, tuple[seponet.Operator, Path]]) -> Iterator[Any]:
    contexts: list[Any] = []
    opened: list[Opened] = []

    def open_(name: str, width: int = 1100, height: int = 800, suffix: str = "", **settings: Any) -> Opened:
        context = browser.new_context(viewport={"width": width, "height": height}, offline=True, **settings)
        contexts.append(context)
        shown = Opened(context.new_page())
        opened.append(shown)
        shown.page.on("console", lambda message: shown.messages.append(message.text))
        shown.page.on("pageerror", lambda error: shown.messages.append(str(error)))
        shown.page.on("request", lambda request: shown.requests.append(request.url))
        shown.page.goto(operators[name][1].as_uri() + suffix)
        shown.settle()
        return shown

    yield open_
    for shown in opened:
        assert shown.messages == []
        assert [url for url in shown.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    for context in contexts:
        context.close()


def drag(shown: Opened, selector: str, places: list[tuple[float, float]]) -> None:
    """The mouse along places of a canvas, as parts of its width and height."""
    box = shown.page.locator(selector).bounding_box()
    points = [(box["x"] + a * box["width"], box["y"] + b * box["height"]) for a, b in places]
    shown.page.mouse.move(*points[0])
    shown.page.mouse.down()
    for point in points[1:]:
        shown.page.mouse.move(*point)
    shown.page.mouse.up()
    shown.settle()


def compare(shown: Opened, operator: seponet.Operator, grid: dict[str, Any]) -> xr.DataArray | xr.Dataset:
    """All fields on the page are those of `predict` for the values that the page has at the sensors."""
    sensors = {e["name"]: e["shape"] for e in json.loads(shown.page.locator("#program").text_content())["inputs"]}
    values = {name: np.reshape(shown.ask(f"explorer.values('{name}')"), shape) for name, shape in sensors.items()}
    predicted = operator.predict(values, **grid)
    for name in operator.problem.fields:
        wanted = (predicted[name] if len(operator.problem.fields) > 1 else predicted).to_numpy()
        given = np.reshape(shown.ask(f"explorer.field('{name}')"), wanted.shape)
        np.testing.assert_allclose(given, wanted, rtol=0, atol=1e-5 * np.max(np.abs(wanted)))
    return predicted


def told_at(shown: Opened) -> dict[str, float]:
    """The read-out by name."""
    return {k: float(v) for k, v in (part.split(" = ") for part in shown.page.text_content("#readout").split(", "))}


def pointed_at(shown: Opened, a: float, b: float) -> dict[str, float]:
    """Coordinates under the pointer, which is moved to a place of the frame of the map; and the value that is told."""
    box = shown.page.locator("#solution-map").bounding_box()
    frame = shown.ask("view.mapPanel.box")
    at = box["x"] + frame["x"] + a * frame["width"], box["y"] + frame["y"] + b * frame["height"]
    shown.page.mouse.move(*at)
    shown.settle()
    return shown.ask(f"view.mapPanel.at({{clientX: {at[0]}, clientY: {at[1]}}})")


def test_a_mapped_domain_has_its_true_shape_which_moves_as_it_is_drawn(open_page: Any, operators: Any):
    shown, operator = open_page("star"), operators["star"][0]
    assert shown.page.text_content("#map-title") == "s(x, y)"
    before = np.array(shown.ask("explorer.field('place:x')"))
    drag(shown, "#canvas-R", [(0.3, 0.6), (0.4, 0.3), (0.5, 0.3)])
    predicted = compare(shown, operator, GRIDS["star"])
    assert np.max(np.abs(np.array(shown.ask("explorer.field('place:x')")) - before)) > 0.02
    for name in "xy":
        place = np.reshape(shown.ask(f"explorer.field('place:{name}')"), predicted.shape)
        np.testing.assert_allclose(place, predicted[name], atol=1e-5)
    # Lengths are as they are: a unit of x is as long on the screen as a unit of y.
    units = shown.ask("[view.mapPanel.toX(1) - view.mapPanel.toX(0), view.mapPanel.toY(0) - view.mapPanel.toY(1)]")
    assert units[0] == pytest.approx(units[1], rel=1e-2)


def test_the_read_out_on_a_mapped_domain_tells_the_point_under_the_pointer(open_page: Any, operators: Any):
    shown, operator = open_page("star"), operators["star"][0]
    at = pointed_at(shown, 0.55, 0.45)
    told = told_at(shown)
    assert list(told) == ["x", "y", "s"]
    # Half a cell of the grid is a tenth here.
    assert np.hypot(told["x"] - at["x"], told["y"] - at["y"]) < 0.12
    values = {n: np.reshape(shown.ask(f"explorer.values('{n}')"), s) for n, s in (("R", (8,)), ("f", (8, 8)))}
    there = operator.predict(values, points=True, x=[told["x"]], y=[told["y"]]).item()
    scale = np.max(np.abs(shown.ask("explorer.field('s')")))
    assert told["s"] == pytest.approx(there, abs=0.02 * scale)  # coordinates are told to three digits
    before = shown.page.text_content("#readout")
    pointed_at(shown, 0.01, 0.01)
    assert shown.page.text_content("#readout") == before  # there is nothing outside of the wall


def test_outside_of_the_wall_nothing_is_drawn(open_page: Any):
    shown = open_page("star")
    inside = """(() => { const { owners, pixels, image } = view.shape, half = (n) => Math.floor(n / 2);
        const middle = half(image.height) * image.width + half(image.width);
        const area = owners.filter((o) => o >= 0).length / owners.length;
        const agree = owners.every((o, k) => (o >= 0) === (pixels[k] > 0));
        return { middle: pixels[middle] > 0, corner: pixels[0], area, agree }; })()"""
    shown.ask(f"explorer.set('R', {[0.0] * 8})")
    found = shown.ask(inside)
    assert (found["middle"], found["corner"], found["agree"]) == (True, 0, True)
    x, y = shown.ask("[view.mapPanel.rangeX, view.mapPanel.rangeY]")
    polygon = 16 * np.sin(np.pi / 16)  # the unit circle by 32 chords
    assert found["area"] == pytest.approx(polygon / ((x[1] - x[0]) * (y[1] - y[0])), rel=0.01)


def test_a_wall_that_moves_in_time_and_one_that_crosses_the_floor(open_page: Any, operators: Any, tmp_path: Path):
    shown, operator = open_page("channel"), operators["channel"][0]
    predicted = compare(shown, operator, GRIDS["channel"])
    place = np.reshape(shown.ask("explorer.field('place:y')"), (3, 33, 5))
    np.testing.assert_allclose(place, predicted.y.transpose("t", "x", "q"), atol=1e-5)
    with shown.page.expect_download() as waiting:
        shown.page.click("#csv")
    waiting.value.save_as(tmp_path / "all.csv")
    table = np.genfromtxt(tmp_path / "all.csv", delimiter=",", names=True)
    assert table.dtype.names == ("t", "x", "q", "y", "s")
    np.testing.assert_allclose(table["y"], place.ravel(), atol=1e-6)
    shown.ask(f"explorer.set('h', {[-2.0, -2.0, -2.0, -2.0, 0.0, 0.0, 0.0, 0.0]})")
    shown.settle()
    assert "crosses itself" in shown.page.text_content("#warning")
    assert shown.page.text_content("#error") == ""
    shown.page.select_option("#preset", label="Typical")
    shown.settle()
    assert shown.page.is_hidden("#warning")


def test_a_drawn_curve_gives_what_predict_gives(open_page: Any, operators: Any):
    shown = open_page("burgers")
    before = np.array(shown.ask("explorer.values('u')"))
    drag(shown, "#canvas-u", [(0.3, 0.6), (0.4, 0.4), (0.5, 0.3), (0.6, 0.5)])
    after = np.array(shown.ask("explorer.values('u')"))
    assert np.max(np.abs(after - before)) > 0.05
    compare(shown, operators["burgers"][0], GRIDS["burgers"])
    shown.page.click("#undo")
    shown.settle()
    np.testing.assert_allclose(shown.ask("explorer.values('u')"), before)


def test_keys_change_the_curve_and_say_where(open_page: Any, operators: Any):
    shown = open_page("burgers")
    before = np.array(shown.ask("explorer.values('u')"))
    shown.page.focus("#canvas-u")
    for key in ("ArrowRight", "ArrowUp", "ArrowUp"):
        shown.page.keyboard.press(key)
    shown.settle()
    assert np.argmax(np.array(shown.ask("explorer.values('u')")) - before) == 9
    assert shown.page.get_attribute("#canvas-u", "aria-valuetext").startswith("x = 0.563, u = ")
    compare(shown, operators["burgers"][0], GRIDS["burgers"])


def test_the_colours_on_the_map_are_those_of_the_values(open_page: Any):
    """Where the input is largest, the lowest row of the map is reddest; and bluest where it is smallest."""
    shown = open_page("burgers")
    x = np.arange(16) / 16
    shown.ask(f"explorer.set('u', {np.sin(2 * np.pi * x).tolist()})")
    # One row of pixels, read once: further reads are what browsers warn of.
    read = """(() => { const c = document.getElementById("solution-map"), r = c.width / c.clientWidth;
        const left = 54 * r, right = c.width - 66 * r, y = c.height - (36 + 4) * r, wide = Math.round(right - left);
        const row = c.getContext("2d").getImageData(left, y, wide, 1).data;
        return [0.25, 0.75].map((p) => [...row.slice(4 * Math.round(p * wide), 4 * Math.round(p * wide) + 4)]); })()"""
    (high, low) = shown.ask(read)
    assert high[0] > high[2] + 40
    assert low[2] > low[0] + 40


def test_the_time_slider_and_the_read_out(open_page: Any):
    shown = open_page("burgers")
    shown.page.locator("#time").fill("2")
    shown.settle()
    assert shown.page.text_content("#time-value") == "0.5"
    assert "s at t = 0.5" in shown.page.text_content("#line-title")
    shown.page.focus("#solution-map")
    shown.page.keyboard.press("ArrowRight")
    shown.settle()
    values = np.array(shown.ask("explorer.field('s')")).reshape(5, 33)
    told = shown.page.text_content("#readout")
    assert told.startswith("x = 0.0313, t = 0, s = ")
    assert float(told.rpartition("= ")[2]) == pytest.approx(values[0, 1], rel=1e-3)
    shown.page.click("#play")
    shown.page.wait_for_timeout(700)
    assert shown.page.get_attribute("#play", "aria-pressed") == "true"
    shown.page.click("#play")


def test_a_formula_is_set_as_people_print_it(open_page: Any):
    shown = open_page("burgers")
    set_ = "(() => { const p = document.createElement('p'); p.append(...typeset(TEXT)); return p.innerHTML; })()"
    assert shown.ask(set_.replace("TEXT", "'s_t - nu s_xx + u ^ 2 - null = lam'")) == (
        "s<sub>t</sub> − ν s<sub>xx</sub> + u<sup>2</sup> − null = λ"
    )
    assert "_" not in shown.page.text_content("#equation")


def test_a_space_is_cut_in_its_middle_and_a_history_begins_at_its_end(open_page: Any):
    shown = open_page("plate")
    assert shown.page.text_content("#line-title").endswith("at y = 0.5")
    assert shown.page.text_content("#map-title").endswith("(x, y)")
    shown = open_page("burgers")
    assert shown.page.text_content("#line-title") == "s at t = 1 (dashed: t = 0)"
    assert open_page("plane").page.text_content("#map-title") == "s at t = 1"


def test_the_page_reads_the_numbers_that_python_packed(open_page: Any):
    shown, matrices = open_page("pendulum"), np.random.default_rng(0).normal(size=(2, 64, 64))
    program = trace(lambda v: {"s": v["u"] @ matrices[0] + 1.5, "error": v["u"] @ matrices[1]}, {"u": (64,)})
    packed = pack(program.described({"quantities": ["s"]}))
    assert sorted(bits for _, _, bits in packed.ranges) == [5, 16]
    given = [packed.ranges, list(packed.exact), list(packed.rounded)]
    script = "([r, a, b]) => [...unpackNumbers(r, Uint8Array.from(a), Uint8Array.from(b))]"
    np.testing.assert_array_equal(np.float32(shown.page.evaluate(script, given)), unpack(packed))


def test_unusual_inputs_are_warned_of_and_pulled_back(open_page: Any):
    shown = open_page("burgers")
    assert shown.page.is_hidden("#warning")
    assert "not calibrated" in shown.page.text_content("#error")
    shown.ask(f"explorer.set('u', {[5.0, -5.0] * 8})")
    shown.settle()
    assert "outside of what the operator was trained on" in shown.page.text_content("#warning")
    shown.page.click("#warning button")
    shown.settle()
    assert shown.page.is_hidden("#warning")


def test_inputs_beyond_all_numbers_are_told_in_words(open_page: Any):
    """Neither NaN nor Infinity is shown to a reader; and the way back is there."""
    shown = open_page("burgers")
    for values in ("1e6", "1e38", "NaN"):
        shown.ask(f"explorer.set('u', explorer.values('u').map(() => {values}))")
        shown.settle()
        told = shown.page.text_content("#warning") + shown.page.text_content("#error")
        assert shown.page.is_visible("#warning")
        assert not re.search(r"NaN|Infinity|\de\+?\d", told), told
    assert "no finite solution" in told


def test_several_fields_presets_and_downloads(open_page: Any, operators: Any, tmp_path: Path):
    shown = open_page("brusselator")
    compare(shown, operators["brusselator"][0], GRIDS["brusselator"])
    shown.page.select_option("#quantity", "q")
    shown.page.select_option("#preset", label="Strong")
    shown.settle()
    compare(shown, operators["brusselator"][0], GRIDS["brusselator"])
    with shown.page.expect_download() as waiting:
        shown.page.click("#csv")
    waiting.value.save_as(tmp_path / "all.csv")
    table = np.genfromtxt(tmp_path / "all.csv", delimiter=",", names=True)
    assert table.dtype.names == ("t", "x", "p", "q")
    np.testing.assert_allclose(table["q"], shown.ask("explorer.field('q')"), rtol=1e-6)
    with shown.page.expect_download() as waiting:
        shown.page.click("#png")
    waiting.value.save_as(tmp_path / "all.png")
    assert (tmp_path / "all.png").read_bytes()[:4] == b"\x89PNG"


def test_a_number_has_a_slider(open_page: Any, operators: Any):
    shown = open_page("pendulum")
    shown.page.locator("#slider-a-0").fill("250")
    shown.settle()
    np.testing.assert_allclose(shown.ask("explorer.values('a')"), [0.1 + 0.25 * 1.9], rtol=1e-6)
    compare(shown, operators["pendulum"][0], GRIDS["pendulum"])


def test_bumps_are_added_dragged_and_removed(open_page: Any, operators: Any):
    shown = open_page("plane")
    before = np.array(shown.ask("explorer.values('u')"))
    drag(shown, "#canvas-u", [(0.4, 0.4), (0.5, 0.5)])
    dragged = np.array(shown.ask("explorer.values('u')"))
    assert np.max(dragged - before) > 0.05
    compare(shown, operators["plane"][0], GRIDS["plane"])
    shown.page.keyboard.press("Delete")
    shown.settle()
    np.testing.assert_allclose(shown.ask("explorer.values('u')"), before, atol=1e-6)
    shown.page.select_option("#inputs select", "paint")
    drag(shown, "#canvas-u", [(0.4, 0.4), (0.5, 0.5)])
    assert np.max(np.array(shown.ask("explorer.values('u')")) - before) > 0.01


def test_a_link_shows_what_its_sender_saw(open_page: Any):
    shown = open_page("burgers", color_scheme="dark")
    assert shown.ask("explorer.state()")["theme"] == "dark"
    shown.page.click("#theme")
    shown.page.locator("#time").fill("3")
    drag(shown, "#canvas-u", [(0.3, 0.6), (0.5, 0.3)])
    shown.page.wait_for_timeout(500)
    link, values = shown.ask("location.hash"), np.array(shown.ask("explorer.values('u')"))
    other = open_page("burgers", suffix=link)
    np.testing.assert_allclose(other.ask("explorer.values('u')"), values, atol=1e-4 * np.max(np.abs(values)))
    assert other.ask("explorer.state()") == {"time": 3, "quantity": "s", "theme": "light"}
    broken = open_page("burgers", suffix="#u.u=nonsense&t=-5&q=z")
    assert np.all(np.isfinite(broken.ask("explorer.field('s')")))


def test_a_phone_is_wide_enough_and_a_finger_draws(open_page: Any):
    shown = open_page("burgers", width=360, height=740, has_touch=True, is_mobile=True)
    assert shown.ask("document.documentElement.scrollWidth") <= 360
    before = np.array(shown.ask("explorer.values('u')"))
    box = shown.page.locator("#canvas-u").bounding_box()
    shown.page.touchscreen.tap(box["x"] + 0.6 * box["width"], box["y"] + 0.2 * box["height"])
    shown.settle()
    assert np.max(np.abs(np.array(shown.ask("explorer.values('u')")) - before)) > 0.01


def test_everything_that_can_be_used_has_a_name(open_page: Any):
    for name in ("burgers", "plane", "pendulum", "brusselator"):
        shown = open_page(name)
        nameless = shown.ask(
            """[...document.querySelectorAll("button, input, select, canvas")].filter((e) => !e.closest("[hidden]") &&
            !(e.textContent.trim() || e.getAttribute("aria-label") || e.labels?.length)).map((e) => e.outerHTML)"""
        )
        assert nameless == []


def test_a_gallery_links_its_pages(browser: Any, operators: Any, tmp_path: Path):
    index = write_gallery({"runs/pendulum": operators["pendulum"][0]}, tmp_path / "gallery")
    page = browser.new_page()
    page.goto(index.as_uri())
    assert page.get_attribute("img", "alt") == "An input and its solution: Pendulum"
    assert page.evaluate("document.querySelector('img').naturalWidth") > 100
    page.click("text=Pendulum")
    page.wait_for_function("window.explorer")
    assert page.url.partition("#")[0].endswith("gallery/pendulum.html")
    page.close()
    with pytest.raises(ValueError, match="every page needs a name of its own"):
        write_gallery({"a/x": operators["pendulum"][0], "b/x": operators["pendulum"][0]}, tmp_path / "other")
