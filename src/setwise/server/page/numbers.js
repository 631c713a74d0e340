/** Numbers as people read them, and the steps of sliders. */

// A plain script: a browser reads maps of imports only inline, which the page forbids itself.
const d3 = globalThis.d3;

const MINUS = "\u2212";

/** 0.4231 -> "42.3 %" */
export function percent(share) {
  return `${(100 * share).toFixed(1)}\u00a0%`;
}

/** 0.081 -> "+8.1": a difference of shares in percentage points; what rounds to 0 has no sign. */
export function points(difference) {
  const rounded = (100 * difference).toFixed(1);
  if (Number(rounded) === 0) return "0.0";
  return difference > 0 ? `+${rounded}` : rounded.replace("-", MINUS);
}

/** 0.31 and 0.25 -> "1.24 : 1": the smaller side is 1; on one line. */
export function ratio(above, below) {
  const digits = (number) =>
    Number.isFinite(number) ? String(Number(number.toPrecision(3))) : "∞";
  const sides = above >= below ? [digits(above / below), 1] : [1, digits(below / above)];
  return sides.join("\u00a0:\u00a0");
}

/** 1 and "item" -> "1 item" */
export function count(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

/** A value of a table, short enough for a label. */
export function short(value) {
  if (value === null || value === undefined || value === "") return "missing";
  if (typeof value !== "number") return String(value);
  return String(Number(value.toPrecision(4))).replace("-", MINUS);
}

/** What a model can tell apart: it computes with float32, which nine digits hold exactly. */
export function nineDigits(value) {
  return typeof value === "number" ? Number(value.toPrecision(9)) : value;
}

/** A round step that parts the range into a hundred or so, or the column's own step. */
export function stepOf(column, low, high) {
  return column.step ?? (d3.tickStep(low, high, 100) || 1);
}

/** The nearest multiple of the step, without the dust of binary fractions. */
export function snapped(value, step) {
  return Number((Math.round(value / step) * step).toPrecision(9));
}

/**
 * From where to where a column goes: its sample, and the values shown; null if it does not vary.
 *
 * A column of which no sample tells the range may go anywhere: as far again as it is from 0.
 */
export function rangeOf(column, values) {
  const finite = [column.min, column.max, ...values].filter((one) => Number.isFinite(one));
  const [low, high] = d3.extent(finite);
  if (low !== high) return [low, high];
  if (Number.isFinite(column.min)) return null;
  const [value, reach] = [low ?? 0, Math.max(1, Math.abs(low ?? 0))];
  return [value - reach, value + reach];
}
