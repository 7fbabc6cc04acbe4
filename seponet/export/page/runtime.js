"use strict";
// Frozen operators in JavaScript: one file, no dependencies. Its format is described in docs/frozen-format.md.
//
//   const operator = new FrozenOperator(program, numbers);   // parsed JSON, Float32Array
//   const { s } = operator.run({ u });                        // Float32Array of the sensors -> { data, shape }
//
// Buffers are allocated once: what `run` returns is overwritten by the next call.

const FROZEN_FORMAT = 1;

function erf(x) {
  // Numerical Recipes' Chebyshev fit of erfc, good to 1.2e-7.
  const t = 1 / (1 + 0.5 * Math.abs(x));
  const c = [-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277];
  let sum = 0;
  for (let i = c.length - 1; i >= 0; i--) sum = sum * t + c[i];
  const tail = t * Math.exp(-x * x + sum);
  return x >= 0 ? 1 - tail : tail - 1;
}

const MAPS = {
  neg: (x) => -x, sin: Math.sin, cos: Math.cos, tan: Math.tan, asin: Math.asin, acos: Math.acos, atan: Math.atan,
  sinh: Math.sinh, cosh: Math.cosh, tanh: Math.tanh, asinh: Math.asinh, acosh: Math.acosh, atanh: Math.atanh,
  exp: Math.exp, expm1: Math.expm1, log: Math.log, log1p: Math.log1p, sqrt: Math.sqrt, abs: Math.abs, sign: Math.sign,
  floor: Math.floor, ceil: Math.ceil, trunc: Math.trunc, erf,
  round: (x) => { const r = Math.round(x); return r - x === 0.5 && r % 2 !== 0 ? r - 1 : r; },
};

const COMBINATIONS = {
  add: (x, y) => x + y, sub: (x, y) => x - y, mul: (x, y) => x * y, div: (x, y) => x / y, max: Math.max, min: Math.min,
  pow: Math.pow, atan2: Math.atan2, rem: (x, y) => x % y,
  eq: (x, y) => +(x === y), ne: (x, y) => +(x !== y), lt: (x, y) => +(x < y), le: (x, y) => +(x <= y),
  gt: (x, y) => +(x > y), ge: (x, y) => +(x >= y),
};

const REDUCTIONS = {
  sum: [0, (x, y) => x + y], prod: [1, (x, y) => x * y], max: [-Infinity, Math.max], min: [Infinity, Math.min],
};

const product = (sizes) => sizes.reduce((a, b) => a * b, 1);

function stridesOf(shape) {
  const strides = new Array(shape.length);
  let size = 1;
  for (let i = shape.length - 1; i >= 0; i--) { strides[i] = size; size *= shape[i]; }
  return strides;
}

/** The strides with which a value of one shape is read while a larger one is written; zero repeats. */
function spreadStrides(shape, out) {
  const own = stridesOf(shape), shift = out.length - shape.length;
  return out.map((_, i) => (i < shift || shape[i - shift] === 1 ? 0 : own[i - shift]));
}

/** Axes that every operand runs through in one go become one axis. */
function collapse(out, strides) {
  const sizes = [], kept = strides.map(() => []);
  for (let i = 0; i < out.length; i++) {
    if (out[i] === 1) continue;
    const last = sizes.length - 1;
    if (last >= 0 && strides.every((s, k) => kept[k][last] === s[i] * out[i])) {
      sizes[last] *= out[i];
      strides.forEach((s, k) => { kept[k][last] = s[i]; });
    } else {
      sizes.push(out[i]);
      strides.forEach((s, k) => kept[k].push(s[i]));
    }
  }
  if (!sizes.length) { sizes.push(1); kept.forEach((k) => k.push(0)); }
  return [sizes, kept];
}

/** Calls row(out offset, offsets of the operands) for every run of the last axis; `sizes` as collapse gives them. */
function overRows(sizes, strides, row) {
  const inner = sizes[sizes.length - 1], outer = sizes.slice(0, -1), index = outer.map(() => 0);
  const offsets = strides.map(() => 0), total = product(outer);
  for (let n = 0; n < total; n++) {
    row(n * inner, offsets);
    for (let i = outer.length - 1; i >= 0; i--) {
      index[i]++;
      for (let k = 0; k < strides.length; k++) offsets[k] += strides[k][i];
      if (index[i] < outer[i]) break;
      for (let k = 0; k < strides.length; k++) offsets[k] -= strides[k][i] * outer[i];
      index[i] = 0;
    }
  }
}

