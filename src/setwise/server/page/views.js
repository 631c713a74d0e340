/** The parts of the page and what their controls do. */

import * as acts from "./state.js";
import { Announcer, mapWords, verdict } from "./words.js";
import { Bars } from "./bars.js";
import { DecoyMap } from "./map.js";
import { Editor } from "./editor.js";
import { Heat } from "./heat.js";
import { Improve } from "./improve.js";
import { ShareCard } from "./share.js";
import { allowed, leftAlone } from "./iia.js";
import { axisColumns } from "./frame.js";
import { contextFields, fullLabel, itemFields } from "./columns.js";
import { count } from "./numbers.js";
import { doubts } from "./spread.js";
import { namesOf } from "./names.js";

const d3 = globalThis.d3;

const MOST_BESIDE = 12; // items; of more the list is so long that the editor opens inside it
const NARROW = matchMedia("(max-width: 58rem)"); // as in style.css

/** The controls of the map, by element, and what of the view they choose. */
const LOOKS = {
  decoy: "decoy",
  focal: "focal",
  "axis-x": "x",
  "axis-y": "y",
  quantity: "quantity",
};

const element = (id) => document.getElementById(id);

/** What the bars show: of each model its shares, what IIA allows, and the spread of its members. */
export function modelsOf(model, { now, reference }) {
  if (!now || !reference || now.of.reference !== reference.of) return [];
  const alone = leftAlone(now.of, Boolean(model.outside));
  const isMoved = !acts.isReference(now.of);
  const untouched = isMoved ? alone : [];
  const of = (key, label) => ({
    key,
    label,
    shares: now.shares[key],
    allowed: allowed(reference.shares[key], now.shares[key], untouched),
    doubt: null,
  });
  const { members } = now.shares;
  const doubt = members.length
    ? doubts(model.members, reference.shares.members, members, untouched)
    : null;
  const first = { ...of("set", model.estimator), doubt };
  return now.shares.mnl ? [first, of("mnl", "MNL")] : [first];
}

export class Views {
  constructor(model, { session, copyLink }) {
    this.model = model;
    this.session = session;
    this.bars = new Bars(element("items"), element("share-axis"), {
      select: (name) => this.session().look({ selected: name }),
      remove: (name) => {
        this.#change((state) => acts.removed(state, name));
        if (!this.bars.row(name)) element("add-item").focus(); // the button is gone with its row
      },
      restore: (name) => this.#change((state) => acts.restored(state, name)),
    });
    this.itemEditor = new Editor(element("item-fields"), "item");
    this.contextEditor = new Editor(element("context-fields"), "context");
    this.map = new DecoyMap(element("map"), element("map-legend"), (values, how) => {
      const { decoy } = this.session().frame;
      this.#change((state) => acts.edited(state, decoy, values), `${decoy} by ${how}`);
    });
    this.heat = new Heat(element("heat"), element("heat-legend"));
    this.card = new ShareCard();
    this.improve = new Improve(model, session);
    this.announcer = new Announcer(element("announcer"));
    this.host = null; // the name of the item under which the editor is
    this.#describe();
    this.#wire(copyLink);
  }

