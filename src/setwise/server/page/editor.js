/** Fields and sliders for the columns of an item, or of the whole set. */

import { rangeOf, snapped, stepOf } from "./numbers.js";

const d3 = globalThis.d3;

const UNREADABLE = Symbol("unreadable");

/** What a text in a number's field says; a blank one says that the value is missing, if it may. */
function numberIn(text, mayBeMissing) {
  if (text.trim() === "") return mayBeMissing ? null : UNREADABLE;
  const value = Number(text.trim().replace(",", "."));
  return Number.isFinite(value) ? value : UNREADABLE;
}

// Levels are text, and so may be numbers in a table that are meant as names.
const isSame = (level, value) => level === value || (value !== null && level === String(value));

/** The levels to choose from; a value that is none of them is shown as what it is, at the end. */
function shownLevels({ column, value }) {
  const levels = [...(column.levels ?? []), ...(column.missing ? [null] : [])];
  return levels.some((level) => isSame(level, value)) ? levels : [...levels, value];
}

/** A value as its field shows it: as many digits as have room, though all of them count. */
function inField(value) {
  return typeof value === "number" ? String(Number(value.toPrecision(6))) : (value ?? "");
}

export class Editor {
  #complaints = new Map(); // by column, of what was typed and could not be read

  constructor(root, prefix) {
    this.root = d3.select(root);
    this.prefix = prefix;
    this.of = undefined;
  }

  /** `of` names what is edited; `others` are the values that a slider's range must hold too. */
  draw({ of, columns, values, others, isDisabled, fault, edit }) {
    if (of !== this.of) this.#complaints.clear();
    this.of = of;
    this.edit = edit;
    const data = columns.map((column) => this.#field(column, values, others));
    const field = this.root
      .selectAll(".field")
      .data(data, (one) => `${one.column.name} ${one.kind}`)
      .join((enter) => this.#enter(enter))
      .attr("data-column", (one) => one.column.name);
    field.selectAll("input, select").attr("disabled", isDisabled ? "" : null);
    this.#show(field);
    this.#complain(field, fault);
  }

  #field(column, values, others) {
    const value = values[column.name];
    const range =
      column.kind === "number"
        ? rangeOf(
            column,
            others.map((one) => one[column.name]),
          )
        : null;
    const isClosed = column.kind === "category" && !column.other;
    const kind = isClosed ? "select" : range ? "slider" : "text";
    if (!range) return { column, kind, value };
    const step = stepOf(column, ...range);
    const [low, high] = [Math.floor(range[0] / step) * step, Math.ceil(range[1] / step) * step];
    return { column, kind, value, low, high, step };
  }

  #enter(enter) {
    const identity = (one) => `${this.prefix}-${one.column.name}`;
    const field = enter.append("div").attr("class", (one) => `field ${one.kind}`);
    field
      .append("label")
      .attr("for", identity)
      .text((one) => one.column.name);
    field
      .filter((one) => one.kind === "slider")
      .append("input")
      .attr("type", "range")
      .attr("aria-label", (one) => `${one.column.name}, slider`)
      .on("input", (event, one) =>
        this.#set(one, snapped(event.target.valueAsNumber, one.step), "slider"),
      );
    field
      .filter((one) => one.kind === "select")
      .append("select")
      .attr("class", "value")
      .attr("id", identity)
      .on("change", (event, one) => this.#set(one, shownLevels(one)[event.target.selectedIndex]));
    field
      .filter((one) => one.kind !== "select")
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
    const open = field.filter((one) => one.kind === "text" && one.column.levels);
    open.select("input").attr("list", (one) => `${identity(one)}-levels`);
    open
      .append("datalist")
      .attr("id", (one) => `${identity(one)}-levels`)
      .selectAll("option")
      .data((one) => one.column.levels)
      .join("option")
      .attr("value", (level) => level);
    field
      .append("p")
      .attr("class", "complaint")
      .attr("id", (one) => `${identity(one)}-complaint`);
    return field;
  }

  #typed(one, text) {
    const value = one.column.kind === "number" ? numberIn(text, one.column.missing) : text;
    if (value === UNREADABLE) {
      const what = text.trim() ? `“${text.trim()}” is not a number` : "A number is needed";
      this.#complaints.set(one.column.name, `${what}: write one such as 12.5.`);
      this.#complain(this.root.selectAll(".field"), null);
    } else {
      this.#set(one, value);
    }
  }

  #set(one, value, by = "field") {
    this.#complaints.delete(one.column.name);
    this.edit({ [one.column.name]: value }, `${this.of} ${one.column.name} ${by}`);
  }

  #show(field) {
    field
      .select("input[type=range]")
      .attr("min", (one) => one.low)
      .attr("max", (one) => one.high)
      .attr("step", (one) => one.step)
      .property("value", (one) => one.value ?? one.low);
    const isOpen = (node) => node === document.activeElement; // never under the hand that types
    field.select("input.value").each(function write(one) {
      if (!isOpen(this)) this.value = inField(one.value);
    });
    field.select("select.value").each(function write(one) {
      const levels = shownLevels(one);
      d3.select(this)
        .selectAll("option")
        .data(levels)
        .join("option")
        .text((level) => level ?? "missing");
      this.selectedIndex = levels.findIndex((level) => isSame(level, one.value));
    });
  }

  #complain(field, fault) {
    const complaint = ({ column }) =>
      this.#complaints.get(column.name) ?? (fault?.column === column.name ? fault.message : "");
    field.select(".complaint").text(complaint);
    field
      .select(".value")
      .attr("aria-invalid", (one) => (complaint(one) ? "true" : null))
      .attr("aria-describedby", (one) =>
        complaint(one) ? `${this.prefix}-${one.column.name}-complaint` : null,
      );
  }
}
