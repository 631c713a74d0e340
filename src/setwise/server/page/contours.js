/** The background of the map: a field as bands of colour, and what the colours mean. */

import { rising, signedScale } from "./colours.js";
import { percent } from "./numbers.js";

const d3 = globalThis.d3;

const BANDS = 14;
const BLANK = 0.001; // as far as eyes can tell, of a field that IIA leaves at 0

/** The scale of a quantity: its ends, colours and words; null where there is nothing to paint. */
function scaleOf(values, model, quantity) {
  if (quantity === "beyond") return signedScale(values);
  const [low, high] = d3.extent(values);
  if (low === high) return null;
  return { low, high, colour: rising(low, high, model), texts: [percent(low), percent(high)] };
}

/** The bands of a field from below, each with its colour, and the scale they are of. */
export function paint(field, model, quantity) {
  const values = field?.[model]?.[quantity];
  const scale = values ? scaleOf(values, model, quantity) : null;
  if (scale === null) return { bands: [], scale };
  const { low, high, colour } = scale;
  const isBlank = quantity === "beyond" && d3.max(values, Math.abs) < BLANK;
  const width = (high - low) / BANDS;
  const thresholds = d3.range(BANDS).map((band) => low + band * width);
  const shapes = isBlank
    ? []
    : d3.contours().size([field.side, field.side]).thresholds(thresholds)(values);
  const bands = shapes.map((shape) => ({ shape, colour: colour(shape.value + width / 2) }));
  return { bands, scale };
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
