"""What a folder that somebody sent may do: nothing but be read."""

import io
import json
import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import seponet
from seponet import nn
from seponet.cli import main
from seponet.operator.class_address import import_file
from seponet.operator.description import count_parameters
from seponet.operator.operator import Operator
from seponet.operator.saving import read_description
from seponet.operator.trust import UntrustedCode
from seponet.problems import Heat
from seponet.runs.config import RunConfig

SMALL: dict[str, Any] = {
    "rank": 3,
    "trunk_width": 4,
    "trunk_depth": 1,
    "branch_width": 4,
    "branch_depth": 1,
    "sensors": 8,
}

EVIL = """
    from pathlib import Path
    Path({proof!r}).write_text("it ran")
    from seponet.problems import Heat

    class Mine(Heat):
        pass
"""


def small(problem: seponet.Problem) -> Operator:
    return Operator(nn.build(problem, key=jax.random.key(0), **SMALL))


@pytest.fixture
def sent(tmp_path, monkeypatch) -> tuple[Path, Path, Path]:
    """A run folder that names a file, as its receiver finds it; the file; and the proof that the file was run."""
    file, proof, run = tmp_path / "evil.py", tmp_path / "proof", tmp_path / "run"
    file.write_text(textwrap.dedent(EVIL).format(proof=str(proof)))
    problem = import_file(file).Mine()
    small(problem).save(run / "operator")
    (run / "config.toml").write_text(RunConfig.make(problem).to_toml())
    del sys.modules[type(problem).__module__]
    proof.unlink()
    monkeypatch.setenv("SEPONET_CONFIG", str(tmp_path / "receiver"))
    return run, file, proof


def test_a_folder_that_somebody_sent_runs_nothing(sent, capsys):
    run, file, proof = sent
    with pytest.raises(UntrustedCode, match=r"the class Mine is code in .*evil.py \(sha256 [0-9a-f]{64}\).*trust=True"):
        seponet.load(run)
    inputs = ["--input", "1", "--output", str(run.parent / "s.nc")]
    for command in (
        ["evaluate", str(run)],
        ["plot", str(run)],
        ["predict", str(run), *inputs],
        ["solve", str(run), *inputs],
        ["export", str(run), str(run.parent / "s.npz")],
        ["explore", str(run), "--no-open"],
        ["train", "--config", str(run / "config.toml"), "--out", str(run.parent / "new")],
        ["train", "--resume", "--out", str(run)],
    ):
        assert main(command) == 1
        said = capsys.readouterr().err
        assert "--trust" in said
        assert str(file) in said
    assert main(["info", str(run)]) == 0
    assert "Mine" in capsys.readouterr().out
    assert not proof.exists()


def test_code_runs_when_it_is_trusted_passed_or_the_users_own(sent):
    run, file, proof = sent

    class Mine(Heat):
        pass

    with pytest.warns(UserWarning, match="has changed since"):
        assert type(seponet.load(run, problem=Mine).problem) is Mine
    assert not proof.exists()
    loaded = seponet.load(run, trust=True)
    assert proof.exists()
    # Defined in this process by now: nothing more is run.
    proof.unlink()
    assert type(seponet.load(run).problem) is type(loaded.problem)
    # Saved by this user: remembered, as long as the file stays as it is.
    loaded.save(run.parent / "mine")
    del sys.modules[type(loaded.problem).__module__]
    assert type(seponet.load(run).problem).__name__ == "Mine"
    assert proof.exists()
    proof.unlink()
    del sys.modules[type(loaded.problem).__module__]
    file.write_text(file.read_text() + "\nMore = 1\n")
    with pytest.raises(UntrustedCode, match="has changed since you trained with it"):
        seponet.load(run)
    assert not proof.exists()


def test_a_list_that_others_may_write_is_not_believed(sent, caplog):
    run, _, proof = sent
    loaded = seponet.load(run, trust=True)
    loaded.save(run.parent / "mine")
    listed = Path(os.environ["SEPONET_CONFIG"]) / "trusted.json"
    assert listed.stat().st_mode & 0o777 == 0o600
    listed.chmod(0o666)
    proof.unlink()
    del sys.modules[type(loaded.problem).__module__]
    with pytest.raises(UntrustedCode):
        seponet.load(run)
    assert "writable by others" in caplog.text
    assert not proof.exists()


