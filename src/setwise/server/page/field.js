/**
 * The background of the map: what becomes of the focus wherever the decoy may stand.
 *
 * One request scores the set with the decoy at each point of a grid, and once without it. Two
 * quantities come from it, for each model:
 *
 *     share(x, y)  = P(focus)
 *     beyond(x, y) = P(focus) / (1 - P(decoy)) - P(focus, without the decoy),
 *
 * the second of which is 0 everywhere if IIA holds: a decoy then takes from all in proportion.
 */

import { asRequest, present } from "./state.js";

const SIDE = 31;
const MOST_VALUES = 100_000; // in one request; larger sets get a coarser grid

function sideOf(model, items) {
  const values = items.length * Object.keys(items[0].values).length;
  const sets = Math.min(MOST_VALUES / values, (model.limits?.max_sets ?? Infinity) - 1);
  return Math.max(3, Math.min(SIDE, Math.floor(Math.sqrt(sets))));
}

const places = ({ low, high }, side) =>
  Array.from({ length: side }, (_, place) => low + ((high - low) * place) / (side - 1));

/** What a field belongs to, besides the set: one of another frame would be out of place. */
export function whereOf({ decoy, focal, axes: { x, y } }) {
  return JSON.stringify([decoy, focal, x, y]);
}

/** What to ask, and a key that stays the same while only the decoy moves; null without a map. */
export function fieldQuestion(model, state, frame) {
  if (frame.axes === null || frame.decoy === null) return null;
  const { x, y } = frame.axes;
  const items = present(state);
  const side = sideOf(model, items);
  const at = (across, up) =>
    items.map((item) =>
      item.name !== frame.decoy
        ? item
        : { ...item, values: { ...item.values, [x.column.name]: across, [y.column.name]: up } },
    );
  const key = JSON.stringify([at(null, null), state.context, frame.decoy, frame.focal, x, y]);
  const grid = () =>
    places(y, side).flatMap((up) => places(x, side).map((across) => at(across, up)));
  const without = items.filter((item) => item.name !== frame.decoy);
  return {
    about: {
      key,
      side,
      items: items.map((item) => item.name),
      decoy: frame.decoy,
      focal: frame.focal,
      where: whereOf(frame),
    },
    body: () => ({
      sets: [without, ...grid()].map((set) => asRequest(set, state.context)),
      reference: true,
    }),
  };
}

/** The outside option's share, of which the service tells the model's only. */
function outside(set, key) {
  if (set.outside === undefined) return 0;
  return key === "mnl"
    ? Math.max(0, 1 - set.mnl.reduce((sum, share) => sum + share, 0))
    : set.outside;
}

/** The quantities over the grid, row after row from below, for the models there are. */
export function fieldOf(answer, about) {
  const [focal, decoy] = [about.items.indexOf(about.focal), about.items.indexOf(about.decoy)];
  const alone = focal > decoy ? focal - 1 : focal;
  const of = (key) => {
    const [without, ...grid] = answer.sets.map((set) => set[key]);
    // Summed and not 1 - P(decoy), of which nothing would be left where the decoy takes all.
    const others = (shares, outside) =>
      shares.reduce((sum, share, place) => (place === decoy ? sum : sum + share), outside);
    const beyond = (shares, place) =>
      shares[focal] / others(shares, outside(answer.sets[place + 1], key)) - without[alone];
    return {
      share: grid.map((shares) => shares[focal]),
      beyond: grid.map(beyond).map((value) => (Number.isFinite(value) ? value : 0)),
    };
  };
  const mnl = answer.sets[0].mnl ? of("mnl") : null;
  return { ...about, set: of("probabilities"), mnl };
}
