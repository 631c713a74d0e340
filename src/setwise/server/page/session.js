/** One visit: the state, what the service says about it, and the way back. */

import { fieldOf, fieldQuestion } from "./field.js";
import { frameOf } from "./frame.js";
import { History } from "./history.js";
import { Newest } from "./service.js";
import { OUTSIDE, asRequest, present } from "./state.js";

const REST_MS = 150; // pictures that cost many sets wait until a hand rests this long
const PLACE = /^(?:sets\[(\d+)\]\.)?(?:items\[(\d+)\]|context)(?:\.(.+))?$/;

const total = (numbers) => numbers.reduce((sum, one) => sum + one, 0);

/** Probabilities by name: the model's, MNL's, and of each member of the model, if it has some. */
export function sharesOf(names, answer) {
  const hasOutside = answer.outside !== undefined && answer.outside !== null;
  const of = (shares, outside) =>
    new Map([
      ...names.map((name, place) => [name, shares[place]]),
      ...(hasOutside ? [[OUTSIDE, outside]] : []),
    ]);
  return {
    set: of(answer.probabilities, answer.outside),
    mnl: answer.mnl ? of(answer.mnl, 1 - total(answer.mnl)) : null,
    members: (answer.members ?? []).map((shares) => of(shares, shares.at(-1))),
  };
}

export class Session {
  history = new History();
  answers = { now: null, reference: null, explained: null, field: null };
  /** What the service refused, and of which item and column; null if nothing. */
  fault = null;
  /** The key of the field that was asked for last. */
  wanted = null;

  constructor(model, { state, view }, { draw, fail, succeed }) {
    Object.assign(this, { model, state, view, draw, succeed });
    const failing = (error, about) => this.#failed(error, about, fail);
    this.predictions = new Newest("v1/predict", {
      receive: (answer, about) => this.#predicted(answer, about),
      fail: failing,
    });
    this.explanations = new Newest("v1/explain", {
      receive: (answer, about) => this.#explained(answer, about),
      fail: failing,
      wait: REST_MS,
      replaces: true,
    });
    this.fields = new Newest("v1/predict", {
      receive: (answer, about) => this.#mapped(answer, about),
      fail: failing,
      wait: REST_MS,
      replaces: true,
    });
  }

  get frame() {
    return frameOf(this.model, this.state, this.view, this.answers.reference?.shares.set ?? null);
  }

  /** A change of the set, which can be undone. */
  change(state, gesture = null) {
    this.history.record(this.state, gesture);
    this.#turnTo(state);
  }

  /** A change of what is looked at, which needs no undoing. */
  look(view) {
    this.view = { ...this.view, ...view };
    this.#askField();
    this.draw();
  }

  /** Another set altogether, of an example or a link. */
  open({ state, view }) {
    this.history.record(this.state, null);
    this.view = view;
    this.#turnTo(state);
  }

  undo() {
    if (this.history.canUndo) this.#turnTo(this.history.undo(this.state));
  }

  redo() {
    if (this.history.canRedo) this.#turnTo(this.history.redo(this.state));
  }

  /** Ask again for everything. */
  refresh() {
    this.answers = { ...this.answers, reference: null, field: null };
    this.wanted = null;
    this.#turnTo(this.state);
  }

  #turnTo(state) {
    this.state = state;
    this.#askPrediction();
    this.#askExplanation();
    this.#askField();
    this.draw();
  }

  #askPrediction() {
    const { state } = this;
    const { reference } = state;
    const isKnown = this.answers.reference?.of === reference;
    const sets = [asRequest(present(state), state.context)];
    if (!isKnown) sets.push(asRequest(reference.items, reference.context));
    this.predictions.ask({ sets, reference: true, members: true }, { state });
  }

  #askExplanation() {
    const { state, frame } = this;
    const about = { names: present(state).map((item) => item.name) };
    if (frame.noHeat) this.explanations.drop();
    else
      this.explanations.ask({ ...asRequest(present(state), state.context), reference: true }, about);
  }

  #predicted({ sets: [now, before] }, { state }) {
    const names = (items) => items.map((item) => item.name);
    this.answers.now = { of: state, shares: sharesOf(names(present(state)), now) };
    if (before !== undefined) {
      const shares = sharesOf(names(state.reference.items), before);
      this.answers.reference = { of: state.reference, shares };
      this.#askField(); // now that decoy and focus are known
    }
    this.fault = null;
    this.succeed();
    this.draw();
  }

  #explained(answer, { names }) {
    this.answers.explained = { names, answer };
    this.draw();
  }

  #askField() {
    const question = fieldQuestion(this.model, this.state, this.frame);
    if (question === null) {
      this.fields.drop();
      this.answers.field = null;
      this.wanted = null;
    } else if (question.about.key !== this.wanted) {
      this.wanted = question.about.key;
      this.fields.ask(question.body(), question.about);
    }
  }

  #mapped(answer, about) {
    this.answers.field = fieldOf(answer, about);
    this.draw();
  }

  #failed(error, about, fail) {
    const isPicture = about.state === undefined;
    if (isPicture && error.kind === "refused") {
      // A value that one request refuses, all do; the prediction's refusal is shown at its field.
      if (about.key === undefined) this.answers.explained = { ...about, refusal: error.message };
      else this.answers.field = null;
    } else {
      const [, set, place, column] = PLACE.exec(error.where ?? "") ?? [];
      const items = isPicture || set === "1" ? [] : present(about.state);
      const item = place === undefined ? null : (items[Number(place)]?.name ?? null);
      this.wanted = null;
      this.fault = { kind: error.kind, message: error.message, item, column: column ?? null };
      if (item === null) fail(this.fault);
      else this.view = { ...this.view, selected: item }; // whose field then says what is wrong
    }
    this.draw();
  }
}