def described(folder: Path) -> dict:
    """A description without digests, as the format before had it: those who forge one can compute digests anyway."""
    content = json.loads((folder / "operator.json").read_text()) | {"format": 2}
    return {key: value for key, value in content.items() if key not in ("digest", "digests")}


def test_modules_are_not_imported_and_classes_of_other_libraries_are_no_part_of_a_model(tmp_path):
    small(Heat()).save(tmp_path / "run")
    content = described(tmp_path / "run")
    for address in (
        {"name": "Anything", "module": "this"},
        {"name": "Popen", "module": "subprocess"},
        {"name": "CompletedProcess", "module": "subprocess", "file": subprocess.__file__},
    ):
        content["model"]["fields"]["problem"] = {"problem": address, "fields": {}}
        (tmp_path / "run" / "operator.json").write_text(json.dumps(content))
        with pytest.raises(UntrustedCode, match=r"trust=True"):
            seponet.load(tmp_path / "run")
    assert "this" not in sys.modules
    for address in ({"name": 3}, {"nom": "x"}, {}, [1], {"name": ""}):
        content["model"]["fields"]["problem"] = {"problem": address, "fields": {}}
        (tmp_path / "run" / "operator.json").write_text(json.dumps(content))
        with pytest.raises(ValueError, match="a class is described"):
            seponet.load(tmp_path / "run")


def archive(*entries: tuple[str, bytes], compressed: bool = False) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as file:
        for name, data in entries:
            file.writestr(name, data)
    return stream.getvalue()


def test_arrays_are_a_regular_file_beside_the_description_of_the_size_that_it_says(tmp_path):
    path = tmp_path / "run"
    small(Heat()).save(path)
    content, whole = described(path), (path / "arrays.npz").read_bytes()
    for name in ("/dev/zero", "../../../etc/passwd", "arrays-3.npz", "sub/arrays.npz", 7, None):
        (path / "operator.json").write_text(json.dumps(content | {"arrays": name}))
        with pytest.raises(ValueError, match=r"instead of arrays.npz or arrays-2.npz"):
            seponet.load(path)
    (path / "operator.json").write_text(json.dumps(content))
    (path / "arrays.npz").unlink()
    os.mkfifo(path / "arrays.npz")
    with pytest.raises(ValueError, match="not a regular file"):
        seponet.load(path)
    (path / "arrays.npz").unlink()
    (path / "arrays.npz").symlink_to("/dev/zero")
    with pytest.raises(ValueError, match="not a regular file"):
        seponet.load(path)
    (path / "arrays.npz").unlink()
    # 30 MB in 30 kB, and twice as many bytes as are described.
    for forged in (archive(("0.npy", b"\0" * 30_000_000), compressed=True), whole + b"\0" * 2**22):
        (path / "arrays.npz").write_bytes(forged)
        with pytest.raises(ValueError, match=r"do not belong to|is damaged"):
            seponet.load(path)
    # Consistent, but compressed: what is declared is then not bounded by the file.
    with np.load(io.BytesIO(whole)) as stored:
        np.savez_compressed(path / "arrays.npz", **{name: stored[name] for name in stored.files})
    with pytest.raises(ValueError, match="is compressed"):
        seponet.load(path)
    (path / "arrays.npz").write_bytes(whole)
    seponet.load(path)


def test_pipes_in_the_place_of_other_files_are_refused_too(tmp_path, capsys):
    path = tmp_path / "run"
    small(Heat()).save(path / "operator")
    (path / "config.toml").write_text(RunConfig.make("heat").to_toml())
    for name in ("config.toml", "report.json", "metrics.jsonl", "operator/operator.json"):
        kept = (path / name).read_bytes() if (path / name).exists() else None
        (path / name).unlink(missing_ok=True)
        os.mkfifo(path / name)
        assert main(["info", str(path)]) == 1
        assert "not a regular file" in capsys.readouterr().err
        (path / name).unlink()
        if kept is not None:
            (path / name).write_bytes(kept)


def test_parameters_are_counted_without_the_model(tmp_path):
    from seponet.nn.fixed import trainable

    operator = small(Heat())
    operator.save(tmp_path / "run")
    counted = jax.tree.map(lambda leaf, kept: leaf.size if kept else 0, operator.model, trainable(operator.model))
    assert count_parameters(read_description(tmp_path / "run").model) == sum(jax.tree.leaves(counted))