/** For every entry of a permuted (or cut, with steps) array where it stands in the flat original. */
function flatIndices(sizes, strides, start = 0) {
  const indices = new Int32Array(product(sizes));
  const [collapsed, [along]] = collapse(sizes, [strides]);
  const inner = collapsed[collapsed.length - 1], step = along[along.length - 1];
  overRows(collapsed, [along], (at, [from]) => { for (let i = 0; i < inner; i++) indices[at + i] = start + from + i * step; });
  return indices;
}

function gather(out, x, indices) {
  for (let i = 0; i < indices.length; i++) out[i] = x[indices[i]];
}

/** out[m, n] = sum_k a[m, k] b[n, k], in blocks of two rows and four columns that stay in registers. */
function multiply(out, a, b, m, n, k, atOut, atA, atB) {
  let i = 0;
  for (; i + 1 < m; i += 2) {
    const a0 = atA + i * k, a1 = a0 + k, o0 = atOut + i * n, o1 = o0 + n;
    let j = 0;
    for (; j + 3 < n; j += 4) {
      const b0 = atB + j * k, b1 = b0 + k, b2 = b1 + k, b3 = b2 + k;
      let s00 = 0, s01 = 0, s02 = 0, s03 = 0, s10 = 0, s11 = 0, s12 = 0, s13 = 0;
      for (let l = 0; l < k; l++) {
        const x = a[a0 + l], y = a[a1 + l], p = b[b0 + l], q = b[b1 + l], r = b[b2 + l], s = b[b3 + l];
        s00 += x * p; s01 += x * q; s02 += x * r; s03 += x * s;
        s10 += y * p; s11 += y * q; s12 += y * r; s13 += y * s;
      }
      out[o0 + j] = s00; out[o0 + j + 1] = s01; out[o0 + j + 2] = s02; out[o0 + j + 3] = s03;
      out[o1 + j] = s10; out[o1 + j + 1] = s11; out[o1 + j + 2] = s12; out[o1 + j + 3] = s13;
    }
    for (; j < n; j++) {
      const b0 = atB + j * k;
      let s0 = 0, s1 = 0;
      for (let l = 0; l < k; l++) { const p = b[b0 + l]; s0 += a[a0 + l] * p; s1 += a[a1 + l] * p; }
      out[o0 + j] = s0; out[o1 + j] = s1;
    }
  }
  if (i < m) {
    const a0 = atA + i * k, o0 = atOut + i * n;
    let j = 0;
    for (; j + 3 < n; j += 4) {
      const b0 = atB + j * k, b1 = b0 + k, b2 = b1 + k, b3 = b2 + k;
      let s0 = 0, s1 = 0, s2 = 0, s3 = 0;
      for (let l = 0; l < k; l++) {
        const x = a[a0 + l];
        s0 += x * b[b0 + l]; s1 += x * b[b1 + l]; s2 += x * b[b2 + l]; s3 += x * b[b3 + l];
      }
      out[o0 + j] = s0; out[o0 + j + 1] = s1; out[o0 + j + 2] = s2; out[o0 + j + 3] = s3;
    }
    for (; j < n; j++) {
      const b0 = atB + j * k;
      let s0 = 0;
      for (let l = 0; l < k; l++) s0 += a[a0 + l] * b[b0 + l];
      out[o0 + j] = s0;
    }
  }
}

