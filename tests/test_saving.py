"""Operators on disk: nothing lost, nothing pickled, nothing half written, and one sentence for what can't be read."""

import dataclasses
import importlib
import itertools
import json
import linecache
import os
import pkgutil
import shutil
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import seponet
from seponet import Problem, nn
from seponet.nn.coefficient_maps import Whitening
from seponet.operator.class_address import ClassAddress, import_file
from seponet.operator.format1 import NAMES
from seponet.operator.operator import Operator
from seponet.operator.registry import CLASSES, registered_class, registered_name
from seponet.operator.saving import describe, restore
from seponet.operator.trust import Trust

KEY = jax.random.key(0)
SMALL: dict[str, Any] = {
    "rank": 3,
    "trunk_width": 4,
    "trunk_depth": 1,
    "branch_width": 4,
    "branch_depth": 1,
    "sensors": 8,
}

SCRIPT = """
    from seponet import Domain, Periodic, Problem, Value
    from seponet.functions import SpectralField

    class Mine(Problem):
        nu: float = 0.1
        name: str = "mine"
        domain = Domain(t=(0, 1), x=Periodic(0, 1))
        inputs = {"u": SpectralField(domain["x"], sigma=10.0, tau=3.0, gamma=3.0)}
        conditions = [Value({"t": 0}, equals="u")]

        def equation(self, s_t, s_xx):
            return s_t - self.nu * s_xx
"""


def make(problem: Problem, **changes) -> Operator:
    return Operator(nn.build(problem, key=KEY, **(SMALL | changes)))


def leaves(operator: Operator) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(operator.model, eqx.is_array))]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Operator, Path]:
    operator = make(zoo.KdV(delta=0.3), exact="all", decoder="tucker", trunk="classical", encoder="pca", components=3)
    size = operator.model.size
    whitening = Whitening(nn.Fixed(jnp.linspace(1, 2, size)), 0.1)
    operator = Operator(eqx.tree_at(lambda m: m.whitening, operator.model, whitening, is_leaf=lambda x: x is None))
    path = tmp_path_factory.mktemp("saved") / "kdv"
    operator.save(path)
    return operator, path


def test_what_is_loaded_predicts_the_same_bits(saved):
    operator, path = saved
    loaded = Operator.load(path)
    assert loaded.problem == operator.problem
    assert jax.tree.structure(loaded.model) == jax.tree.structure(operator.model)
    places: dict[str, Any] = {"t": np.linspace(0, 0.5, 3), "x": np.linspace(-1, 1, 5)}
    u = np.sin(np.pi * np.arange(8) / 4)
    np.testing.assert_array_equal(loaded.predict(u, **places), operator.predict(u, **places))
    assert sorted(p.name for p in path.iterdir()) == ["arrays.npz", "operator.json"]
    assert sorted(p.name for p in path.parent.iterdir()) == ["kdv"]


@pytest.mark.parametrize(
    ("problem", "changes"),
    [
        (zoo.Poisson(), {"exact": "all", "trunk": "modified_mlp", "trunk_depth": 2, "branch": "cnn", "sensors": 16}),
        (zoo.Brusselator(), {"kind": "deeponet", "encoder": "standardise"}),
        (zoo.KdV(), {"exact": "all", "trunk": {"t": "mlp", "x": "fourier"}, "skip": True}),
        (zoo.Plate(), {"decoder": "tucker", "rank": {"x": 2, "y": 3}}),
    ],
    ids=["cnn", "deeponet", "mixed", "no input"],
)
def test_every_kind_of_model_comes_back(tmp_path, problem, changes):
    operator = make(problem, **changes)
    operator.save(tmp_path / "run" / "operator")
    loaded = Operator.load(tmp_path / "run")
    assert jax.tree.structure(loaded.model) == jax.tree.structure(operator.model)
    for before, after in zip(leaves(operator), leaves(loaded), strict=True):
        np.testing.assert_array_equal(before, after)
        assert before.dtype == after.dtype


