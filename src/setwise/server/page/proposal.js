/**
 * A change of the set that would earn more: what may change, what the service is asked, what it says.
 *
 * A wish is `{ goal, keeps, adds, low, high }`: the goal is an item's name, whose share is to be
 * large, or a column, which people are to bring in; `keeps` says that all items stay, `adds` how
 * many may join ("none", "one" or "several"), and the set has from `low` to `high` items.
 */

import { fullLabel, labelOf } from "./columns.js";
import { axisColumns } from "./frame.js";
import { percent, points, rangeOf, short, snapped, stepOf } from "./numbers.js";
import { isSure, spread } from "./spread.js";
import { asRequest, find, itemColumns, joined, pick, present, removed } from "./state.js";

const STEP = 0.1; // of a column's range: so far is a near copy from its item
const MOST_LEVELS = 6; // of a category, of which an item is copied with each
const MOST_MORE = 8; // items that may be added at once
const VISIBLE = 0.0005; // of a share, a twentieth of a percentage point

const keyOf = (values) => JSON.stringify(Object.values(values));

/** Copies of an item with one value changed: numbers a step up and down, categories to others. */
function near(model, item) {
  const copies = axisColumns(model).flatMap((column) => {
    const value = item.values[column.name];
    const range = rangeOf(column, []);
    if (typeof value !== "number" || range === null) return [];
    const [low, high] = range;
    const step = stepOf(column, low, high);
    const reach = Math.max(step, STEP * (high - low));
    return [value + reach, value - reach]
      .map((moved) => snapped(moved, step))
      .filter((moved) => low <= moved && moved <= high)
      .map((moved) => [column, moved]);
  });
  const others = itemColumns(model)
    .filter((column) => column.kind === "category" && column.levels?.length <= MOST_LEVELS)
    .flatMap((column) => column.levels.map((level) => [column, level]));
  return [...copies, ...others].map(([column, moved]) => ({
    values: { ...item.values, [column.name]: moved },
    like: item.name,
    column,
  }));
}

/** The items that may join: near copies of those that are there, and the items of the examples. */
export function poolOf(model, state, most) {
  const items = present(state);
  const seen = new Set(items.map((item) => keyOf(item.values)));
  const examples = (model.samples ?? []).flatMap((sample, number) =>
    sample.items.map((values) => ({ values: pick(itemColumns(model), values), example: number + 1 })),
  );
  const found = [];
  for (const one of [...items.flatMap((item) => near(model, item)), ...examples]) {
    if (found.length + items.length >= most) break;
    if (!seen.has(keyOf(one.values))) found.push(one);
    seen.add(keyOf(one.values));
  }
  return found;
}

/** The least and the most items that a set may have under a wish. */
export function sizes(model, state, { keeps, adds }) {
  const count = present(state).length;
  const fewest = model.outside ? 1 : Math.min(2, count);
  const more = { none: 0, one: 1, several: MOST_MORE }[adds];
  return { least: keeps ? count : fewest, most: count + more, usual: count };
}

/** The body for the service, and what must be known to read its answer. */
export function question(model, state, wish) {
  const items = present(state);
  const isColumn = typeof wish.goal !== "string";
  const known = (one) => !isColumn || one.values[wish.goal.name] !== null;
  const pool = wish.adds === "none" ? [] : poolOf(model, state, model.limits.max_decided).filter(known);
  const all = [...items, ...pool];
  const worth = all.map((one) => (isColumn ? one.values[wish.goal.name] : Number(one.name === wish.goal)));
  const here = items.map((_, place) => place);
  const joining = pool.map((_, place) => items.length + place);
  const fixed = here.filter((place) => wish.keeps || items[place].name === wish.goal);
  const body = {
    ...asRequest(all, state.context),
    value: worth,
    at_least: wish.low,
    at_most: wish.high,
    must: fixed,
    exclusive: wish.adds === "one" && joining.length > 1 ? [joining] : [],
    shown: here,
  };
  return { body, about: { state, wish, all, worth, count: items.length } };
}

/** What an answer says to do: the items to leave out, those to add, and the set after that. */
export function changes({ state, all, count }, { show }) {
  const leave = all.filter((_, place) => place < count && !show.includes(place));
  const join = all.filter((_, place) => place >= count && show.includes(place));
  const without = leave.reduce((now, item) => removed(now, item.name), state);
  const next = join.reduce((now, one) => joined(now, one.values), without);
  return { leave, join, next };
}

