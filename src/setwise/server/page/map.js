/** The map of two columns: items where their values put them, and a decoy that can be dragged. */

import { scaleLegend } from "./colours.js";
import { fullLabel, labelOf } from "./columns.js";
import { outline, paint } from "./contours.js";
import { whereOf } from "./field.js";
import { percent, short, snapped, stepOf } from "./numbers.js";
import { placed } from "./labels.js";
import { present } from "./state.js";

const d3 = globalThis.d3;

const MARGIN = { top: 26, right: 14, bottom: 40, left: 46 };
const TALLEST = 430;
const WIDER = 1.3; // a diamond than a disc of about the same area
const HALF_DIAGONAL = 0.62625; // of d3's diamond of size 1
const KEY_STEPS = 50; // key presses from one end of an axis to the other
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

const radius = (share) => Math.max(10, 30 * Math.sqrt(share ?? 0));

/** The pattern of places at which the members of the model disagree. */
function hatching(svg) {
  svg
    .append("pattern")
    .attr("id", "map-hatch")
    .attr("width", 7)
    .attr("height", 7)
    .attr("patternUnits", "userSpaceOnUse")
    .attr("patternTransform", "rotate(45)")
    .append("rect")
    .attr("class", "hatch")
    .attr("width", 1.5)
    .attr("height", 7);
}

export class DecoyMap {
  constructor(root, legend, move) {
    Object.assign(this, { root, legend, move });
    const svg = d3
      .select(root)
      .append("svg")
      .attr("role", "group")
      .attr("aria-label", "Map of the items");
    svg.append("clipPath").attr("id", "map-clip").append("rect");
    hatching(svg);
    for (const name of ["background", "unsure", "across", "up"]) svg.append("g").attr("class", name);
    svg.append("text").attr("class", "axis-name across-name");
    svg.append("text").attr("class", "axis-name up-name");
    svg
      .append("rect")
      .attr("class", "surface")
      .on("click", (event) => this.#to(d3.pointer(event, this.plot.node())));
    this.plot = svg.append("g").attr("class", "marks");
    this.svg = svg;
    this.handle = this.#handle();
    new ResizeObserver(() => this.last && this.draw(...this.last)).observe(root);
  }

  /** `shares` of the model shown, by name; `field` may be of a set that is no longer there. */
  draw(state, frame, shares, field, names) {
    this.last = [state, frame, shares, field, names];
    this.names = names;
    this.svg.attr("hidden", frame.axes && frame.decoy ? null : "");
    const width = this.root.clientWidth;
    if (!frame.axes || !frame.decoy || width === 0) return;
    const height = Math.min(TALLEST, Math.max(260, 0.78 * width));
    this.frame = frame;
    this.size = [width - MARGIN.left - MARGIN.right, height - MARGIN.top - MARGIN.bottom];
    const [across, up] = this.size;
    const { x, y } = frame.axes;
    this.x = d3.scaleLinear([x.low, x.high], [0, across]);
    this.y = d3.scaleLinear([y.low, y.high], [up, 0]);
    this.svg.attr("viewBox", `0 0 ${width} ${height}`).attr("height", height);
    const inner = this.svg.selectAll(".background, .unsure, .marks, .surface");
    inner.attr("transform", `translate(${MARGIN.left},${MARGIN.top})`);
    this.svg.selectAll(".surface, #map-clip rect").attr("width", across).attr("height", up);
    this.svg.selectAll(".background, .unsure").attr("clip-path", "url(#map-clip)");
    this.#axes(x, y);
    this.#background(field?.where === whereOf(frame) ? field : null);
    this.#points(present(state), shares);
  }

  #axes(x, y) {
    const [across, up] = this.size;
    const ticks = Math.max(3, Math.floor(across / 90));
    this.svg
      .select(".across")
      .attr("transform", `translate(${MARGIN.left},${MARGIN.top + up})`)
      .call(d3.axisBottom(this.x).ticks(ticks).tickSizeOuter(0));
    this.svg
      .select(".up")
      .attr("transform", `translate(${MARGIN.left},${MARGIN.top})`)
      .call(d3.axisLeft(this.y).ticks(5).tickSizeOuter(0));
    this.svg
      .select(".across-name")
      .text(`${fullLabel(x.column)} →`)
      .attr("x", MARGIN.left + across)
      .attr("y", MARGIN.top + up + 34);
    this.svg
      .select(".up-name")
      .text(`↑ ${fullLabel(y.column)}`)
      .attr("x", 4)
      .attr("y", MARGIN.top - 12);
  }