def test_a_script_is_found_again_by_a_new_process(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(textwrap.dedent(SCRIPT))
    operator = make(import_file(script).Mine(nu=0.25), exact="all")
    operator.save(tmp_path / "run")
    u = np.cos(2 * np.pi * np.arange(8) / 8)
    expected = operator.predict(u, t=0.5, x=0.25).to_numpy()
    code = f"""
        import jax; jax.config.update("jax_enable_x64", True)
        import numpy as np
        import seponet
        operator = seponet.load({str(tmp_path / "run")!r})
        predicted = operator.predict(np.cos(2 * np.pi * np.arange(8) / 8), t=0.5, x=0.25)
        print(repr(operator.problem), repr(float(predicted)))
    """
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(root)},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    problem, predicted = done.stdout.strip().rsplit(" ", 1)
    assert problem == "Mine(nu=0.25, name='mine')"
    # Two processes may share their sums among different numbers of threads.
    assert float(predicted) == pytest.approx(float(expected), rel=1e-13, abs=1e-14)


def _fresh(script: Path) -> None:
    for name in [n for n in sys.modules if n.endswith(str(script))]:
        del sys.modules[name]
    linecache.clearcache()


def test_a_changed_script_is_noticed(tmp_path):
    script = tmp_path / "mine.py"
    text = textwrap.dedent(SCRIPT)
    script.write_text(text)
    make(import_file(script).Mine(), exact="all").save(tmp_path / "run")
    changed = {
        text.replace("s_t - self", "s_t + self"): (UserWarning, "has changed since it was saved"),
        text.replace("    nu: float", "    mu: float").replace("self.nu", "self.mu"): (ValueError, "Mine has mu, name"),
        text.replace("class Mine", "class Yours"): (ValueError, "no class Mine in .*mine.py any more"),
        text + "\n1 / 0\n": (ValueError, "importing .*mine.py failed with ZeroDivisionError"),
    }
    for content, (kind, message) in changed.items():
        script.write_text(content)
        _fresh(script)
        if kind is UserWarning:
            with pytest.warns(UserWarning, match=message):
                Operator.load(tmp_path / "run", trust=True)
        else:
            with warnings.catch_warnings(action="ignore"), pytest.raises(ValueError, match=message):
                Operator.load(tmp_path / "run", trust=True)
    script.unlink()
    _fresh(script)
    with pytest.raises(ValueError, match=r"Mine was defined in .*mine.py, which is not there any more"):
        Operator.load(tmp_path / "run", trust=True)


