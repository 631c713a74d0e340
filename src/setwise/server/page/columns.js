/**
 * Columns as people read them: labels with units, groups of 0/1 columns as one choice, switches.
 *
 * A field is what the editor shows as one control: `{ kind, label, columns }`, where kind is
 * "choice" (a group of 0/1 columns of which at most one is 1), "switch" (one 0/1 column) or
 * "value" (any other column).
 */

import { short } from "./numbers.js";
import { contextColumns, itemColumns } from "./state.js";

export const labelOf = (column) => column.label ?? column.name;

/** "travel time (min)", for axes and fields. */
export const fullLabel = (column) =>
  column.unit ? `${labelOf(column)} (${column.unit})` : labelOf(column);

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** How all names begin, up to a separator: "is_" of is_train and is_car. */
function head(names) {
  const [, begin] = /^([^_.=: ]+[_.=: ])/.exec(names[0]) ?? [null, ""];
  return names.every((name) => name.startsWith(begin)) ? begin : "";
}

/** Of a group: what its columns stand for, such as "Train" for is_train. */
function levels(columns) {
  const begin = head(columns.map((column) => column.name));
  return columns.map(
    (column) => column.label ?? capital(column.name.slice(begin.length).replaceAll("_", " ")),
  );
}

const isNaming = (model, names) => names.some((name) => model.item_name === `{${name}}`);

function groupField(model, columns) {
  const names = columns.map((column) => column.name);
  const begin = head(names).replace(/[_.=: ]$/, "");
  const own = begin === "" || begin === "is" ? "kind" : begin;
  const label = isNaming(model, names) ? "alternative" : own;
  return { kind: "choice", name: names[0], label, columns, levels: levels(columns) };
}

const isFlag = (column) =>
  column.kind === "number" && column.step === 1 && column.min === 0 && column.max === 1;

function fields(model, columns) {
  const groups = (model.one_hot ?? []).map((names) =>
    columns.filter((column) => names.includes(column.name)),
  );
  return columns.flatMap((column) => {
    const group = groups.find((some) => some.includes(column));
    if (group) return group[0] === column ? [groupField(model, group)] : [];
    const kind = isFlag(column) ? "switch" : "value";
    return [{ kind, name: column.name, label: labelOf(column), columns: [column] }];
  });
}

export const itemFields = (model) => fields(model, itemColumns(model));
export const contextFields = (model) => fields(model, contextColumns(model));

/** Which level of a group is 1; -1 if none is. */
export const levelAt = (field, values) =>
  field.columns.findIndex((column) => Number(values[column.name]) === 1);

/** A value without its label: "90 min", "Train", "yes". */
export function valueText(field, values) {
  if (field.kind === "choice") return field.levels[levelAt(field, values)] ?? "none of these";
  const [column] = field.columns;
  const value = values[column.name];
  if (field.kind === "switch" && (value === 0 || value === 1)) return value ? "yes" : "no";
  const unit = column.unit && typeof value === "number" ? `\u00a0${column.unit}` : "";
  return short(value) + unit;
}

/** A value with its label, for a list of them. */
export const labelled = (field, values) =>
  field.kind === "choice"
    ? valueText(field, values)
    : `${field.label}\u00a0${valueText(field, values)}`;