// Each kind of operation prepares what is known beforehand, and returns what to do for every new input. `x`, `y` are
// { data, shape, constant }; results are written to `out`, or share the memory of an argument.
const OPERATIONS = {
  map(entry, out, [x]) {
    const f = MAPS[entry.function];
    return () => { for (let i = 0; i < out.length; i++) out[i] = f(x.data[i]); };
  },

  combine(entry, out, [x, y]) {
    const [sizes, strides] = collapse(entry.shape, [spreadStrides(x.shape, entry.shape), spreadStrides(y.shape, entry.shape)]);
    const n = sizes[sizes.length - 1], [p, q] = strides.map((s) => s[s.length - 1]), a = x.data, b = y.data;
    const f = COMBINATIONS[entry.function];
    const rows = {
      add: (at, [i, j]) => { for (let k = 0; k < n; k++, i += p, j += q) out[at + k] = a[i] + b[j]; },
      sub: (at, [i, j]) => { for (let k = 0; k < n; k++, i += p, j += q) out[at + k] = a[i] - b[j]; },
      mul: (at, [i, j]) => { for (let k = 0; k < n; k++, i += p, j += q) out[at + k] = a[i] * b[j]; },
    };
    const row = rows[entry.function] ?? ((at, [i, j]) => { for (let k = 0; k < n; k++, i += p, j += q) out[at + k] = f(a[i], b[j]); });
    return () => overRows(sizes, strides, row);
  },

  select(entry, out, [which, yes, no]) {
    const [sizes, strides] = collapse(entry.shape, [which, yes, no].map((v) => spreadStrides(v.shape, entry.shape)));
    const n = sizes[sizes.length - 1], [p, q, r] = strides.map((s) => s[s.length - 1]);
    return () => overRows(sizes, strides, (at, [i, j, l]) => {
      for (let k = 0; k < n; k++, i += p, j += q, l += r) out[at + k] = which.data[i] !== 0 ? yes.data[j] : no.data[l];
    });
  },

  constant(entry, out, [x]) { out.set(x.data); return () => {}; },

  broadcast(entry, out, [x]) {
    const [sizes, strides] = collapse(entry.shape, [spreadStrides(x.shape, entry.shape)]);
    const n = sizes[sizes.length - 1], p = strides[0][strides[0].length - 1];
    return () => overRows(sizes, strides, (at, [i]) => { for (let k = 0; k < n; k++, i += p) out[at + k] = x.data[i]; });
  },

  transpose(entry, out, [x]) {
    const strides = stridesOf(x.shape), indices = flatIndices(entry.shape, entry.order.map((i) => strides[i]));
    return () => gather(out, x.data, indices);
  },

  concatenate(entry, out, values) {
    const inner = product(entry.shape.slice(entry.axis + 1)), outer = product(entry.shape.slice(0, entry.axis));
    const whole = entry.shape[entry.axis] * inner;
    return () => {
      let start = 0;
      for (const { data, shape } of values) {
        const length = shape[entry.axis] * inner;
        for (let i = 0; i < outer; i++) out.set(data.subarray(i * length, (i + 1) * length), i * whole + start);
        start += length;
      }
    };
  },

  slice(entry, out, [x]) {
    const strides = stridesOf(x.shape), start = entry.start.reduce((sum, at, i) => sum + at * strides[i], 0);
    const indices = flatIndices(entry.shape, strides.map((s, i) => s * entry.step[i]), start);
    return () => gather(out, x.data, indices);
  },

  pad(entry, out, [x]) {
    const strides = stridesOf(entry.shape), start = entry.before.reduce((sum, at, i) => sum + at * strides[i], 0);
    const indices = flatIndices(x.shape, strides, start);
    out.fill(entry.value);
    return () => { for (let i = 0; i < indices.length; i++) out[indices[i]] = x.data[i]; };
  },

  take(entry, out, [x, which]) {
    const indices = Int32Array.from(which.data);
    return () => gather(out, x.data, indices);
  },

  reduce(entry, out, [x]) {
    const [first, f] = REDUCTIONS[entry.function], kept = x.shape.map((_, i) => i).filter((i) => !entry.axes.includes(i));
    const order = [...kept, ...entry.axes], strides = stridesOf(x.shape);
    const indices = flatIndices(order.map((i) => x.shape[i]), order.map((i) => strides[i]));
    const inner = product(entry.axes.map((i) => x.shape[i]));
    return () => {
      for (let i = 0; i < out.length; i++) {
        let total = first;
        for (let k = i * inner; k < (i + 1) * inner; k++) total = f(total, x.data[indices[k]]);
        out[i] = total;
      }
    };
  },

  einsum(entry, out, [x, y]) {
    const [letters, result] = entry.equation.split("->"), [left, right] = letters.split(",");
    const sizes = {};
    [...left].forEach((c, i) => { sizes[c] = x.shape[i]; });
    [...right].forEach((c, i) => { sizes[c] = y.shape[i]; });
    const both = [...result].filter((c) => left.includes(c) && right.includes(c));
    const summed = [...left].filter((c) => !result.includes(c));
    const rows = [...left].filter((c) => result.includes(c) && !both.includes(c));
    const columns = [...right].filter((c) => result.includes(c) && !both.includes(c));
    const count = (group) => product(group.map((c) => sizes[c]));
    const m = count(rows), n = count(columns), k = count(summed), stacks = count(both);
    const arrange = (value, side, order) => {
      if (order.join("") === side) return [value.data, () => {}];
      const strides = stridesOf(value.shape);
      const indices = flatIndices(order.map((c) => sizes[c]), order.map((c) => strides[side.indexOf(c)]));
      const moved = new Float32Array(indices.length);
      if (value.constant) { gather(moved, value.data, indices); return [moved, () => {}]; }
      return [moved, () => gather(moved, value.data, indices)];
    };
    const [a, moveA] = arrange(x, left, [...both, ...rows, ...summed]);
    const [b, moveB] = arrange(y, right, [...both, ...columns, ...summed]);
    const found = [...both, ...rows, ...columns];
    const direct = found.join("") === result;
    const into = direct ? out : new Float32Array(out.length);
    const foundStrides = stridesOf(found.map((c) => sizes[c]));
    const back = direct ? null : flatIndices([...result].map((c) => sizes[c]), [...result].map((c) => foundStrides[found.indexOf(c)]));
    return () => {
      moveA(); moveB();
      for (let s = 0; s < stacks; s++) multiply(into, a, b, m, n, k, s * m * n, s * m * k, s * n * k);
      if (back) gather(out, into, back);
    };
  },
};