def test_classes_nobody_could_find_are_refused_when_saving(tmp_path):
    class Local(zoo.KdV):
        pass

    with pytest.raises(ValueError, match="defined inside a function"):
        make(Local()).save(tmp_path / "run")
    namespace = {"__name__": "console"}
    exec("from zoo import KdV\nclass Typed(KdV):\n    pass", namespace)
    with pytest.raises(ValueError, match="Typed has no source file"):
        ClassAddress.of(namespace["Typed"])  # pyright: ignore[reportArgumentType]
    strange = eqx.tree_at(lambda m: m.branch, make(zoo.KdV()).model, replace=jnp.tanh)
    with pytest.raises(ValueError, match=r"model\.branch is a .* which can't be saved"):
        Operator(strange).save(tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_nothing_that_is_saved_names_a_module_of_the_package(saved):
    _, path = saved
    content = json.loads((path / "operator.json").read_text())
    assert content.pop("seponet") == seponet.__version__
    assert "seponet." not in json.dumps(content)
    assert content["model"]["object"] == "model/seponet"


def _classes() -> list[type]:
    """All classes of the rooms that models are made of."""
    rooms = ("domain", "derivatives", "bases", "functions", "equations", "calculus", "nn", "problems")
    names = [m.name for m in pkgutil.walk_packages(seponet.__path__, "seponet.") if m.name.split(".")[1] in rooms]
    modules = [importlib.import_module(name) for name in names]
    return [v for m in modules for v in vars(m).values() if isinstance(v, type) and v.__module__ == m.__name__]


# What is computed from a model and its inputs, or is there before a model is, and lives as long as a call.
NOT_SAVED = {
    "bases": {"Combined", "Basis", "_Polynomial", "_Trigonometric", "FourierGrid"},
    "functions": {"Functions", "Resolution", "FittedNormal"},
    "equations": {"Problem", "Derived", "Residual", "Expression", "Symbol", "Vocabulary", "Face", "Term"}
    | {"LinearCondition", "LinearParts", "_Affine", "Normal", "BoxOperator", "Statement", "Evolution"},
    "calculus": {"SeparableValues", "JointValues", "PotentialValues", "Collocation"}
    | {"FixedCoefficients", "Piece", "TermData", "Disagreement", "Kink", "Undefined"},
    "nn": {"Activation", "ModelConfig", "RepeatedValues", "OperatorNetwork"},
    "problems": {"Figure"},
}


def test_every_class_that_a_model_is_made_of_has_one_name():
    homes = list(CLASSES.values())
    assert len(set(homes)) == len(homes)
    registered = {registered_class(name) for name in CLASSES}
    assert len(registered) == len(CLASSES)
    assert {registered_name(cls) for cls in registered} == set(CLASSES)
    for cls in _classes():
        room = cls.__module__.split(".")[1]
        if dataclasses.is_dataclass(cls) and not cls.__name__.startswith("Abstract"):
            assert (cls in registered) != (cls.__name__ in NOT_SAVED.get(room, ())), (
                f"{cls.__module__}:{cls.__qualname__} can be saved with a model: name it in operator/registry.py; "
                "or it can't: name it in NOT_SAVED"
            )
    everything = {(cls.__module__.split(".")[1], cls.__name__) for cls in _classes()}
    assert {(room, name) for room, names in NOT_SAVED.items() for name in names} <= everything


def test_every_name_of_the_first_format_is_one_of_today():
    assert set(NAMES.values()) <= set(CLASSES)
    assert len(set(NAMES.values())) == len(NAMES)


def test_what_is_no_part_of_a_model_has_no_name():
    with pytest.raises(ValueError, match=r"ModelConfig of seponet\.nn\.config is not part of a model"):
        registered_name(nn.ModelConfig)


def test_fields_that_are_newer_than_a_file_have_their_defaults(saved, tmp_path):
    """Two fields of models, one of an optional module and one of a problem, as if the file were older than they are."""
    _, path = saved
    shutil.copytree(path, tmp_path / "old")
    description = tmp_path / "old" / "operator.json"
    # A file without digests: one that has them is what it was.
    content = json.loads(description.read_text()) | {"format": 2}
    del content["digest"], content["digests"]
    fields = content["model"]["fields"]
    del fields["potentials"], fields["translation"], fields["whitening"]["fields"]["amplitude"]
    del fields["problem"]["fields"]["delta"]
    description.write_text(json.dumps(content))
    model: Any = Operator.load(tmp_path / "old").model
    assert model.problem == zoo.KdV()
    assert model.potentials is None
    assert model.translation is None
    assert model.whitening.amplitude == 1.0
    for changed, given in ((fields, "trunks"), (fields["branch"]["fields"], "body")):
        without = changed.pop(given)
        description.write_text(json.dumps(content))
        with pytest.raises(ValueError, match="has changed since, so load it with the code that trained it"):
            Operator.load(tmp_path / "old")
        changed[given] = without
    fields["depth"] = 3
    description.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"SepONet has branch, .* and was saved with branch, decoder, depth"):
        Operator.load(tmp_path / "old")


@dataclasses.dataclass(frozen=True)
class Remark:
    text: str = "none"
    tags: list[str] = dataclasses.field(default_factory=list)


def test_a_default_that_is_made_is_made_anew():
    description = describe(Remark("new", ["a"]), [], "remark")
    del description["fields"]["tags"]
    trust = Trust(everything=True)
    first, second = restore(description, [], trust), restore(description, [], trust)
    assert first == Remark("new", [])
    assert first.tags is not second.tags


def test_nothing_is_overwritten_by_accident(saved, tmp_path):
    operator, _ = saved
    path = tmp_path / "run"
    operator.save(path)
    with pytest.raises(ValueError, match="exists already"):
        operator.save(path)
    make(zoo.Plate()).save(path, overwrite=True)
    assert type(Operator.load(path).problem) is zoo.Plate
    (path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="holds other things"):
        operator.save(path, overwrite=True)
    assert (path / "notes.txt").read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run"]


