/** The items of the set with their bars: the model's, MNL's, and the ticks of IIA. */

import { percent, short } from "./numbers.js";
import { OUTSIDE, isChanged, present } from "./state.js";

const d3 = globalThis.d3;

const ENDS = [0.1, 0.2, 0.4, 0.6, 0.8, 1]; // few, so that the axis seldom jumps under a moving bar
const VISIBLE_GAP = 0.002; // below this a bar ends at its tick, as far as eyes can tell

export const called = (name) => (name === OUTSIDE ? "None of them" : name);

/** Where the axis ends: the first round share that holds all bars and ticks. */
export function axisEnd(shares) {
  const most = d3.max(shares) ?? 1;
  return ENDS.find((end) => most <= end) ?? 1;
}

/** The columns that tell the items apart, or all where none does: what is said of an item. */
function telling(columns, items) {
  const differ = ({ name }) => new Set(items.map((item) => item.values[name])).size > 1;
  const found = columns.filter(differ);
  return found.length ? found : columns;
}

export class Bars {
  constructor(root, axis, acts) {
    Object.assign(this, { root: d3.select(root), axis: d3.select(axis), acts });
  }

  /** `models`: for each, its key, label, shares by name, and what IIA allows by name. */
  draw({ state, frame, models, columns, isStale, hasOutside }) {
    const shares = models.flatMap(({ shares: now, allowed }) => [
      ...now.values(),
      ...allowed.values(),
    ]);
    const scale = d3.scaleLinear([0, axisEnd(shares)], [0, 100]);
    const rows = [
      ...state.items,
      ...(hasOutside ? [{ name: OUTSIDE, values: {}, gone: false }] : []),
    ];
    const canRemove = present(state).length > 1;
    const list = this.root
      .classed("stale", isStale)
      .selectAll("li.item")
      .data(rows, (item) => item.name)
      .join((enter) => this.#enter(enter))
      .attr("data-item", (item) => item.name)
      .classed("gone", (item) => item.gone)
      .classed("selected", (item) => item.name === frame.selected);
    list
      .select(".pick")
      .attr("aria-pressed", (item) => String(item.name === frame.selected))
      .attr("disabled", (item) => (item.name === OUTSIDE ? "" : null))
      .attr("aria-label", (item) =>
        item.name === OUTSIDE ? called(item.name) : `Edit item ${item.name}`,
      );
    list.select(".badge").text((item) => (item.name === OUTSIDE ? "–" : item.name));
    list.select(".values").text((item) => this.#values(item, telling(columns, state.items)));
    list.select(".tag").text((item) => this.#tag(state, item));
    list
      .select(".remove")
      .text((item) => (item.gone ? "Restore" : "Remove"))
      .attr("hidden", (item) => (item.name === OUTSIDE ? "" : null))
      .attr("disabled", (item) => (item.gone || canRemove ? null : ""))
      .attr("aria-label", (item) => `${item.gone ? "Restore" : "Remove"} item ${item.name}`);
    this.#tracks(list, models, scale);
    this.#axis(scale);
  }

  /** The element of an item's row. */
  row(name) {
    return this.root
      .selectAll("li.item")
      .filter((item) => item.name === name)
      .node();
  }

  #enter(enter) {
    const row = enter.append("li").attr("class", "item");
    const head = row.append("div").attr("class", "item-head");
    const pick = head
      .append("button")
      .attr("type", "button")
      .attr("class", "pick")
      .on("click", (_, item) => this.acts.select(item.name));
    pick.append("span").attr("class", "badge");
    pick.append("span").attr("class", "values");
    head.append("span").attr("class", "tag");
    head
      .append("button")
      .attr("type", "button")
      .attr("class", "remove quiet")
      .on("click", (_, item) => this.acts[item.gone ? "restore" : "remove"](item.name));
    row.append("div").attr("class", "tracks");
    return row;
  }

  #values(item, columns) {
    if (item.name === OUTSIDE) return called(OUTSIDE);
    return columns.map(({ name }) => `${name}\u00a0${short(item.values[name])}`).join(" · ");
  }

  #tag(state, item) {
    if (item.gone) return "removed";
    const changed = item.name !== OUTSIDE && isChanged(state, item);
    if (changed) return "changed";
    return item.name === state.chosen ? "chosen in the data" : "";
  }

  #tracks(list, models, scale) {
    const track = list
      .select(".tracks")
      .selectAll(".track")
      .data(
        (item) =>
          models.map(({ key, label, shares, allowed }) => ({
            key,
            label,
            share: shares.get(item.name) ?? null,
            allowed: allowed.get(item.name) ?? null,
          })),
        (one) => one.key,
      )
      .join((enter) => {
        const made = enter.append("div").attr("class", (one) => `track ${one.key}`);
        const plot = made.append("div").attr("class", "plot");
        for (const part of ["bar", "gap", "mark"]) plot.append("div").attr("class", part);
        made.append("span").attr("class", "share");
        return made;
      })
      .attr("data-model", (one) => one.key)
      .attr("data-share", (one) => one.share)
      .attr("data-allowed", (one) => one.allowed);
    const grid = scale.ticks(4)[1];
    track.select(".plot").style("--grid", `${scale(grid)}%`);
    track.select(".bar").style("width", (one) => `${scale(one.share ?? 0)}%`);
    track
      .select(".mark")
      .attr("hidden", (one) => (one.allowed === null ? "" : null))
      .style("left", (one) => `${scale(one.allowed ?? 0)}%`);
    const isApart = (one) =>
      one.allowed !== null && Math.abs(one.share - one.allowed) > VISIBLE_GAP;
    track
      .select(".gap")
      .attr("hidden", (one) => (isApart(one) ? null : ""))
      .style("left", (one) => `${scale(Math.min(one.share, one.allowed))}%`)
      .style("width", (one) => `${scale(Math.abs(one.share - one.allowed))}%`);
    track
      .select(".share")
      .text((one) => (one.share === null ? "" : percent(one.share)))
      .attr("aria-label", (one) => (one.share === null ? null : this.#spoken(one)));
  }

  #spoken({ label, share, allowed }) {
    const under = allowed === null ? "" : `; ${percent(allowed)} if IIA held`;
    return `${label} ${percent(share)}${under}`;
  }

  #axis(scale) {
    this.axis
      .selectAll("span")
      .data(scale.ticks(4), (share) => share)
      .join("span")
      .text((share) => `${Math.round(100 * share)} %`)
      .style("left", (share) => `${scale(share)}%`);
  }
}
