/** The items of the set with their bars: the model's with its spread, MNL's, the ticks of IIA. */

import { labelled } from "./columns.js";
import { isInName } from "./names.js";
import { percent } from "./numbers.js";
import { OUTSIDE, isChanged, present } from "./state.js";

const d3 = globalThis.d3;

const ENDS = [0.1, 0.2, 0.4, 0.6, 0.8, 1]; // few, so that the axis seldom jumps under a moving bar
const VISIBLE_GAP = 0.002; // below this a bar ends at its tick, as far as eyes can tell
const FEW_ITEMS = 5; // more are shown more closely

/** Where the axis ends: the first round share that holds all bars and ticks. */
export function axisEnd(shares) {
  const most = d3.max(shares) ?? 1;
  return ENDS.find((end) => most <= end) ?? 1;
}

/** The fields that tell the items apart, or all where none does: what is said of an item. */
function telling(model, fields, items) {
  const own = fields.filter((field) => !isInName(model, field));
  const differ = (field) => new Set(items.map((item) => labelled(field, item.values))).size > 1;
  const found = own.filter(differ);
  return found.length ? found : own;
}

/** An item for a screen reader: its letter is said where it has a name. */
function spoken(names, { name }) {
  return names.get(name) === name ? `item ${name}` : `${names.get(name)} (${name})`;
}

export class Bars {
  constructor(root, axis, acts) {
    Object.assign(this, { root: d3.select(root), axis: d3.select(axis), acts });
  }

  /** `models`: for each, its key, label, shares by name, what IIA allows, and its spread. */
  draw({ model, state, frame, models, fields, names, isStale, hasOutside }) {
    const shares = models.flatMap(({ shares: now, allowed, doubt }) => [
      ...[...now].map(([name, share]) => Math.min(1, share + (doubt?.share.get(name) ?? 0))),
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
      .classed("many", rows.length > FEW_ITEMS)
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
        item.name === OUTSIDE ? names.get(OUTSIDE) : `Edit ${spoken(names, item)}`,
      );
    list.select(".badge").text((item) => (item.name === OUTSIDE ? "–" : item.name));
    const title = ({ name }) => (names.get(name) === name ? "" : names.get(name));
    list.select(".title").text(title);
    const told = telling(model, fields, state.items);
    const words = ({ name, values }) =>
      name === OUTSIDE ? "" : told.map((field) => labelled(field, values)).join(" · ");
    list.select(".values").text(words).attr("title", words); // in a long list they may be cut
    list.select(".tag").text((item) => this.#tag(state, item));
    list
      .select(".remove")
      .text((item) => (item.gone ? "Restore" : "Remove"))
      .attr("hidden", (item) => (item.name === OUTSIDE ? "" : null))
      .attr("disabled", (item) => (item.gone || canRemove ? null : ""))
      .attr("aria-label", (item) => `${item.gone ? "Restore" : "Remove"} ${spoken(names, item)}`);
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
    const told = pick.append("span").attr("class", "told");
    told.append("span").attr("class", "title");
    told.append("span").attr("class", "values");
    head.append("span").attr("class", "tag");
    head
      .append("button")
      .attr("type", "button")
      .attr("class", "remove quiet")
      .on("click", (_, item) => this.acts[item.gone ? "restore" : "remove"](item.name));
    row.append("div").attr("class", "tracks");
    return row;
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
          models.map(({ key, label, shares, allowed, doubt }) => ({
            key,
            label,
            share: shares.get(item.name) ?? null,
            allowed: allowed.get(item.name) ?? null,
            spread: doubt?.share.get(item.name) ?? null,
          })),
        (one) => one.key,
      )
      .join((enter) => {
        const made = enter.append("div").attr("class", (one) => `track ${one.key}`);
        const plot = made.append("div").attr("class", "plot");
        for (const part of ["bar", "spread", "gap", "mark"]) plot.append("div").attr("class", part);
        const share = made.append("span").attr("class", "share");
        share.append("span").attr("class", "number");
        share.append("span").attr("class", "doubt");
        return made;
      })
      .attr("data-model", (one) => one.key)
      .attr("data-share", (one) => one.share)
      .attr("data-allowed", (one) => one.allowed)
      .attr("data-spread", (one) => one.spread);
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
    this.#whiskers(track, scale);
    const isKnown = (one) => one.share !== null && one.spread !== null;
    track.select(".number").text((one) => (one.share === null ? "" : percent(one.share)));
    track.select(".doubt").text((one) => (isKnown(one) ? `±\u00a0${(100 * one.spread).toFixed(1)}` : ""));
    track
      .select(".share")
      .attr("aria-label", (one) => (one.share === null ? null : this.#spoken(one)));
  }

  /** From one spread below the share to one above. */
  #whiskers(track, scale) {
    const end = (one, sign) => Math.min(1, Math.max(0, one.share + sign * one.spread));
    const isShown = (one) => one.share !== null && one.spread !== null;
    track
      .select(".spread")
      .attr("hidden", (one) => (isShown(one) ? null : ""))
      .style("left", (one) => `${scale(end(one, -1))}%`)
      .style("width", (one) => `${scale(end(one, 1)) - scale(end(one, -1))}%`);
  }

  #spoken({ label, share, allowed, spread }) {
    const around = spread === null ? "" : `, plus or minus ${(100 * spread).toFixed(1)}`;
    const under = allowed === null ? "" : `; ${percent(allowed)} if IIA held`;
    return `${label} ${percent(share)}${around}${under}`;
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