/** The question for the shares before and after: of the second model and of members too. */
export function comparison({ state, all, count }, { show }) {
  const sets = [all.slice(0, count), show.map((place) => all[place])];
  return {
    sets: sets.map((items) => asRequest(items, state.context)),
    reference: true,
    members: true,
  };
}

/** What each model expects of the set before and after; of the first also the members' spread. */
export function sides(model, { all, worth, count }, { show }, { sets: [before, after] }) {
  const values = [all.slice(0, count).map((_, place) => worth[place]), show.map((place) => worth[place])];
  const earned = (shares, of) => values[of].reduce((sum, value, place) => sum + value * shares[place], 0);
  const of = (key, label, [old, now], doubt = null) => ({
    key,
    label,
    now: earned(old, 0),
    after: earned(now, 1),
    doubt,
  });
  const apart = (before.members ?? []).map(
    (old, m) => earned(after.members[m], 1) - earned(old, 0),
  );
  const doubt = apart.length > 1 ? spread(model.members, apart) : null;
  const first = of("set", model.estimator, [before.probabilities, after.probabilities], doubt);
  if (!before.mnl) return [first];
  return [first, of("mnl", "MNL", [before.mnl, after.mnl])];
}

const unitOf = (goal) => (goal.unit ? `\u00a0${goal.unit}` : "");

/** An amount of what a goal counts: a share, or the units of a column. */
export function amount(goal, value) {
  return typeof goal === "string" ? percent(value) : short(value) + unitOf(goal);
}

/** A difference of amounts as a number with its sign; of shares, in points. */
export function signed(goal, change) {
  if (typeof goal === "string") return points(change);
  return `${change > 0 ? "+" : ""}${short(change)}`;
}

/** A difference of amounts, with its sign and its unit. */
export const difference = (goal, change) =>
  signed(goal, change) + (typeof goal === "string" ? " points" : unitOf(goal));

/** A spread, or what is left to a bound: a difference without its sign. */
export const extent = (goal, size) => difference(goal, size).replace("+", "");

/** What the goal counts, at the beginning of a sentence. */
export const goalWords = (goal, names) =>
  typeof goal === "string" ? `Share of ${names.get(goal)}` : `Expected ${fullLabel(goal)}`;

/** Where an item that joins comes from. */
export function originWords({ like, column, values, example }, state, names) {
  if (!like) return `from example ${example}`;
  const before = find(state, like).values[column.name];
  const now = values[column.name];
  const isNumber = typeof before === "number" && typeof now === "number";
  const how = isNumber ? `a ${now > before ? "higher" : "lower"}` : "another";
  return `as ${names.get(like)}, with ${how} ${labelOf(column)}`;
}

const floor = (goal) => (typeof goal === "string" ? VISIBLE : 0);

/** What is sure about the search: that nothing is better, or how much better a set could be. */
export function proofWords(goal, { proved, bound, after, sets_scored: tried }) {
  if (proved) return "Proved: no other allowed set is better, if the model is right.";
  const left = extent(goal, bound - after);
  const found = `Found by search among ${tried.toLocaleString("en")} sets.`;
  return `${found} A better one is not ruled out: at most ${left} better.`;
}

/** Whether the members of the model agree that the change helps. */
export function doubtWords(goal, { now, after, doubt }) {
  if (doubt === null) return "The model has no members, whose spread would say how sure this is.";
  const told = `(± ${extent(goal, doubt)})`;
  return isSure(after - now, doubt, floor(goal))
    ? `The change is more than twice the spread of the members ${told}: they agree that it helps.`
    : `Not sure: the change is within the spread of the members ${told}.`;
}

/** What a logit says where it disagrees; "" where it does not. */
export function besideWords(goal, { sides: [first, mnl], leave, join }) {
  if (!mnl || leave.length > 0 || join.length === 0 || mnl.after >= mnl.now) return "";
  const gain = first.after - first.now;
  if (gain <= floor(goal)) return "";
  const why =
    typeof goal === "string" ? ": for it, whatever joins takes from all others in proportion" : "";
  const seen = isSure(gain, first.doubt, floor(goal))
    ? " Only a model that sees the whole set finds this."
    : "";
  return `MNL, which weighs each item alone, expects a loss${why}.${seen}`;
}
