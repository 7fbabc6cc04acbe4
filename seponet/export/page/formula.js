"use strict";
// Formulas as people print them: derivatives as subscripts, powers raised, Greek letters by their names.

const GREEK = { alpha: "α", beta: "β", gamma: "γ", delta: "δ", epsilon: "ε", eps: "ε", eta: "η", theta: "θ", kappa: "κ", lambda: "λ", lam: "λ", mu: "μ", nu: "ν", xi: "ξ", rho: "ρ", sigma: "σ", tau: "τ", phi: "φ", psi: "ψ", omega: "ω" };

const greek = (text) => text.replace(/(?<![A-Za-z])[a-z]+(?![A-Za-z])/g, (word) => GREEK[word] ?? word).replace(/(?<= |^)-/g, "−");

/** Nodes for a line of plain text like `s_t - nu s_xx + s ^ 2 = 0`. */
function typeset(text) {
  return greek(text).split(/(_[A-Za-z0-9]+| ?\^ ?−?\d+)/).map((part) => {
    if (part.startsWith("_")) return make("sub", { textContent: part.slice(1) });
    if (part.includes("^")) return make("sup", { textContent: part.replace(/[ ^]/g, "") });
    return part;
  });
}
