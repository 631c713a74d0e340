/**
 * What the pictures show: the item that is edited, the decoy, the focus, and the axes of the map.
 *
 * A view names them as far as somebody has chosen; a frame has a sound answer for each of them,
 * also where an item is gone by now or a link speaks of a column that this model does not have.
 */

import { rangeOf } from "./numbers.js";
import { itemColumns, present } from "./state.js";

const AROUND = 0.75; // of the items' own spread, to both sides of them
const LEAST_SPREAD = 0.2; // of the column's range, where items are nearly alike

const MOST_HEATED = 40; // more cells than this squared no screen shows
const SHOWN = ["set", "mnl"];
const QUANTITIES = ["beyond", "share"];

const among = (choice, choices, otherwise) => (choices.includes(choice) ? choice : otherwise);

/** The columns that a map can have as axes, those that only say yes or no last. */
export function axisColumns(model) {
  const levels = (model.one_hot ?? []).flat(); // of a choice, which are no quantities
  const numeric = itemColumns(model).filter(
    (column) =>
      column.kind === "number" && !levels.includes(column.name) && rangeOf(column, []) !== null,
  );
  const isFlag = (column) => column.step === 1 && column.max - column.min === 1;
  return [...numeric.filter((one) => !isFlag(one)), ...numeric.filter(isFlag)];
}

/**
 * Where an axis of the map begins and ends: around the set, and not beyond what the sample knows.
 *
 * The decoy counts as it was in the reference, so that the map stands still while it is dragged.
 */
function axis(column, state, decoy) {
  const [least, most] = rangeOf(column, []);
  const still = [...present(state).filter((item) => item !== decoy), ...state.reference.items];
  const values = still.map((item) => item.values[column.name] ?? least);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const reach = AROUND * Math.max(high - low, LEAST_SPREAD * (most - least));
  const value = decoy?.values[column.name] ?? low;
  return {
    column,
    low: Math.min(Math.max(least, low - reach), low, value),
    high: Math.max(Math.min(most, high + reach), high, value),
  };
}

function extreme(names, shares, sign) {
  if (!shares) return names[sign > 0 ? 0 : names.length - 1];
  return names.reduce((best, name) =>
    sign * shares.get(name) > sign * shares.get(best) ? name : best,
  );
}

function whyNoHeat(items, hasOthers) {
  if (!hasOthers)
    return "It takes three items: of two, one takes all when the other leaves, IIA or not.";
  return items > MOST_HEATED ? `More than ${MOST_HEATED} items are too many to show.` : null;
}

/** The frame of a view; `shares` of the reference choose decoy and focus where nobody has. */
export function frameOf(model, state, view, shares) {
  const items = present(state);
  const names = items.map((item) => item.name);
  const all = state.items.map((item) => item.name);
  const known = shares && names.every((name) => shares.has(name)) ? shares : null;
  const decoy = names.length < 2 ? null : among(view.decoy, names, extreme(names, known, -1));
  const others = names.filter((name) => name !== decoy);
  const hasOthers = names.length + (model.outside ? 1 : 0) > 2;
  const columns = axisColumns(model);
  const labels = columns.map((column) => column.name);
  const x = among(view.x, labels, labels[0]);
  const rest = labels.filter((name) => name !== x);
  const y = among(view.y, rest, rest[0]);
  const of = (name) =>
    axis(
      columns.find((column) => column.name === name),
      state,
      items.find((item) => item.name === decoy),
    );
  return {
    selected: among(view.selected, all, names[0]),
    decoy,
    focal: among(view.focal, others, extreme(others, known, 1)),
    axes: labels.length < 2 ? null : { x: of(x), y: of(y) },
    mapped: model.reference ? among(view.mapped, SHOWN, "set") : "set",
    heated: model.reference ? among(view.heated, SHOWN, "set") : "set",
    quantity: hasOthers ? among(view.quantity, QUANTITIES, "beyond") : "share",
    hasOthers,
    /** Why influences cannot be shown, or null. */
    noHeat: whyNoHeat(names.length, hasOthers),
  };
}
