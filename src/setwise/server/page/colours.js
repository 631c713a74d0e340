/** Colours of the pictures, from the style sheet: light and dark are decided there. */

import { points } from "./numbers.js";

const d3 = globalThis.d3;

const STRIP = 25; // colours in a legend
const LEAST_REACH = 0.01; // so that rounding errors are not painted as if they mattered

export function colourOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** From what hurts through the card's own colour to what helps. */
function diverging(reach) {
  const [hurts, none, helps] = ["hurts", "card", "helps"].map(colourOf);
  return d3
    .scaleDiverging([-reach, 0, reach], d3.piecewise(d3.interpolateLab, [hurts, none, helps]))
    .clamp(true);
}

/** A scale of differences of shares, as far as the largest of them goes to either side. */
export function signedScale(differences) {
  const reach = Math.max(LEAST_REACH, d3.max(differences, Math.abs) ?? 0);
  const texts = [`${points(-reach)} points`, `${points(reach)} points`];
  return { low: -reach, high: reach, colour: diverging(reach), texts };
}

/** From the card's own colour to the model's. */
export function rising(low, high, model) {
  return d3
    .scaleSequential([low, high], d3.interpolateLab(colourOf("card"), colourOf(`${model}-deep`)))
    .clamp(true);
}

const linear = (channel) => {
  const part = channel / 255;
  return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
};

/** Relative luminance, as WCAG defines it. */
export function luminance(colour) {
  const { r, g, b } = d3.rgb(colour);
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
}

/** Black or white, whichever reads better. */
export function inkOn(colour) {
  return luminance(colour) > 0.179 ? "#000" : "#fff";
}

/** A strip of a scale's colours, in bands of its width, between words for its ends. */
export function scaleLegend(root, scale) {
  const box = d3.select(root).attr("hidden", scale ? null : "");
  if (scale === null) return;
  const { low, high, colour, texts, width } = scale;
  const count = width ? Math.max(2, Math.round((high - low) / width)) : STRIP;
  const steps = d3.range(count).map((step) => low + ((high - low) * step) / (count - 1));
  const part = (name) => box.selectAll(`.${name}`).data([name]).join("span").attr("class", name);
  part("low").text(texts[0]);
  part("strip").selectAll("i").data(steps).join("i").style("background-color", colour);
  part("high").text(texts[1]);
}