  #background(field) {
    const { mapped, quantity } = this.frame;
    const { bands, unsure, scale } = paint(field, mapped, quantity);
    this.isHatched = Boolean(unsure?.coordinates.length);
    this.svg
      .select(".background")
      .selectAll("path")
      .data(bands)
      .join("path")
      .attr("d", ({ shape }) => outline(field.side, this.size)(shape))
      .attr("fill", ({ colour }) => colour);
    this.svg
      .select(".unsure")
      .selectAll("path")
      .data(unsure ? [unsure] : [])
      .join("path")
      .attr("d", (shape) => outline(field.side, this.size)(shape))
      .attr("fill", "url(#map-hatch)");
    scaleLegend(this.legend, scale);
  }

  #handle() {
    const handle = this.plot
      .append("g")
      .attr("class", "handle")
      .attr("tabindex", 0)
      .attr("role", "slider")
      .attr("aria-roledescription", "decoy, movable in two directions")
      .on("keydown", (event) => this.#key(event));
    handle.append("circle").attr("class", "reach").attr("r", 24);
    handle.append("path").attr("class", "diamond");
    handle.append("text").attr("class", "letter").attr("dy", "0.35em");
    handle.call(
      d3
        .drag()
        .container(() => this.plot.node())
        .on("start", () => handle.classed("held", true))
        .on("drag", (event) => this.#to([event.x, event.y]))
        .on("end", () => handle.classed("held", false))
        .subject(() => ({ x: this.at[0], y: this.at[1] })),
    );
    return handle;
  }

  #points(items, shares) {
    const {
      decoy,
      focal,
      axes: { x, y },
    } = this.frame;
    const marks = items.map((item) => ({
      name: item.name,
      share: shares?.get(item.name) ?? null,
      x: this.x(item.values[x.column.name] ?? x.low),
      y: this.y(item.values[y.column.name] ?? y.low),
      values: item.values,
    }));
    const others = marks.filter((mark) => mark.name !== decoy);
    const point = this.plot
      .selectAll("g.point")
      .data(others, (mark) => mark.name)
      .join((enter) => {
        const made = enter.insert("g", ".handle").attr("class", "point");
        made.append("circle");
        made.append("text").attr("class", "letter").attr("dy", "0.35em");
        return made;
      })
      .attr("transform", (mark) => `translate(${mark.x},${mark.y})`)
      .classed("focal", (mark) => mark.name === focal);
    point.select("circle").attr("r", (mark) => radius(mark.share));
    point.select(".letter").text((mark) => mark.name);
    this.#moveHandle(
      marks.find((mark) => mark.name === decoy),
      x,
      y,
    );
    this.#labels(marks);
  }

  #moveHandle(mark, x, y) {
    this.at = [mark.x, mark.y];
    const size = ((WIDER * radius(mark.share)) / HALF_DIAGONAL) ** 2;
    this.handle
      .raise()
      .attr("transform", `translate(${mark.x},${mark.y})`)
      .attr("aria-label", `Decoy ${this.names.get(mark.name)}`)
      .attr("aria-valuenow", mark.values[x.column.name])
      .attr("aria-valuemin", x.low)
      .attr("aria-valuemax", x.high)
      .attr(
        "aria-valuetext",
        [x, y].map(({ column }) => `${labelOf(column)} ${short(mark.values[column.name])}`).join(", "),
      );
    this.handle.select(".diamond").attr("d", d3.symbol(d3.symbolDiamond2, size)());
    this.handle.select(".letter").text(mark.name);
  }

  #labels(marks) {
    const reach = ({ name, share }) => radius(share) * (name === this.frame.decoy ? WIDER : 1);
    const shown = marks.filter((mark) => mark.share !== null);
    const sized = shown.map((mark) => ({ ...mark, radius: reach(mark) }));
    const labels = placed(sized, this.size);
    this.plot
      .selectAll("text.percent")
      .data(labels, (one) => one.name)
      .join("text")
      .attr("class", "percent")
      .attr("x", (one) => one.left)
      .attr("y", (one) => one.baseline)
      .text((one) => percent(one.share));
  }

  /** The decoy goes to a place of the plot, as near as the frame and the columns' steps allow. */
  #to([across, up]) {
    this.#moveTo(this.x.invert(across), this.y.invert(up), "pointer");
  }

  #moveTo(across, up, how) {
    const { x, y } = this.frame.axes;
    const near = (value, { low, high, column }) =>
      Math.min(high, Math.max(low, snapped(value, stepOf(column, low, high))));
    this.move({ [x.column.name]: near(across, x), [y.column.name]: near(up, y) }, how);
  }

  #key(event) {
    const arrow = ARROWS[event.key];
    if (!arrow || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const { x, y } = this.frame.axes;
    const by = ({ low, high, column }) =>
      Math.max(column.step ?? 0, (high - low) / KEY_STEPS) * (event.shiftKey ? 5 : 1);
    const [across, up] = [this.x.invert(this.at[0]), this.y.invert(this.at[1])];
    this.#moveTo(across + arrow[0] * by(x), up + arrow[1] * by(y), "keys");
  }
}
