/** The influence heat map: how much an item helps or hurts each other one beyond IIA. */

import { points } from "./numbers.js";
import { inkOn, scaleLegend, signedScale } from "./colours.js";

const d3 = globalThis.d3;

// Columns in which a number with its decimals, or at all, has room.
const MOST_WITH_DECIMALS = 6;
const MOST_WRITTEN = 12;

/** A number for a narrow cell: without decimals from ten points on. */
function brief(value) {
  return Math.abs(value) < 0.0995 ? points(value) : points(value).replace(/\.\d$/, "");
}

/**
 * `cells[i][j]`: the share of j among all but i, with i there less without it; null for j = i.
 *
 * With i there it is P(j) / (1 - P(i)), which IIA says is the share without i.
 */
export function helpBeyondIIA({ without, iia }) {
  return without.map((row, place) =>
    row.map((share, other) =>
      other === place || share === null ? null : iia[place][other] - share,
    ),
  );
}

export class Heat {
  constructor(root, legend) {
    Object.assign(this, { root: d3.select(root), legend });
  }

  draw(explained, { heated, noHeat }, called) {
    const refusal = noHeat ?? explained?.refusal ?? null;
    this.root
      .selectAll("p")
      .data(refusal ? [refusal] : [])
      .join("p")
      .text((text) => text);
    const names = refusal || !explained ? [] : explained.names;
    const answer = heated === "mnl" ? explained?.answer?.mnl : explained?.answer;
    const cells = names.length && answer ? helpBeyondIIA(answer) : [];
    const scale = signedScale(cells.flat().filter((one) => one !== null));
    this.#table(names, cells, scale.colour, called);
    scaleLegend(this.legend, cells.length ? scale : null);
  }

  #table(names, cells, colour, called) {
    const isDense = names.length > MOST_WITH_DECIMALS;
    const written = (value) => (isDense ? brief(value) : points(value));
    const table = this.root
      .selectAll("table")
      .data(cells.length ? [names] : [])
      .join((enter) => {
        const made = enter.append("table");
        made.append("caption").attr("class", "unseen").text("Percentage points beyond IIA");
        made.append("thead").append("tr");
        made.append("tbody");
        return made;
      })
      .classed("dense", isDense)
      .classed("crowded", names.length > MOST_WRITTEN);
    table
      .select("thead tr")
      .selectAll("th")
      .data(["", ...names])
      .join("th")
      .attr("scope", "col")
      .attr("title", (name) => called.get(name) ?? null)
      .text((name) => (isDense ? name : (called.get(name) ?? "")));
    const row = table
      .select("tbody")
      .selectAll("tr")
      .data(cells.map((values, place) => ({ place, values })))
      .join((enter) => {
        const made = enter.append("tr");
        const named = made.append("th").attr("scope", "row");
        named.append("b").attr("class", "letter");
        named.append("span").attr("class", "name");
        return made;
      });
    const own = ({ place }) => called.get(names[place]) ?? "";
    row.select(".letter").text(({ place }) => (isDense ? `${names[place]}\u00a0` : ""));
    row
      .select(".name")
      .text((one) => (isDense ? (own(one) === names[one.place] ? "" : own(one)) : `with ${own(one)}`));
    row
      .selectAll("td")
      .data(({ place, values }) =>
        values.map((value, other) => ({
          value,
          says:
            value === null
              ? null
              : `${called.get(names[place])} on ${called.get(names[other])}: ${points(value)} points beyond IIA`,
        })),
      )
      .join("td")
      .attr("data-value", (one) => one.value)
      .attr("title", (one) => one.says)
      .classed("none", (one) => one.value === null)
      .text((one) => (one.value === null ? "" : written(one.value)))
      .style("background-color", (one) => (one.value === null ? null : colour(one.value)))
      .style("color", (one) => (one.value === null ? null : inkOn(colour(one.value))));
  }
}
