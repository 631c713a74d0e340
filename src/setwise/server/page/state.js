/**
 * A set of items, what was done to it, and what it is compared with.
 *
 * A state is plain data and never altered: each function here returns a new one. `items` have a
 * name (A, B, …), values by column, and may be gone; `reference` is the set as it was, to which
 * the ticks of IIA refer; `context` holds the columns that have one value for the whole set.
 */

import { nineDigits } from "./numbers.js";

/** The name of the outside option: items are named by capitals, so that it is no item's. */
export const OUTSIDE = "outside";

const LETTERS = 26;

/** 0 -> A, 25 -> Z, 26 -> AA. */
export function letter(number) {
  const last = String.fromCharCode(65 + (number % LETTERS));
  return number < LETTERS ? last : letter(Math.floor(number / LETTERS) - 1) + last;
}

export const itemColumns = (model) => model.columns.filter((column) => column.role === "item");
export const contextColumns = (model) =>
  model.columns.filter((column) => column.role === "context");

/** The values of these columns, as a model can tell them apart. */
export function pick(columns, values) {
  return Object.fromEntries(columns.map(({ name }) => [name, nineDigits(values?.[name] ?? null)]));
}

function begin(items, context, sample, chosen) {
  const reference = { items: items.map(({ name, values }) => ({ name, values })), context };
  return { items, context, reference, sample, chosen };
}

/** The state of an example of the model's own sample. */
export function ofSample(model, number) {
  const { items, context, chosen } = model.samples[number];
  const named = items.map((values, place) => ({
    name: letter(place),
    values: pick(itemColumns(model), values),
    gone: false,
  }));
  const outside = chosen === null ? OUTSIDE : null; // absent where nobody knows
  const known = Number.isInteger(chosen) ? letter(chosen) : outside;
  return begin(named, pick(contextColumns(model), context), number, known);
}

function usual(column) {
  if (column.kind === "category") return column.levels?.[0] ?? "";
  if (column.kind === "date") return column.max ?? new Date().toISOString().slice(0, 10);
  const middle = ((column.min ?? 0) + (column.max ?? 0)) / 2;
  return column.step ? Math.round(middle / column.step) * column.step : middle;
}

/** Usual values; of a group of 0/1 columns the first is 1. */
function usualValues(model, columns) {
  const groups = model.one_hot ?? [];
  const of = (column) => {
    const group = groups.find((names) => names.includes(column.name));
    return group ? Number(group[0] === column.name) : nineDigits(usual(column));
  };
  return Object.fromEntries(columns.map((column) => [column.name, of(column)]));
}

/** Two equal items to begin with, where a model brings no sample. */
export function ofColumns(model) {
  const values = (columns) => usualValues(model, columns);
  const items = [0, 1].map((place) => ({
    name: letter(place),
    values: values(itemColumns(model)),
    gone: false,
  }));
  return begin(items, values(contextColumns(model)), null, null);
}

export const present = (state) => state.items.filter((item) => !item.gone);
export const find = (state, name) => state.items.find((item) => item.name === name);
const before = (state, name) => state.reference.items.find((item) => item.name === name);

function withItem(state, name, change) {
  const items = state.items.map((item) =>
    item.name === name ? { ...item, ...change(item) } : item,
  );
  return { ...state, items };
}

/** The state with some values of an item replaced. */
export function edited(state, name, values) {
  return withItem(state, name, (item) => ({ values: { ...item.values, ...values } }));
}

export function inContext(state, values) {
  return { ...state, context: { ...state.context, ...values } };
}

/** Without an item: one of the reference can come back, one that was added is forgotten. */
export function removed(state, name) {
  if (before(state, name)) return withItem(state, name, () => ({ gone: true }));
  return { ...state, items: state.items.filter((item) => item.name !== name) };
}

export function restored(state, name) {
  return withItem(state, name, () => ({ gone: false }));
}

/** With one more item, a copy of the one named. */
export const added = (state, like) => joined(state, find(state, like).values);

/** With one more item of these values; its name is the first letter that is free. */
export function joined(state, values) {
  const taken = new Set([...state.items, ...state.reference.items].map((item) => item.name));
  let number = 0;
  while (taken.has(letter(number))) number += 1;
  const item = { name: letter(number), values: { ...values }, gone: false };
  return { ...state, items: [...state.items, item] };
}

/** The same set, compared with itself from now on. */
export function pinned(state) {
  const items = present(state).map(({ name, values }) => ({ name, values }));
  return { ...state, reference: { items, context: state.context } };
}

/** The set as it was: all items back, all values too, and nothing added. */
export function reset(state) {
  const items = state.reference.items.map((item) => ({ ...item, gone: false }));
  return { ...state, items, context: state.reference.context };
}

const same = (one, other) => Object.keys(one).every((key) => Object.is(one[key], other[key]));

/** Whether an item is new or has other values than in the reference. */
export function isChanged(state, item) {
  const old = before(state, item.name);
  return old === undefined || !same(item.values, old.values);
}

export const contextChanged = (state) => !same(state.context, state.reference.context);

/** The items of the reference that are not there now. */
export function missing(state) {
  const here = new Set(present(state).map((item) => item.name));
  return state.reference.items.filter((item) => !here.has(item.name));
}

export function isReference(state) {
  const changed = present(state).some((item) => isChanged(state, item));
  return !changed && missing(state).length === 0 && !contextChanged(state);
}

/** The set as the service reads it. */
export function asRequest(items, context) {
  const values = items.map((item) => item.values);
  return Object.keys(context).length ? { items: values, context } : { items: values };
}
