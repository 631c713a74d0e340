/** Sentences: what a change did, in one line, and what a screen reader hears. */

import { deeds, furthest } from "./iia.js";
import { percent, points, ratio } from "./numbers.js";
import { isSure } from "./spread.js";
import { contextChanged, isChanged, isReference, present } from "./state.js";

const NOTICEABLE = 0.0005; // a twentieth of a percentage point: below it, IIA held
const LARGE = 0.01; // a loss of less is not told as a story of decoys
const SPEECH_MS = 700;
const FEW = 4; // as many numbers as one likes to hear

/** "MNL keeps its 0.94 : 1", or what it does instead. */
function besides({ key, label, shares }, before, up, down) {
  const [old, now] = [before[key], shares].map((one) => ratio(one.get(up), one.get(down)));
  return old === now ? `${label} keeps its ${now}` : `${label} goes from ${old} to ${now}`;
}

/** An item that lost share only because others left, if there is one: regularity forbids it. */
function irregular(state, { shares, allowed, doubt }, before) {
  const onlyLeft = present(state).every((item) => !isChanged(state, item));
  const loss = (name) => before.get(name) - shares.get(name);
  const [most] = [...allowed.keys()].sort((one, other) => loss(other) - loss(one));
  const isLoss = loss(most) > 0 && isSure(loss(most), doubt?.change.get(most), LARGE);
  return onlyLeft && isLoss ? most : null;
}

/** The two names that end furthest from IIA, by how much, and how sure that is. */
function departed({ shares, allowed, doubt }) {
  const ends = furthest(shares, allowed);
  const most = ends.gap === shares.get(ends.up) - allowed.get(ends.up) ? ends.up : ends.down;
  return { ...ends, doubt: doubt?.gap.get(most) ?? null };
}

/** The story of the bars; `models` as the bars have them, `before` the shares of the reference. */
export function verdict(state, models, before, names) {
  if (models.length === 0 || !before) return "";
  if (isReference(state)) {
    return "Remove an item, or change one: ticks then show where IIA would have left the others.";
  }
  if (contextChanged(state)) {
    return "The whole set's values changed. IIA says nothing about that, so there are no ticks.";
  }
  const [first, ...others] = models;
  const done = `${deeds(state, names).join("; ")}.`;
  if (first.allowed.size < 2)
    return `${done} IIA compares items left alone, and there are not two.`;
  const ends = departed(first);
  // The larger comes first, since ratios above 1 are easier to read.
  const [up, down] = [ends.up, ends.down].sort(
    (one, other) => before.set.get(other) - before.set.get(one),
  );
  const pair = `${names.get(up)}\u00a0:\u00a0${names.get(down)}`;
  const kept = ratio(before.set.get(up), before.set.get(down));
  if (ends.gap < NOTICEABLE)
    return `${done} ${first.label} keeps ${pair} at ${kept}, as IIA says.`;
  const made = ratio(first.shares.get(up), first.shares.get(down));
  const beside = others.map((one) => `; ${besides(one, before, up, down)}`).join("");
  const told = `IIA would keep ${pair} at ${kept}. ${first.label} makes it ${made}${beside}.`;
  if (!isSure(ends.gap, ends.doubt, NOTICEABLE))
    return `${done} ${told} That is within the spread of its members: it may be chance.`;
  const loser = irregular(state, first, before.set);
  const turn = loser ? ` ${names.get(loser)} even loses by that: a decoy has left.` : "";
  return `${done} ${told}${turn}`;
}

/** What the map shows and how to use it; `isHatched` where members disagree somewhere. */
export function mapWords({ axes, decoy, focal, mapped, quantity }, names, isHatched) {
  if (!axes) return "The map needs two columns of numbers that vary, and this model has fewer.";
  if (!decoy) return "The map needs two items: add one.";
  const [moved, seen] = [names.get(decoy), names.get(focal)];
  const how = `Drag ${moved}, or move it with the arrow keys; discs grow with the shares.`;
  const what = {
    share: `The deeper the colour, the larger the share of ${seen} with ${moved} there.`,
    mnl: `Under MNL ${moved} takes from all in proportion wherever it stands: the map is blank.`,
    beyond: `Green: ${moved} there helps ${seen} against the others; purple: it hurts. IIA: blank.`,
  };
  const shown = quantity === "beyond" && mapped === "mnl" ? "mnl" : quantity;
  const hatched = isHatched
    ? " Hatched: the members of the model do not agree on the sign. Steps of colour are no finer" +
      " than the members usually agree on."
    : "";
  return `${how} ${what[shown]}${shown === "beyond" ? hatched : ""}`;
}

/** The one number that matters most: how far the first model ends from IIA, in points. */
export function departure(models, names) {
  const [first] = models;
  if (!first || first.allowed.size < 2) return null;
  const { up, gap, doubt } = departed(first);
  return isSure(gap, doubt, NOTICEABLE) ? `${names.get(up)} ${points(gap)} points beyond IIA` : null;
}

/** The shares of all items, or of the first few of many. */
function largest(shares, names) {
  const all = [...shares].map(([name, share]) => ({ name, share }));
  const told =
    all.length <= FEW ? all : all.sort((one, other) => other.share - one.share).slice(0, FEW - 1);
  const rest = all.length > told.length ? [`${all.length - told.length} others less`] : [];
  return [
    ...told.map(({ name, share }) => `${names.get(name)} ${percent(share)}`),
    ...rest,
  ].join(", ");
}

/** Speaks when the numbers have come to rest, and never twice the same. */
export class Announcer {
  #timer = 0;
  #said = "";

  constructor(root) {
    this.root = root;
  }

  say(models, names) {
    if (models.length === 0) return;
    const [{ label, shares }] = models;
    const parts = [`${label}: ${largest(shares, names)}`, departure(models, names)];
    const sentence = parts.filter(Boolean).join("; ");
    clearTimeout(this.#timer);
    if (sentence === this.#said) return;
    this.#timer = setTimeout(() => {
      this.#said = sentence;
      this.root.textContent = sentence;
    }, SPEECH_MS);
  }
}
