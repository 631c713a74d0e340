/** The card that proposes a change of the set, says what is sure about it, and applies it. */

import { fullLabel, itemFields, labelled } from "./columns.js";
import { axisColumns } from "./frame.js";
import { count, percent } from "./numbers.js";
import {
  amount,
  besideWords,
  changes,
  comparison,
  difference,
  doubtWords,
  goalWords,
  originWords,
  proofWords,
  question,
  sides,
  signed,
  sizes,
} from "./proposal.js";
import { Newest } from "./service.js";
import { present } from "./state.js";

const d3 = globalThis.d3;

const element = (id) => document.getElementById(id);
const CONTROLS = ["improve-goal", "improve-keep", "improve-add", "improve-low", "improve-high"];

/** Options of a list; the choice stays where it is still among them. */
function options(id, choices, usual) {
  const list = element(id);
  const before = list.value;
  d3.select(list)
    .selectAll("option")
    .data(choices)
    .join("option")
    .attr("value", ([value]) => value)
    .text(([, text]) => text);
  const values = choices.map(([value]) => String(value));
  list.value = values.includes(before) ? before : String(usual);
}

export class Improve {
  #proposal = null;
  #said = "";
  #isAsking = false;
  #size = null; // of the set for which the numbers of items were chosen

  constructor(model, session) {
    Object.assign(this, { model, session });
    const fail = (error) => this.#end(error.message);
    this.decisions = new Newest("v1/decide", {
      receive: (answer, about) => this.#decided(answer, about),
      fail,
      replaces: true,
    });
    this.comparisons = new Newest("v1/predict", {
      receive: (answer, about) => this.#compared(answer, about),
      fail,
      replaces: true,
    });
    element("improve-ask").addEventListener("click", () => this.#ask());
    element("improve-apply").addEventListener("click", () => this.#apply());
    element("improve-open").addEventListener("click", () => this.#open());
    element("improve-more").addEventListener("click", () =>
      this.#unfold("improve-more", "improve-settings"),
    );
    for (const id of CONTROLS)
      element(id).addEventListener("change", () => this.draw(this.session(), this.names));
  }

  /** Shows what a button controls, or hides it again. */
  #unfold(button, part) {
    element(part).hidden = !element(part).hidden;
    element(button).setAttribute("aria-expanded", String(!element(part).hidden));
  }

  /** The button that opens the card asks at once. */
  #open() {
    this.#unfold("improve-open", "improve");
    if (!element("improve").hidden && element("improve-result").hidden) this.#ask();
  }

  get #wish() {
    const [kind, name] = element("improve-goal").value.split(/:(.*)/s);
    const column = axisColumns(this.model).find((one) => one.name === name);
    return {
      goal: kind === "item" ? name : column,
      keeps: element("improve-keep").value === "all",
      adds: element("improve-add").value,
      low: Number(element("improve-low").value),
      high: Number(element("improve-high").value),
    };
  }

