/** The background of the map: a field as bands of colour, and what the colours mean. */

import { rising, signedScale } from "./colours.js";
import { percent } from "./numbers.js";

const d3 = globalThis.d3;

const BANDS = 14;
const TIMES = 2; // as much as the spread may be, until a value is in doubt
const BLANK = 0.001; // as far as eyes can tell, of a field that IIA leaves at 0

/** The scale of a quantity: its ends, colours and words; null where there is nothing to paint. */
function scaleOf(values, model, quantity) {
  if (quantity === "beyond") return signedScale(values);
  const [low, high] = d3.extent(values);
  if (low === high) return null;
  return { low, high, colour: rising(low, high, model), texts: [percent(low), percent(high)] };
}

/**
 * The bands of a field from below, each with its colour, where members disagree, and the scale.
 *
 * A band is no narrower than twice the usual spread: what members disagree about, such as the fine
 * stripes that those with fine pieces have, is then no picture of its own. `unsure` outlines where
 * the sign itself is in doubt: where the value is less than twice its spread.
 */
export function paint(field, model, quantity) {
  const values = field?.[model]?.[quantity];
  const scale = values ? scaleOf(values, model, quantity) : null;
  if (scale === null) return { bands: [], unsure: null, scale };
  const doubt = field[model].doubt?.[quantity] ?? null;
  const isSigned = quantity === "beyond";
  const isBlank = isSigned && d3.max(values, Math.abs) < BLANK;
  const width = bandWidth(scale, doubt);
  const contours = d3.contours().size([field.side, field.side]);
  const shapes = isBlank ? [] : contours.thresholds(edges(scale, width, isSigned))(values);
  const bands = shapes.map((shape) => ({ shape, colour: scale.colour(shape.value + width / 2) }));
  const margin = doubt && isSigned && !isBlank && values.map((value, place) => TIMES * doubt[place] - Math.abs(value));
  const unsure = margin ? contours.thresholds([0])(margin)[0] : null;
  return { bands, unsure, scale: { ...scale, width } };
}

function bandWidth({ low, high }, doubt) {
  const least = (high - low) / BANDS;
  return doubt ? Math.max(least, TIMES * d3.median(doubt)) : least;
}

/** Where bands begin, from below; of signed values, one band lies around 0. */
function edges({ low, high }, width, isSigned) {
  const first = isSigned ? (Math.floor(low / width + 0.5) - 0.5) * width : low;
  return d3.range(first, high, width);
}

/** Draws shapes of a grid over a plot, whose first row is at the bottom. */
export function outline(side, [width, height]) {
  // Samples stand in the middle of the contours' cells; the outermost are on the frame of the plot.
  const [across, up] = [width / (side - 1), height / (side - 1)];
  const onPlot = d3.geoTransform({
    point(x, y) {
      this.stream.point((x - 0.5) * across, height - (y - 0.5) * up);
    },
  });
  return d3.geoPath(onPlot);
}
