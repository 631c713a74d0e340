/**
 * What IIA, the independence of irrelevant alternatives, would have allowed.
 *
 * IIA says that the ratio of two items' probabilities does not depend on the rest of the set. So if
 * the items U were left alone while others changed, came or went, then
 *
 *     allowed(j) = sum over U of P_now · P_before(j) / sum over U of P_before,   for j in U:
 *
 * U keeps what it has now, dealt out as before. Where one item leaves and the rest stay, this is
 * P(j) / (1 - P(gone)).
 */

import { OUTSIDE, contextChanged, isChanged, missing, present } from "./state.js";

/** The names in U, or none where the context changed: IIA says nothing about that. */
export function leftAlone(state, hasOutside) {
  if (contextChanged(state)) return [];
  const same = present(state).filter((item) => !isChanged(state, item));
  return [...same.map((item) => item.name), ...(hasOutside ? [OUTSIDE] : [])];
}

const sum = (names, shares) => names.reduce((total, name) => total + shares.get(name), 0);

/** By name, what IIA allows; empty where fewer than two items were left alone. */
export function allowed(before, now, names) {
  if (names.length < 2) return new Map();
  const [mass, old] = [sum(names, now), sum(names, before)];
  return new Map(names.map((name) => [name, (mass * before.get(name)) / old]));
}

/** The two names that end furthest above and below what IIA allows. */
export function furthest(now, allowance) {
  const gaps = [...allowance].map(([name, share]) => [name, now.get(name) - share]);
  gaps.sort((one, other) => other[1] - one[1]);
  return { up: gaps[0][0], down: gaps.at(-1)[0], gap: Math.max(gaps[0][1], -gaps.at(-1)[1]) };
}

/** What was done to the set, in words; `called` says how items are named. */
export function deeds(state, called) {
  const names = (items) => items.map((item) => called.get(item.name)).join(", ");
  const known = new Set(state.reference.items.map((item) => item.name));
  const changed = present(state).filter((item) => isChanged(state, item));
  const groups = [
    ["removed", missing(state)],
    ["added", changed.filter((item) => !known.has(item.name))],
    ["changed", changed.filter((item) => known.has(item.name))],
  ];
  return groups
    .filter(([, items]) => items.length)
    .map(([deed, items]) => `${names(items)} ${deed}`);
}