  draw(session, names) {
    this.names = names;
    this.#controls(session, names);
    const { keeps, adds } = this.#wish;
    const isIdle = keeps && adds === "none";
    element("improve-ask").disabled = isIdle;
    element("improve").setAttribute("aria-busy", String(this.#isAsking)); // the focus stays
    element("improve-ask").textContent = this.#isAsking ? "Searching…" : "Propose a change";
    const { state } = session;
    const proposal = this.#proposal;
    const isApplied = proposal !== null && proposal.next === state;
    const isCurrent = isApplied || (proposal !== null && proposal.about.state === state);
    element("improve-result").hidden = !isCurrent;
    element("improve-note").textContent = this.#note(isIdle, proposal !== null && !isCurrent);
    if (isCurrent) this.#result(proposal, isApplied);
  }

  #note(isIdle, isOld) {
    if (this.#said !== "") return this.#said;
    if (isIdle) return "Let items be left out, or let some be added.";
    return isOld ? "The set is another one by now: ask again." : "";
  }

  #controls({ state, frame }, names) {
    const items = present(state);
    const columns = axisColumns(this.model);
    const goals = [
      ...items.map(({ name }) => [`item:${name}`, `more choose ${names.get(name)}`]),
      ...columns.map((one) => [`column:${one.name}`, `expected ${fullLabel(one)} is highest`]),
    ];
    const usualItem = items.find(({ name }) => name === frame.selected) ?? items[0];
    options("improve-goal", goals, `item:${usualItem.name}`);
    if (this.#size !== items.length) {
      element("improve-low").value = "";
      element("improve-high").value = "";
    }
    this.#size = items.length;
    const { least, most, usual } = sizes(this.model, state, this.#wish);
    const numbers = (from) => d3.range(from, most + 1).map((one) => [one, count(one, "item")]);
    options("improve-low", numbers(least), usual);
    const low = Number(element("improve-low").value);
    options("improve-high", numbers(low), Math.min(most, Math.max(low, usual + 1)));
  }

  #ask() {
    const { state } = this.session();
    const { body, about } = question(this.model, state, this.#wish);
    this.#proposal = null;
    this.#said = "";
    this.#isAsking = true;
    this.comparisons.drop();
    this.decisions.ask(body, about);
    this.draw(this.session(), this.names);
  }

  #decided(answer, about) {
    this.comparisons.ask(comparison(about, answer), { about, answer });
  }

  #compared(shares, { about, answer }) {
    const found = changes(about, answer);
    this.#proposal = {
      about,
      answer,
      ...found,
      names: this.names,
      sides: sides(this.model, about, answer, shares),
    };
    this.#end("");
  }

  #end(said) {
    this.#isAsking = false;
    this.#said = said;
    this.draw(this.session(), this.names);
  }

  #apply() {
    const { next } = this.#proposal;
    if (this.session().state === next) this.session().undo();
    else this.session().change(next);
  }

  #result(proposal, isApplied) {
    const { about, answer, leave, join } = proposal;
    const { goal } = about.wish;
    const isChange = leave.length + join.length > 0;
    element("improve-title").textContent = this.#summary(proposal);
    this.#steps(proposal);
    this.#table(proposal, isChange);
    const words = [
      proofWords(goal, answer),
      ...(isChange ? [doubtWords(goal, proposal.sides[0])] : []),
      besideWords(goal, proposal),
    ];
    d3.select("#improve-words")
      .selectAll("li")
      .data(words.filter(Boolean))
      .join("li")
      .text((sentence) => sentence);
    element("improve-apply").hidden = !isChange;
    element("improve-apply").textContent = isApplied ? "Undo this change" : "Apply this change";
  }

  #summary({ about, sides: [first], leave, join, names }) {
    const { goal } = about.wish;
    const what = goalWords(goal, names);
    if (leave.length + join.length === 0)
      return `No change helps. ${what} stays at ${amount(goal, first.now)}.`;
    const told = `${what} goes from ${amount(goal, first.now)} to ${amount(goal, first.after)}`;
    return `${told} (${difference(goal, first.after - first.now)}).`;
  }

  /** One line per item that leaves or joins. */
  #steps({ about, answer, leave, join, names }) {
    const fields = itemFields(this.model);
    const told = (values) => fields.map((field) => labelled(field, values)).join(" · ");
    const from = (one) => originWords(one, about.state, names);
    const share = (one) => percent(answer.probabilities[about.all.indexOf(one)]);
    const steps = [
      ...leave.map((item) => ["Leave out", `${names.get(item.name)}: ${told(item.values)}`, ""]),
      ...join.map((one) => [
        "Add",
        told(one.values),
        `${from(one)}; itself chosen by ${share(one)}`,
      ]),
    ];
    const line = d3
      .select("#improve-steps")
      .selectAll("li")
      .data(steps)
      .join((enter) => {
        const row = enter.append("li");
        row.append("b");
        row.append("span");
        row.append("small");
        return row;
      });
    line.select("b").text(([deed]) => deed);
    line.select("span").text(([, what]) => what);
    line.select("small").text(([, , more]) => more);
  }

  /** What each model expects now and after; a bar is as long as its share of the largest. */
  #table({ about, sides: all }, isChange) {
    const { goal } = about.wish;
    const most = Math.max(...all.flatMap((one) => [Math.abs(one.now), Math.abs(one.after)])) || 1;
    const row = d3
      .select("#improve-table tbody")
      .selectAll("tr")
      .data(all)
      .join((enter) => {
        const line = enter.append("tr");
        line.append("th").attr("scope", "row");
        for (const when of ["now", "after"]) {
          const cell = line.append("td").attr("class", when);
          cell.append("span");
          cell.append("i").attr("aria-hidden", "true");
        }
        line.append("td").attr("class", "change");
        return line;
      })
      .attr("class", (one) => one.key)
      .attr("data-now", (one) => one.now)
      .attr("data-after", (one) => one.after);
    row.select("th").text((one) => one.label);
    for (const when of ["now", "after"]) {
      row.select(`.${when} span`).text((one) => amount(goal, one[when]));
      row.select(`.${when} i`).style("width", (one) => `${(100 * Math.abs(one[when])) / most}%`);
    }
    row.select(".change").text((one) => {
      const doubt = one.doubt === null ? "" : ` ± ${signed(goal, one.doubt).replace("+", "")}`;
      return isChange ? `${signed(goal, one.after - one.now)}${doubt}` : "–";
    });
  }
}
