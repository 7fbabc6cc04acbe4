"""A sample of the campaign that `make fuzz` runs whole: nothing is wrong, and enough is refused."""

import random
import time

import pytest
from fuzz import calls, flips, kills
from fuzz.table import Tally, show


def check(tally: Tally, least: int) -> None:
    assert not tally.wrong, show([tally])
    assert tally.refused >= least, show([tally])


@pytest.fixture
def numbers() -> random.Random:
    return random.Random(1)


def test_wrong_flags_and_settings(numbers):
    check(calls.call_flags(numbers, 60), 20)
    check(calls.call_settings(numbers, 200), 100)


def test_wrong_arguments(numbers):
    check(calls.call_operator(numbers, 12), 6)
    check(calls.call_methods(numbers, 60), 60)


@pytest.mark.filterwarnings("ignore")
def test_flipped_bits(tmp_path, monkeypatch, numbers):
    monkeypatch.setenv("SEPONET_CACHE", str(tmp_path / "cache"))
    check(flips.flip_operators(tmp_path, numbers, 30), 15)
    check(flips.flip_checkpoints(tmp_path, numbers, 40), 20)
    check(flips.flip_testsets(tmp_path / "cache" / "testsets", numbers, 15), 1)


def test_a_kill_and_what_commands_say_of_a_run(tmp_path, monkeypatch, numbers):
    monkeypatch.setenv("SEPONET_CONFIG", str(tmp_path / "config"))
    tally = kills.kill_runs(tmp_path, numbers, 1, time.monotonic() + 600)
    check(tally, 0)
    assert tally.harmless == 1
    run = tmp_path / "whole"
    check(flips.flip_runs(run, tmp_path, numbers, 40), 10)
    check(calls.call_commands(run, tmp_path, numbers, 12), 4)