def test_an_interrupted_save_leaves_what_was_there(saved, tmp_path, monkeypatch):
    operator, _ = saved
    path = tmp_path / "run"
    operator.save(path)

    def fail(*_args, **_kwargs):
        raise KeyboardInterrupt

    for module, name in [(np, "savez"), (json, "dumps"), (os, "fsync"), (Path, "replace")]:
        with monkeypatch.context() as patch:
            patch.setattr(module, name, fail)
            with pytest.raises(KeyboardInterrupt):
                make(zoo.Plate()).save(path, overwrite=True)
        assert type(Operator.load(path).problem) is zoo.KdV
    make(zoo.Plate()).save(path, overwrite=True)
    assert type(Operator.load(path).problem) is zoo.Plate
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    assert len(list(path.iterdir())) == 2


def test_a_kill_at_any_time_leaves_the_old_operator_or_the_new_one(saved, tmp_path, monkeypatch):
    """What a process that dies without any clean-up would leave: copies around each step that changes the folder."""
    operator, _ = saved
    path = tmp_path / "run"
    operator.save(path)
    copies: list[Path] = []

    def observed(act):
        def step(*arguments, **options):
            copies.append(tmp_path / str(len(copies)))
            shutil.copytree(path, copies[-1])
            return act(*arguments, **options)

        return step

    with monkeypatch.context() as patch:
        for name in ("replace", "unlink"):
            patch.setattr(Path, name, observed(getattr(Path, name)))
        make(zoo.Plate()).save(path, overwrite=True)
        operator.save(path, overwrite=True)
    kinds = [type(Operator.load(copy).problem) for copy in copies]
    changes = [b for a, b in itertools.pairwise([*kinds, zoo.KdV]) if a is not b]
    assert changes == [zoo.Plate, zoo.KdV]
    for copy in copies:
        make(zoo.Plate()).save(copy, overwrite=True)
        assert type(Operator.load(copy).problem) is zoo.Plate


def test_damaged_files_are_one_sentence(saved, tmp_path):
    operator, _ = saved
    path = tmp_path / "run"
    operator.save(path)
    description, arrays = path / "operator.json", path / "arrays.npz"
    text, content = description.read_text(), arrays.read_bytes()

    def load(message: str) -> None:
        with pytest.raises(ValueError, match=message):
            Operator.load(path)

    for part in (0, 10, len(content) // 2, len(content) - 1):
        arrays.write_bytes(content[:part])
        load("arrays.npz is damaged")
    middle = len(content) // 2
    arrays.write_bytes(content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :])
    load("arrays.npz is damaged")
    arrays.unlink()
    load("arrays.npz is missing")
    np.savez(arrays, **{"0": np.zeros(3)})  # pyright: ignore[reportArgumentType]
    load("do not belong to operator.json")
    arrays.write_bytes(content)
    description.write_text(text[: len(text) // 2])
    load("operator.json is damaged")
    description.write_text(json.dumps(json.loads(text) | {"format": 99}))
    load("has format 99, written by seponet .*, and this version reads the formats 1, 2, 3;")
    description.write_text(text.replace('"decoder/tucker"', '"decoder/train"'))
    load("its digest is that of another description")
    # Without digests, as the format before had it.
    old = json.loads(text) | {"format": 2}
    del old["digest"], old["digests"]
    earlier = json.dumps(old)
    description.write_text(earlier.replace('"decoder/tucker"', '"decoder/train"'))
    load("knows nothing called 'decoder/train'; it was saved by a newer one")
    description.write_text(earlier.replace('"tuple"', '"set"'))
    load("damaged: it has an entry 'set'")
    description.unlink()
    load("no saved operator in .*run: operator.json is missing")


def test_precision_is_kept(saved, tmp_path):
    operator, path = saved
    single = jax.tree.map(lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x, operator.model)
    Operator(single).save(tmp_path / "single")
    assert {leaf.dtype for leaf in leaves(Operator.load(tmp_path / "single"))} == {np.dtype(np.float32)}
    u, places = np.sin(np.pi * np.arange(8) / 4), {"t": 0.3, "x": np.linspace(-1, 1, 5)}
    expected = operator.predict(u, **places)
    with jax.enable_x64(False):
        loaded = Operator.load(path)
        made = loaded.predict(u, **places)
        traced = jax.jit(lambda u: loaded.evaluate(u, **places))(u)
        assert loaded.residual(u)["equation"].dtype == np.float64
    np.testing.assert_array_equal(made, expected)
    assert traced.dtype == np.float32
    np.testing.assert_allclose(traced, expected, atol=1e-5)
