/**
 * How sure the model is: the spread of the members of an ensemble, of which its shares are a mean.
 *
 *     spread(q) = sqrt( sum over members m of p_m (q_m - q)^2 ),   q = sum of p_m q_m,
 *
 * for any quantity q that each member has. A change counts only if it is more than twice its own
 * spread: the members then agree on it.
 */

import { allowed } from "./iia.js";

const TIMES = 2;

/** The spread of a quantity: one number per member, and the members' weights. */
export function spread(weights, values) {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const mean = weights.reduce((sum, weight, m) => sum + weight * values[m], 0) / total;
  const square = weights.reduce((sum, weight, m) => sum + weight * (values[m] - mean) ** 2, 0);
  return Math.sqrt(square / total);
}

/** Whether a change is larger than its floor and than what members disagree about. */
export const isSure = (change, doubt, floor) =>
  Math.abs(change) > Math.max(floor, TIMES * (doubt ?? 0));

/** By name, the spread over the maps of the members; empty if there are none. */
function byName(weights, maps) {
  if (maps.length === 0) return new Map();
  return new Map(
    [...maps[0].keys()].map((name) => [name, spread(weights, maps.map((one) => one.get(name)))]),
  );
}

const less = (one, other) =>
  new Map([...one].filter(([name]) => other.has(name)).map(([name, q]) => [name, q - other.get(name)]));

/**
 * What members say about a set and about the reference: of each item the spread of its share, of
 * its distance from what IIA allows, and of its change. `now` and `before` have a map per member.
 */
export function doubts(weights, before, now, alone) {
  const of = (change) => byName(weights, now.map((shares, m) => change(shares, before[m])));
  return {
    share: byName(weights, now),
    gap: of((shares, old) => less(shares, allowed(old, shares, alone))),
    change: of((shares, old) => less(shares, old)),
  };
}