  #change(change, gesture = null) {
    this.session().change(change(this.session().state), gesture);
  }

  /** What the model is, and what of the page it does not need. */
  #describe() {
    const { estimator, file, checksum, version, samples, reference } = this.model;
    const has = {
      mnl: reference,
      samples: samples?.length > 0,
      context: acts.contextColumns(this.model).length > 0,
      members: this.model.members?.length > 1,
    };
    for (const node of document.querySelectorAll("[data-needs]"))
      node.hidden = !has[node.dataset.needs];
    for (const node of document.querySelectorAll("[data-model-name=set]"))
      node.textContent = estimator;
    element("model-name").textContent = `${file} · ${checksum.split(":").at(-1).slice(0, 8)}`;
    element("foot").textContent =
      `setwise ${version}. The ticks and the heat map are computed from the model’s own answers.`;
    element("foot").hidden = false;
    d3.select("#example")
      .selectAll("option")
      .data(samples ?? [])
      .join("option")
      .attr("value", (_, number) => number)
      .text(
        ({ items }, number) => `${number + 1} of ${samples.length}: ${count(items.length, "item")}`,
      );
    element("member-count").textContent = this.model.members?.length;
    d3.selectAll("#axis-x, #axis-y")
      .selectAll("option")
      .data(axisColumns(this.model))
      .join("option")
      .attr("value", (column) => column.name)
      .text(fullLabel);
  }

  #wire(copyLink) {
    const on = (id, event, act) => element(id).addEventListener(event, act);
    const open = (number) =>
      this.session().open({ state: acts.ofSample(this.model, number), view: {} });
    const step = (by) => {
      const count = this.model.samples.length;
      open(((this.session().state.sample ?? 0) + by + count) % count);
    };
    on("example", "change", () => open(element("example").selectedIndex));
    on("example-before", "click", () => step(-1));
    on("example-after", "click", () => step(1));
    on("undo", "click", () => this.session().undo());
    on("redo", "click", () => this.session().redo());
    on("reset", "click", () => this.#change(acts.reset));
    on("copy-link", "click", copyLink);
    on("add-item", "click", () => this.#add());
    on("pin", "click", () => this.#change(acts.pinned));
    for (const [id, key] of Object.entries(LOOKS)) {
      on(id, "change", () => this.session().look({ [key]: element(id).value }));
    }
    for (const radio of document.querySelectorAll("[name=mapped], [name=heated]")) {
      radio.addEventListener("change", () => this.session().look({ [radio.name]: radio.value }));
    }
    NARROW.addEventListener("change", () => this.draw(this.session()));
    addEventListener("keydown", (event) => this.#key(event));
  }

  #add() {
    const { state, frame } = this.session();
    const next = acts.added(state, frame.selected);
    this.session().change(next);
    this.session().look({ selected: next.items.at(-1).name });
  }

  #key(event) {
    const isText = event.target.matches?.("input[type=text], input[type=password]");
    if (isText || !(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z") return;
    event.preventDefault();
    if (event.shiftKey) this.session().redo();
    else this.session().undo();
  }

  draw(session) {
    const { model, state, frame, answers, fault } = session;
    const models = modelsOf(model, answers);
    const names = namesOf(model, state);
    const hasOutside = Boolean(model.outside);
    element("main").setAttribute("aria-busy", String(answers.now?.of !== state && fault === null));
    if (acts.find(state, this.host) === undefined) this.#placeEditor(null);
    this.bars.draw({
      model,
      state,
      frame,
      models,
      names,
      fields: itemFields(model),
      isStale: fault !== null,
      hasOutside,
    });
    element("verdict").textContent = verdict(
      state,
      answers.now?.of === state ? models : [],
      answers.reference?.shares,
      names,
    );
    const isInside = NARROW.matches || state.items.length > MOST_BESIDE;
    this.#placeEditor(isInside ? frame.selected : null);
    this.#editors(state, frame, fault, names);
    this.#controls(session, frame, names);
    const shares = answers.now?.shares[frame.mapped] ?? null;
    this.map.draw(state, frame, shares, answers.field, names);
    element("map-text").textContent = mapWords(frame, names, this.map.isHatched);
    this.heat.draw(answers.explained, frame, names);
    this.improve.draw(session, names);
    this.card.draw({ model, state, models, names, hasOutside });
    this.announcer.say(models, names);
  }

  /** On a narrow screen, or in a long list, the editor opens under its item, else beside the set. */
  #placeEditor(name) {
    const place = name === null ? element("editor-home") : this.bars.row(name);
    if (element("editor").parentNode !== place) place.append(element("editor"));
    element("editor-home").hidden = name !== null;
    this.host = name;
  }

  #editors(state, frame, fault, names) {
    const item = acts.find(state, frame.selected);
    const called = names.get(item.name);
    const title = called === item.name ? `Item ${called}` : called;
    element("editor-title").textContent = item.gone ? `${title}, removed` : title;
    this.itemEditor.draw({
      of: item.name,
      fields: itemFields(this.model),
      values: item.values,
      others: [...state.items, ...state.reference.items].map((one) => one.values),
      isDisabled: item.gone,
      fault: fault?.item === item.name ? fault : null,
      edit: (values, gesture) =>
        this.#change((now) => acts.edited(now, item.name, values), gesture),
    });
    this.contextEditor.draw({
      of: "the set",
      fields: contextFields(this.model),
      values: state.context,
      others: [state.context, state.reference.context],
      isDisabled: false,
      fault: fault?.item === null ? fault : null,
      edit: (values, gesture) => this.#change((now) => acts.inContext(now, values), gesture),
    });
  }

  #controls({ state, history }, frame, called) {
    element("undo").disabled = !history.canUndo;
    element("redo").disabled = !history.canRedo;
    element("reset").disabled = element("pin").disabled = acts.isReference(state);
    if (state.sample !== null) element("example").selectedIndex = state.sample;
    const names = acts.present(state).map((item) => item.name);
    const options = (id, choices) =>
      d3
        .select(element(id))
        .selectAll("option")
        .data(choices)
        .join("option")
        .attr("value", (name) => name)
        .text((name) => called.get(name));
    options("decoy", names);
    element("quantity").options[0].disabled = !frame.hasOthers;
    options(
      "focal",
      names.filter((name) => name !== frame.decoy),
    );
    element("map-controls").hidden = !frame.axes || !frame.decoy;
    const shown = { ...frame, x: frame.axes?.x.column.name, y: frame.axes?.y.column.name };
    for (const [id, key] of Object.entries(LOOKS)) element(id).value = shown[key] ?? "";
    for (const radio of document.querySelectorAll("[name=mapped], [name=heated]")) {
      radio.checked = radio.value === frame[radio.name];
    }
  }
}
