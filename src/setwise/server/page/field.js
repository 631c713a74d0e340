/**
 * The background of the map: what becomes of the focus wherever the decoy may stand.
 *
 * One request scores the set with the decoy at each point of a grid, and once without it. Two
 * quantities come from it, for each model:
 *
 *     share(x, y)  = P(focus)
 *     beyond(x, y) = P(focus) / (1 - P(decoy)) - P(focus, without the decoy),
 *
 * the second of which is 0 everywhere if IIA holds: a decoy then takes from all in proportion. Of an
 * ensemble there is also the spread of each over its members, as "doubt".
 */

import { spread } from "./spread.js";
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
      weights: model.members ?? [],
      where: whereOf(frame),
    },
    body: () => ({
      sets: [without, ...grid()].map((set) => asRequest(set, state.context)),
      reference: true,
      members: true,
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

/** Both quantities at every place, of sets that each have shares and what is left outside. */
function quantities([without, ...grid], about) {
  const [focal, decoy] = [about.items.indexOf(about.focal), about.items.indexOf(about.decoy)];
  const alone = focal > decoy ? focal - 1 : focal;
  // Summed and not 1 - P(decoy), of which nothing would be left where the decoy takes all.
  const others = ({ shares, rest }) =>
    shares.reduce((sum, share, place) => (place === decoy ? sum : sum + share), rest);
  const beyond = (set) => set.shares[focal] / others(set) - without.shares[alone];
  return {
    share: grid.map(({ shares }) => shares[focal]),
    beyond: grid.map(beyond).map((value) => (Number.isFinite(value) ? value : 0)),
  };
}

/** The spread over the members of both quantities; null where there are none. */
function doubt(sets, about) {
  if (!sets[0].members) return null;
  const items = (place) => about.items.length - (place === 0 ? 1 : 0);
  const members = about.weights.map((_, m) =>
    quantities(
      sets.map((set, place) => ({
        shares: set.members[m].slice(0, items(place)),
        rest: set.members[m][items(place)] ?? 0,
      })),
      about,
    ),
  );
  const of = (quantity) =>
    members[0][quantity].map((_, place) =>
      spread(about.weights, members.map((one) => one[quantity][place])),
    );
  return { share: of("share"), beyond: of("beyond") };
}

/** The quantities over the grid, row after row from below, for the models there are. */
export function fieldOf({ sets }, about) {
  const of = (key) =>
    quantities(
      sets.map((set) => ({ shares: set[key], rest: outside(set, key) })),
      about,
    );
  const set = { ...of("probabilities"), doubt: doubt(sets, about) };
  return { ...about, set, mnl: sets[0].mnl ? of("mnl") : null };
}
