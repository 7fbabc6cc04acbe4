"""The numbers of a program as a page carries them: large constants rounded as far as its outputs allow.

Every 32 numbers share a scale, and each is a whole multiple of it. How many bits a constant needs is tried on samples
of the inputs: a field may change by 2e-6 of its largest value, the error estimate by 1%, the rest by 0.1%. The largest
array of a page, the sketch of the error estimate (`operator/estimate.py`), is a random matrix that keeps lengths to 6%
and needs 5 bits. What needs more than 22, small constants, indices and samples stay in float32.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..frozen import FrozenOperator
from .program import Program

BLOCK = 32
"""How many numbers share a scale."""

SMALLEST = 2048
"""Constants with fewer numbers stay as they are: nothing is gained by rounding them."""

FINE, ROUGH = (16, 18, 20, 22), (5, 8, 12, 16, 20)
"""Bits that are tried for constants that fields depend on, and for others."""

FIELD, ESTIMATE, OTHER = 2e-6, 1e-2, 1e-3
"""How far one rounded constant may change a field, the error estimate, and any other output: relative to the largest
value of the first and the last, and to every value of the estimate."""

ESTIMATES = ("error", "upper_95")

SAMPLES = 16


class Packed(NamedTuple):
    """The numbers of a program in two parts.

    - `exact`: float32, little endian, without those of `ranges`.
    - `rounded`: for each range its scales in float32, then its levels bit by bit, the lowest first, in whole bytes.
    - `ranges`: `[offset, count, bits]` in the numbers of the program.
    """

    exact: bytes
    rounded: bytes
    ranges: list[list[int]]


def pack(program: Program) -> Packed:
    """The numbers of a program, large constants rounded."""
    numbers = program.numbers.astype("<f4")
    ranges = _ranges(program)
    kept = np.ones(numbers.size, bool)
    parts: list[bytes] = []
    for start, count, bits in ranges:
        kept[start : start + count] = False
        parts += _rounded(numbers[start : start + count], bits)
    return Packed(numbers[kept].tobytes(), b"".join(parts), ranges)


def unpack(packed: Packed) -> np.ndarray:
    """The numbers as a page reads them: what `unpackNumbers` of `runtime.js` does."""
    total = len(packed.exact) // 4 + sum(count for _, count, _ in packed.ranges)
    numbers, kept, at = np.zeros(total, np.float32), np.ones(total, bool), 0
    for start, count, bits in packed.ranges:
        blocks, length = -(-count // BLOCK), -(-count * bits // 8)
        scales = np.frombuffer(packed.rounded, "<f4", blocks, at)
        content = np.frombuffer(packed.rounded, np.uint8, length, at + 4 * blocks)
        digits = np.unpackbits(content, bitorder="little")[: count * bits].reshape(count, bits)
        levels = digits @ (1 << np.arange(bits)) - (1 << (bits - 1))
        numbers[start : start + count] = np.repeat(scales, BLOCK)[:count] * levels
        kept[start : start + count] = False
        at += 4 * blocks + length
    numbers[kept] = np.frombuffer(packed.exact, "<f4")
    return numbers


def _levels(values: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers of so many bits, and the scale of every block."""
    blocks = np.zeros(-(-values.size // BLOCK) * BLOCK)
    blocks[: values.size] = values
    blocks = blocks.reshape(-1, BLOCK)
    most = (1 << (bits - 1)) - 1
    scales = (np.maximum(np.max(np.abs(blocks), axis=1), 1e-30) / most).astype("<f4")
    levels = np.clip(np.round(blocks / scales[:, None]), -most, most).astype(np.int64)
    return levels.reshape(-1)[: values.size], scales


def _rounded(values: np.ndarray, bits: int) -> list[bytes]:
    levels, scales = _levels(values, bits)
    digits = (levels[:, None] + (1 << (bits - 1))) >> np.arange(bits) & 1
    return [scales.tobytes(), np.packbits(digits.astype(bool), bitorder="little").tobytes()]


def _ranges(program: Program) -> list[list[int]]:
    """The large constants that can be rounded, and to how many bits."""
    operations, samples = program.header["operations"], _samples(program)
    indices = {a for operation in operations if operation["operation"] == "take" for a in operation["arguments"]}
    needed = _needed(program, program.header.get("about", {}).get("quantities", ()))
    exact = _outputs(program, program.numbers, samples)
    ranges: list[list[int]] = []
    for i, entry in enumerate(program.header["constants"]):
        start, count = entry["offset"], int(np.prod(entry["shape"]))
        if count < SMALLEST or -1 - i in indices:
            continue
        for bits in FINE if -1 - i in needed else ROUGH:
            levels, scales = _levels(program.numbers[start : start + count], bits)
            numbers = program.numbers.copy()
            numbers[start : start + count] = np.repeat(scales, BLOCK)[:count] * levels
            if _close(program, _outputs(program, numbers, samples), exact):
                ranges.append([start, count, bits])
                break
    return ranges


def _samples(program: Program) -> dict[str, np.ndarray]:
    """A few of the inputs that a page carries; of a program without any, zeros."""
    samples: dict[str, np.ndarray] = {}
    for entry in program.header["inputs"]:
        stored = program.header.get("arrays", {}).get(f"draws:{entry['name']}")
        if stored is None:
            samples[entry["name"]] = np.zeros((1, *entry["shape"]))
            continue
        size, offset = int(np.prod(stored["shape"])), stored["offset"]
        samples[entry["name"]] = program.numbers[offset : offset + size].reshape(stored["shape"])[:SAMPLES]
    return samples


def _outputs(program: Program, numbers: np.ndarray, samples: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = [output["name"] for output in program.header["outputs"]]
    # The runtime gives one output alone without its name.
    found = FrozenOperator({**program.header, "about": {}}, numbers)(dict(samples))
    return found if isinstance(found, dict) else {names[0]: found}


def _close(program: Program, found: Mapping[str, np.ndarray], exact: Mapping[str, np.ndarray]) -> bool:
    fields = program.header.get("about", {}).get("quantities", ())
    for name, value in exact.items():
        change, size = np.abs(found[name] - value), np.abs(value)
        allowed = ESTIMATE * size if name in ESTIMATES else (FIELD if name in fields else OTHER) * np.max(size)
        if not np.all(change <= allowed):
            return False
    return True


def _needed(program: Program, names: Sequence[str]) -> set[int]:
    """The values and constants that the outputs `names` depend on."""
    operations, inputs = program.header["operations"], len(program.header["inputs"])
    waiting = [output["value"] for output in program.header["outputs"] if output["name"] in names]
    needed: set[int] = set()
    while waiting:
        value = waiting.pop()
        if value not in needed:
            needed.add(value)
            waiting += operations[value - inputs]["arguments"] if value >= inputs else []
    return needed