/** The numbers of a page from bytes: exact ones in float32, and ranges of levels with a scale for every 32 of them. */
function unpackNumbers(ranges, exact, rounded) {
  const floats = (bytes, at, count) => new Float32Array(bytes.slice(at, at + 4 * count).buffer);
  const total = exact.length / 4 + ranges.reduce((sum, [, count]) => sum + count, 0), numbers = new Float32Array(total);
  let from = 0, done = 0, at = 0;
  for (const [start, count, bits] of ranges) {
    numbers.set(floats(exact, 4 * from, start - done), done);
    from += start - done; done = start + count;
    const blocks = Math.ceil(count / 32), scales = floats(rounded, at, blocks), middle = 1 << (bits - 1), mask = 2 * middle - 1;
    at += 4 * blocks;
    for (let i = 0, held = 0, size = 0; i < count; i++) {
      for (; size < bits; size += 8) held |= rounded[at++] << size;
      numbers[start + i] = scales[i >> 5] * ((held & mask) - middle);
      held >>>= bits; size -= bits;
    }
  }
  numbers.set(floats(exact, 4 * from, total - done), done);
  return numbers;
}

class FrozenOperator {
  constructor(header, numbers) {
    if (header.format !== FROZEN_FORMAT) throw new Error(`this runtime reads format ${FROZEN_FORMAT}; got ${header.format}`);
    const read = ({ offset, shape }) => numbers.subarray(offset, offset + product(shape));
    const constants = header.constants.map((entry) => ({ data: read(entry), shape: entry.shape, constant: true }));
    this.inputs = Object.fromEntries(header.inputs.map(({ name, shape }) => [name, { data: new Float32Array(product(shape)), shape }]));
    this.arrays = Object.fromEntries(Object.entries(header.arrays ?? {}).map(([name, entry]) => [name, { data: read(entry), shape: entry.shape }]));
    const values = Object.values(this.inputs);
    this.steps = [];
    for (const entry of header.operations) {
      const given = entry.arguments.map((i) => (i >= 0 ? values[i] : constants[-1 - i]));
      if (entry.operation === "reshape") { values.push({ data: given[0].data, shape: entry.shape }); continue; }
      const prepare = OPERATIONS[entry.operation];
      if (!prepare) throw new Error(`this runtime has no operation ${entry.operation}`);
      const data = new Float32Array(product(entry.shape));
      this.steps.push(prepare(entry, data, given));
      values.push({ data, shape: entry.shape });
    }
    this.outputs = Object.fromEntries(header.outputs.map(({ name, value, shape }) => [name, { data: values[value].data, shape }]));
  }

  /** Fields by name for values at the sensors by name; for one function. */
  run(inputs) {
    for (const [name, { data, shape }] of Object.entries(this.inputs)) {
      if (!inputs[name] || inputs[name].length !== data.length) throw new Error(`input ${name} must have ${data.length} values (${shape})`);
      data.set(inputs[name]);
    }
    for (const step of this.steps) step();
    return this.outputs;
  }
}

if (typeof module !== "undefined") module.exports = { FrozenOperator, unpackNumbers };
