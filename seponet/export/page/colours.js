"use strict";
// The colours of the plots (seponet/drawing/style.py): 33 of each map, to be interpolated; tests compare them with Matplotlib.

const COLOUR_MAPS = {
  viridis: "440154470d6048186a482374472d7b4537814240863e49893b528b375b8d33638d2f6b8e2c728e297a8e26828e23898e21918c1f988b1fa08822a78528ae8032b67a3fbc734ec36b5ec96270cf5784d44b98d83eaddc30c2df23d8e219ece51bfde725",
  RdBu_r: "0530610e41791752901f63a82a71b23480b93f8ec0529dc86bacd184bcd99bc9e0aed3e6c2ddecd4e6f1e0ecf3ecf2f5f7f6f6f9eee7fbe5d8fddcc9fbccb4f8bb9ef5aa89ee9677e48066db6b55d05548c53e3dba2832ab162a930e267c072267001f",
  PuOr_r: "2d004b390c5e4518715225845f3a916d529c7b6aa88a7eb39990bfa9a1cbb7b1d5c3c0ddcfcfe5dadcece4e5f0eeeef3f7f7f6f9efe1fce8cdfee1b9fed59ffdc885fdbc6bf7ac52ee9b39e58a20d97b12cb6e0dbd6109ae55069e4c078d43077f3b08",
};
const LINES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F"];

/** A colour map as 256 opaque pixels, in the byte order of ImageData. */
function colourTable(name) {
  const text = COLOUR_MAPS[name], last = text.length / 6 - 1, table = new Uint32Array(256), bytes = new Uint8ClampedArray(table.buffer);
  for (let i = 0; i < 256; i++) {
    const at = (i / 255) * last, left = Math.min(Math.floor(at), last - 1), weight = at - left;
    for (let c = 0; c < 3; c++) {
      const [a, b] = [left, left + 1].map((k) => parseInt(text.substr(6 * k + 2 * c, 2), 16));
      bytes[4 * i + c] = Math.round(a + weight * (b - a));
    }
    bytes[4 * i + 3] = 255;
  }
  return table;
}

/** The range of values and the map for it: diverging about zero where both signs occur, as in the plots. */
function scaleOf(data) {
  let lower = Infinity, upper = -Infinity;
  for (let i = 0; i < data.length; i++) { if (data[i] < lower) lower = data[i]; if (data[i] > upper) upper = data[i]; }
  if (Math.min(-lower, upper) > 0.1 * Math.max(-lower, upper)) {
    const limit = Math.max(-lower, upper);
    return { lower: -limit, upper: limit, colours: "RdBu_r" };
  }
  if (!(upper > lower)) { const margin = 0.5 * Math.abs(upper) || 1; lower -= margin; upper += margin; }
  return { lower, upper, colours: "viridis" };
}

if (typeof module !== "undefined") module.exports = { ...module.exports, COLOUR_MAPS, LINES, scaleOf };
