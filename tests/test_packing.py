"""The numbers of a page: rounded as far as what it shows allows, and read back alike by Python and JavaScript."""

import base64
import json
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from frozen_runtimes import NODE, run_numpy

from seponet.export.html import render_page
from seponet.export.packing import BLOCK, Packed, pack, unpack
from seponet.export.program import Program
from seponet.export.trace import trace

SENSORS, WIDE = 24, 400


@pytest.fixture(scope="module")
def program() -> Program:
    """A network for the field, a random sketch for the error, and indices, which are no quantities."""
    numbers = np.random.default_rng(0)
    first, last = numbers.normal(size=(SENSORS, WIDE)) / 5, numbers.normal(size=(WIDE, 60)) / 20
    sketch = numbers.normal(size=(60, 128)) * np.geomspace(1, 1e-3, 60)[:, None]
    order = numbers.permutation(3000) % WIDE

    def outputs(values: dict[str, Any]) -> dict[str, Any]:
        hidden = jnp.tanh(values["u"] @ first)
        field = hidden @ last
        return {"s": field, "error": jnp.linalg.norm(field @ sketch), "taken": jnp.sum(hidden[order])}

    traced = trace(outputs, {"u": (SENSORS,)}).described({"quantities": ["s"]})
    return traced.with_arrays({"draws:u": numbers.normal(size=(16, SENSORS))})


@pytest.fixture(scope="module")
def packed(program: Program) -> Packed:
    return pack(program)


def test_large_constants_get_as_many_bits_as_their_outputs_need(program: Program, packed: Packed):
    bits = {count: bits for _, count, bits in packed.ranges}
    assert bits[60 * 128] == 5  # the sketch
    assert bits[SENSORS * WIDE] >= 16
    assert bits[WIDE * 60] >= 16
    assert 3000 not in bits  # indices
    assert len(packed.exact) + len(packed.rounded) < 2 / 3 * program.numbers.nbytes


def test_what_is_read_back_computes_the_same(program: Program, packed: Packed):
    inputs = {"u": np.random.default_rng(7).normal(size=(50, SENSORS))}
    exact, found = (run_numpy(Program(program.header, n), inputs) for n in (program.numbers, unpack(packed)))
    np.testing.assert_allclose(found["s"], exact["s"], rtol=0, atol=1e-5 * np.max(np.abs(exact["s"])))
    np.testing.assert_allclose(found["error"], exact["error"], rtol=0.02)
    assert np.any(found["error"] != exact["error"])
    kept = np.ones(program.numbers.size, bool)
    for start, count, _ in packed.ranges:
        kept[start : start + count] = False
    np.testing.assert_array_equal(unpack(packed)[kept], program.numbers[kept])


def test_no_number_is_further_off_than_half_a_level(program: Program, packed: Packed):
    numbers = unpack(packed)
    for start, count, bits in packed.ranges:
        wanted = np.zeros(-(-count // BLOCK) * BLOCK)
        wanted[:count] = program.numbers[start : start + count]
        largest = np.repeat(np.max(np.abs(wanted.reshape(-1, BLOCK)), axis=1), BLOCK)[:count]
        level = largest / (2 ** (bits - 1) - 1)
        assert np.all(np.abs(numbers[start : start + count] - wanted[:count]) <= 0.5 * level + 2e-7 * largest)


def test_a_page_carries_both_parts(program: Program, packed: Packed):
    text = render_page(program)
    header = json.loads(text.partition('id="program">')[2].partition("</script>")[0])
    assert header["rounded"] == packed.ranges
    for name, wanted in (("numbers", packed.exact), ("rounded", packed.rounded)):
        assert base64.b64decode(text.partition(f'id="{name}">')[2].partition("</script>")[0]) == wanted


SCRIPT = """
const fs = require("fs"), { unpackNumbers } = require(process.argv[1]);
const { ranges, exact, rounded } = JSON.parse(fs.readFileSync(0));
const numbers = unpackNumbers(ranges, Uint8Array.from(exact), Uint8Array.from(rounded));
console.log(JSON.stringify([...new Uint8Array(numbers.buffer)]));
"""


@pytest.mark.skipif(NODE is None, reason="there is no Node.js here; the browser tests run the same file")
def test_javascript_reads_the_same_numbers(packed: Packed):
    assert NODE is not None
    runtime = Path(str(files("seponet.export").joinpath("page", "runtime.js")))
    given = json.dumps({"ranges": packed.ranges, "exact": list(packed.exact), "rounded": list(packed.rounded)})
    done = subprocess.run([NODE, "-e", SCRIPT, str(runtime)], input=given, capture_output=True, text=True, check=True)
    assert bytes(json.loads(done.stdout)) == unpack(packed).tobytes()
