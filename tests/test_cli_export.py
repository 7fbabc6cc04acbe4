"""`seponet export` and `seponet explore`."""

from pathlib import Path

import pytest

from seponet import frozen
from seponet.cli import main

GOLDEN = Path(__file__).parent / "data" / "format2" / "tucker_translation"


def test_export_writes_a_file_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "burgers.npz"
    assert main(["export", str(GOLDEN), str(out), "--grid", "t=3,x=4"]) == 0
    assert [p.size for p in frozen.load(out).coordinates.values()] == [3, 4]
    assert main(["export", str(GOLDEN), str(out)]) == 1
    assert "exists already" in capsys.readouterr().err


def test_explore_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["explore", str(GOLDEN), str(GOLDEN), "--no-open"]) == 1
    assert "needs a folder: --out DIR" in capsys.readouterr().err
    assert main(["explore", "burgars", "--no-open"]) == 1
    assert "there is no problem 'burgars'" in capsys.readouterr().err
    assert main(["explore", str(GOLDEN), "--no-open", "--out", str(tmp_path / "page.pdf")]) == 1
    assert "must end in .html" in capsys.readouterr().err
