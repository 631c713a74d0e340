/** Controls for the columns of an item, or of the whole set: choices, switches, sliders, fields. */

import { fullLabel, levelAt } from "./columns.js";
import { rangeOf, snapped, stepOf } from "./numbers.js";

const d3 = globalThis.d3;

const UNREADABLE = Symbol("unreadable");
const NONE = "none of these";

/** What a text in a number's field says; a blank one says that the value is missing, if it may. */
function numberIn(text, mayBeMissing) {
  if (text.trim() === "") return mayBeMissing ? null : UNREADABLE;
  const value = Number(text.trim().replace(",", "."));
  return Number.isFinite(value) ? value : UNREADABLE;
}

// Levels are text, and so may be numbers in a table that are meant as names.
const isSame = (level, value) => level === value || (value !== null && level === String(value));

/** The levels to choose from; a value that is none of them is shown as what it is, at the end. */
function categoryOptions(column, value) {
  const known = [...(column.levels ?? []), ...(column.missing ? [null] : [])];
  const levels = known.some((level) => isSame(level, value)) ? known : [...known, value];
  return levels.map((level) => ({
    text: level ?? "missing",
    values: { [column.name]: level },
    isChosen: isSame(level, value),
  }));
}

/** One option per column of a group, which makes that 1 and the others 0; and none, if it may be. */
function groupOptions({ columns, levels }, values, others) {
  const at = (one) => levelAt({ columns }, one);
  const option = (text, place) => ({
    text,
    values: Object.fromEntries(columns.map((column, other) => [column.name, Number(other === place)])),
    isChosen: at(values) === place,
  });
  const hasNone = [values, ...others].some((one) => at(one) === -1);
  return [...levels.map(option), ...(hasNone ? [option(NONE, -1)] : [])];
}

/** A value as its field shows it: as many digits as have room, though all of them count. */
function inField(value) {
  return typeof value === "number" ? String(Number(value.toPrecision(6))) : (value ?? "");
}

/** How one field of the page looks: its control, and what the control needs to know. */
function controlOf(field, values, others) {
  const [column] = field.columns;
  const { name } = field;
  const value = values[column.name];
  const common = { name, column, value, label: field.label };
  if (field.kind === "choice")
    return { ...common, kind: "select", options: groupOptions(field, values, others) };
  if (field.kind === "switch" && (value === 0 || value === 1)) return { ...common, kind: "switch" };
  const label = fullLabel(column);
  if (column.kind === "category" && !column.other)
    return { ...common, label, kind: "select", options: categoryOptions(column, value) };
  const seen = others.map((one) => one[column.name]);
  const range = column.kind === "number" ? rangeOf(column, seen) : null;
  if (!range) return { ...common, label, kind: "text" };
  const step = stepOf(column, ...range);
  const [low, high] = [Math.floor(range[0] / step) * step, Math.ceil(range[1] / step) * step];
  return { ...common, label, kind: "slider", low, high, step };
}

export class Editor {
  #complaints = new Map(); // by column, of what was typed and could not be read

  constructor(root, prefix) {
    this.root = d3.select(root);
    this.prefix = prefix;
    this.of = undefined;
  }

  /** `of` names what is edited; `others` are the values that a slider's range must hold too. */
  draw({ of, fields, values, others, isDisabled, fault, edit }) {
    if (of !== this.of) this.#complaints.clear();
    this.of = of;
    this.edit = edit;
    const field = this.root
      .selectAll(".field")
      .data(
        fields.map((one) => controlOf(one, values, others)),
        (one) => `${one.name} ${one.kind}`,
      )
      .join((enter) => this.#enter(enter))
      .attr("data-column", (one) => one.name)
      .order();
    field.selectAll("input, select").attr("disabled", isDisabled ? "" : null);
    this.#show(field);
    this.#complain(field, fault);
  }

  #enter(enter) {
    const identity = (one) => `${this.prefix}-${one.name}`;
    const field = enter.append("div").attr("class", (one) => `field ${one.kind}`);
    field
      .append("label")
      .attr("for", identity)
      .text((one) => one.label);
    const of = (...kinds) => field.filter((one) => kinds.includes(one.kind));
    this.#enterSlider(of("slider"));
    this.#enterSelect(of("select"), identity);
    this.#enterSwitch(of("switch"), identity);
    this.#enterText(of("slider", "text"), identity);
    this.#enterLevels(of("text"), identity);
    field
      .append("p")
      .attr("class", "complaint")
      .attr("id", (one) => `${identity(one)}-complaint`);
    return field;
  }

