"""The code that a newcomer copies from the README runs as it stands, in fewer steps."""

import os
import re
from pathlib import Path

import pytest

import seponet

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[-1][:40])
def test_code_runs(block, tmp_path, monkeypatch):
    train = seponet.train
    few = {"train.steps": 3, "train.functions": 4, "model.branch_width": 8, "model.branch_depth": 1}

    def quickly(problem, recipe):
        return train(problem, recipe, quiet=True, set=few)

    monkeypatch.setattr(seponet, "train", quickly, raising=False)
    monkeypatch.setenv("SEPONET_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    exec(compile(block, str(README), "exec"), {"__name__": "readme"})


def test_the_readme_says_what_the_results_say():
    import subprocess
    import sys

    script = README.parent / "benchmarks" / "render.py"
    checked = subprocess.run(
        [sys.executable, str(script), "--check"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(README.parent)},
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
