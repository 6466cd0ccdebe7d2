// Compares two runs of a site. The rules are those of statistics/ratios.py for one run on each side.
"use strict";
(() => {
  const CONFIDENCE = 0.95, EQUAL = 1.05, EARLY_SHARE = 0.65;
  const element = (id) => document.getElementById(id);
  const runs = [...element("a").options];
  const loaded = new Map();
  const sum = (values) => values.reduce((all, one) => all + one, 0);

  // ---- statistics ----

  const LANCZOS = [
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
  ];

  function logGamma(x) {
    const at = x + 6.5;
    const series = LANCZOS.slice(1).reduce((all, factor, number) => all + factor / (x + number), LANCZOS[0]);
    return Math.log(Math.sqrt(2 * Math.PI) * series) + (x - 0.5) * Math.log(at) - at;
  }

  function fraction(x, a, b) {
    let upper = 1, lower = 0, found = 1;
    for (let step = 1; 10_000 > step; step += 1) {
      const m = Math.floor(step / 2);
      let term = step % 2 ? (-(a + m) * (a + b + m)) / (a + 2 * m + 1) : (m * (b - m)) / (a + 2 * m - 1);
      term *= x / (a + 2 * m);
      upper = 1 + term / upper;
      lower = 1 / (1 + term * lower);
      found *= upper * lower;
      if (1e-15 > Math.abs(upper * lower - 1)) break;
    }
    return 1 / found;
  }

  // The probability of a value of Student's t at this distance from 0 or farther.
  function twoSided(distance, freedom) {
    const ratio = (distance * distance) / freedom;
    if (ratio === 0) return 1;
    if (!Number.isFinite(ratio)) return 0;
    const a = freedom / 2, b = 0.5;
    const front = Math.exp(
      logGamma(a + b) - logGamma(a) - logGamma(b) - a * Math.log1p(ratio) - b * Math.log1p(1 / ratio));
    if ((a + 1) / (a + b + 2) > 1 / (1 + ratio)) return (front * fraction(1 / (1 + ratio), a, b)) / a;
    return 1 - (front * fraction(1 / (1 + 1 / ratio), b, a)) / b;
  }

  function tFactor(freedom, confidence) {
    let low = 0, high = 1;
    while (twoSided(high, freedom) > 1 - confidence) high *= 2;
    for (let step = 0; 100 > step; step += 1) {
      const middle = (low + high) / 2;
      if (twoSided(middle, freedom) > 1 - confidence) low = middle;
      else high = middle;
    }
    return (low + high) / 2;
  }

  function meanAndError(values) {
    const mean = sum(values) / values.length;
    if (values.length === 1) return [mean, 0];
    return [mean, Math.sqrt(sum(values.map((one) => (one - mean) ** 2)) / (values.length * (values.length - 1)))];
  }

  function scheffeError(a, b) {
    const [shorter, longer] = b.length >= a.length ? [a, b] : [b, a];
    const scale = Math.sqrt(shorter.length / longer.length);
    return meanAndError(shorter.map((one, at) => one - scale * longer[at]))[1];
  }

  function ratioOf(a, b, early) {
    if ([...a, ...b].some((one) => !(one > 0))) return null;
    const [logsA, logsB] = [a, b].map((side) => side.map(Math.log));
    const [[meanA, errorA], [meanB, errorB]] = [meanAndError(logsA), meanAndError(logsB)];
    const mean = meanB - meanA, share = early ? EARLY_SHARE : 1;
    let error, freedom;
    if (early) [error, freedom] = [scheffeError(logsA, logsB), Math.min(a.length, b.length) - 1];
    else {
      error = Math.hypot(errorA, errorB);
      const spread = errorA ** 4 / (a.length - 1) + errorB ** 4 / (b.length - 1);
      freedom = Math.min(a.length, b.length) === 1 ? 0 : spread ? error ** 4 / spread : a.length + b.length - 2;
    }
    if (!(freedom > 0)) return { ratio: Math.exp(mean), low: 0, high: Infinity, p: 1 };
    const half = tFactor(freedom, 1 - share * (1 - CONFIDENCE)) * error;
    const p = Math.min(1, twoSided(error ? Math.abs(mean) / error : mean ? Infinity : 0, freedom) / share);
    return { ratio: Math.exp(mean), low: Math.exp(mean - half), high: Math.exp(mean + half), p };
  }

  function correct(chances) { // by Benjamini and Hochberg
    const order = chances.map((_, at) => at).sort((one, other) => chances[other] - chances[one]);
    const corrected = [];
    let least = 1;
    order.forEach((at, number) => {
      least = Math.min(least, (chances[at] * chances.length) / (chances.length - number));
      corrected[at] = least;
    });
    return corrected;
  }

  function verdict({ ratio }, p, moreIsFaster) {
    if (!ratio) return "cannot tell";
    if (ratio.low >= 1 / EQUAL && EQUAL >= ratio.high) return "same";
    if (p > 1 - CONFIDENCE) return "cannot tell";
    return ratio.ratio > 1 === moreIsFaster ? "faster" : "slower";
  }

  // ---- the page ----

  window.figures = (place, content) => loaded.get(place).resolve(content);

  function load(place) {
    if (!loaded.has(place)) {
      const one = {};
      one.content = new Promise((resolve, reject) => Object.assign(one, { resolve, reject }));
      loaded.set(place, one);
      const script = document.createElement("script");
      script.src = `${encodeURIComponent(place)}/figures.js`;
      script.addEventListener("error", () => one.reject(new Error(`${place}/figures.js is missing`)));
      document.head.append(script);
    }
    return loaded.get(place).content;
  }

  const SPEEDS = ["slower", "cannot tell", "faster", "same"];

  function compare(a, b) {
    const before = new Map(a.cells.map((one) => [`${one[0]} ${one[2]}`, one]));
    const lines = b.cells.flatMap(([id, name, metric, text, moreIsFaster, values]) => {
      const other = before.get(`${id} ${metric}`);
      if (!other) return [];
      before.delete(`${id} ${metric}`);
      const ratio = ratioOf(other[5], values, a.adaptive || b.adaptive);
      return [{ name, metric, texts: [other[3], text], ratio, moreIsFaster }];
    });
    const corrected = correct(lines.map(({ ratio }) => ratio?.p ?? 1));
    lines.forEach((line, at) => { line.speed = verdict(line, corrected[at], line.moreIsFaster); });
    const speed = ({ ratio, moreIsFaster }) => (ratio ? Math.log(ratio.ratio) * (moreIsFaster ? 1 : -1) : 0);
    lines.sort((one, other) => SPEEDS.indexOf(one.speed) - SPEEDS.indexOf(other.speed) || speed(one) - speed(other));
    return { lines, alone: [before.size, b.cells.length - lines.length] };
  }

  const isFine = (ratio) => ratio > 0.9 && 1.1 > ratio;
  const times = (ratio) => `${ratio.toFixed(isFine(ratio) ? 3 : ratio >= 100 ? 0 : ratio >= 10 ? 1 : 2)}×`;
  const between = (low, high) => {
    const fine = (isFine(low) || isFine(high)) && 10 > high;
    return [low, high].map((one) => (fine ? `${one.toFixed(3)}×` : times(one))).join(" to ");
  };

  function show({ lines, alone }) {
    const counts = SPEEDS.map((speed) => [lines.filter((one) => one.speed === speed).length, speed]);
    const found = counts.filter(([count]) => count).map(([count, speed]) => `${count} ${speed}`).join(", ");
    const only = alone.map((count, at) => count ? `; ${count} only in ${"AB"[at]}` : "").join("");
    element("state").textContent = (found || "The runs have no common cell with figures") + only + ".";
    element("figures").hidden = !lines.length;
    element("figures").tBodies[0].replaceChildren(...lines.map(({ name, metric, texts, ratio, speed }) => {
      const row = document.createElement("tr");
      const interval = ratio?.low ? between(ratio.low, ratio.high) : "";
      const cells = [name, metric, ...texts, ratio ? times(ratio.ratio) : "", interval, speed];
      row.append(...cells.map((text, at) => {
        const cell = document.createElement(at ? "td" : "th");
        if (at === 0) cell.scope = "row";
        if (at > 1 && 6 > at) cell.className = "number";
        cell.textContent = text;
        return cell;
      }));
      if (speed === "slower") row.className = "broken";
      return row;
    }));
  }

  async function update() {
    const [a, b] = ["a", "b"].map((id) => element(id).value);
    history.replaceState(null, "", `#a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`);
    try {
      const both = await Promise.all([load(a), load(b)]);
      if (a !== element("a").value || b !== element("b").value) return; // chosen anew in the meantime
      const chosen = [a, b].map((place) => runs.find((one) => one.value === place));
      if (chosen[0].dataset.synthetic !== chosen[1].dataset.synthetic) throw new Error("Synthetic figures cannot be compared with measured ones");
      show(compare(...both));
    } catch (problem) {
      element("state").textContent = `${problem.message}.`;
      element("figures").hidden = true;
    }
  }

  function choose() {
    const asked = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
    const known = (place) => runs.find((one) => one.value === place);
    const b = known(asked.get("b")) ?? runs[0];
    const later = runs.slice(runs.indexOf(b) + 1);
    const a = known(asked.get("a")) ?? later.find((one) => one.dataset.kind === b.dataset.kind) ?? later[0] ?? b;
    element("a").value = a.value;
    element("b").value = b.value;
    update();
  }

  for (const id of ["a", "b"]) element(id).addEventListener("change", update);
  addEventListener("hashchange", choose);
  choose();
})();