  #enterSlider(field) {
    field
      .append("input")
      .attr("type", "range")
      .attr("aria-label", (one) => `${one.label}, slider`)
      .on("input", (event, one) =>
        this.#set(one, snapped(event.target.valueAsNumber, one.step), "slider"),
      );
  }

  #enterSelect(field, identity) {
    field
      .append("select")
      .attr("class", "value")
      .attr("id", identity)
      .on("change", (event, one) =>
        this.#edit(one, one.options[event.target.selectedIndex].values, "choice"),
      );
  }

  #enterSwitch(field, identity) {
    field
      .append("input")
      .attr("type", "checkbox")
      .attr("role", "switch")
      .attr("class", "value")
      .attr("id", identity)
      .on("change", (event, one) => this.#set(one, Number(event.target.checked), "switch"));
  }

  #enterText(field, identity) {
    field
      .append("input")
      .attr("type", "text")
      .attr("class", "value")
      .attr("id", identity)
      .attr("autocomplete", "off")
      .attr("spellcheck", "false")
      .attr("inputmode", (one) => (one.column.kind === "number" ? "decimal" : null))
      .on("input", (event, one) => this.#typed(one, event.target.value))
      .on("blur", (event, one) => {
        event.target.value = inField(one.value);
      });
  }

  /** What is known of a text that may be anything. */
  #enterLevels(field, identity) {
    const open = field.filter((one) => one.column.levels);
    open.select("input").attr("list", (one) => `${identity(one)}-levels`);
    open
      .append("datalist")
      .attr("id", (one) => `${identity(one)}-levels`)
      .selectAll("option")
      .data((one) => one.column.levels)
      .join("option")
      .attr("value", (level) => level);
  }

  #typed(one, text) {
    const value = one.column.kind === "number" ? numberIn(text, one.column.missing) : text;
    if (value === UNREADABLE) {
      const what = text.trim() ? `“${text.trim()}” is not a number` : "A number is needed";
      this.#complaints.set(one.name, `${what}: write one such as 12.5.`);
      this.#complain(this.root.selectAll(".field"), null);
    } else {
      this.#set(one, value);
    }
  }

  #set(one, value, by = "field") {
    this.#edit(one, { [one.name]: value }, by);
  }

  #edit(one, values, by) {
    this.#complaints.delete(one.name);
    this.edit(values, `${this.of} ${one.name} ${by}`);
  }

  #show(field) {
    field
      .select("input[type=range]")
      .attr("min", (one) => one.low)
      .attr("max", (one) => one.high)
      .attr("step", (one) => one.step)
      .property("value", (one) => one.value ?? one.low);
    const isOpen = (node) => node === document.activeElement; // never under the hand that types
    field.select("input.value[type=text]").each(function write(one) {
      if (!isOpen(this)) this.value = inField(one.value);
    });
    field.select("input[type=checkbox]").property("checked", (one) => one.value === 1);
    field.select("select.value").each(function write(one) {
      d3.select(this)
        .selectAll("option")
        .data(one.options)
        .join("option")
        .text((option) => option.text);
      this.selectedIndex = one.options.findIndex((option) => option.isChosen);
    });
  }

  #complain(field, fault) {
    const complaint = ({ name, column }) =>
      this.#complaints.get(name) ?? (fault?.column === column.name ? fault.message : "");
    field.select(".complaint").text(complaint);
    field
      .select(".value")
      .attr("aria-invalid", (one) => (complaint(one) ? "true" : null))
      .attr("aria-describedby", (one) =>
        complaint(one) ? `${this.prefix}-${one.name}-complaint` : null,
      );
  }
}
