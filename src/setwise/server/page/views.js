/** The parts of the page and what their controls do. */

import * as acts from "./state.js";
import { Announcer, mapWords, verdict } from "./words.js";
import { Bars } from "./bars.js";
import { DecoyMap } from "./map.js";
import { Editor } from "./editor.js";
import { Heat } from "./heat.js";
import { allowed, leftAlone } from "./iia.js";
import { axisColumns } from "./frame.js";
import { count } from "./numbers.js";

const d3 = globalThis.d3;

const FEW_ITEMS = 5; // more make a list so long that the editor has to follow along
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

/** What the bars show: of each model its shares and what IIA allows; none before an answer. */
export function modelsOf(model, { now, reference }) {
  if (!now || !reference || now.of.reference !== reference.of) return [];
  const alone = leftAlone(now.of, Boolean(model.outside));
  const isMoved = !acts.isReference(now.of);
  const of = (key, label) => ({
    key,
    label,
    shares: now.shares[key],
    allowed: isMoved ? allowed(reference.shares[key], now.shares[key], alone) : new Map(),
  });
  return now.shares.mnl
    ? [of("set", model.estimator), of("mnl", "MNL")]
    : [of("set", model.estimator)];
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
    const axes = axisColumns(this.model).map((column) => column.name);
    d3.selectAll("#axis-x, #axis-y")
      .selectAll("option")
      .data(axes)
      .join("option")
      .text((name) => name);
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
    const columns = acts.itemColumns(model);
    element("main").classList.toggle("tall", state.items.length > FEW_ITEMS);
    element("main").setAttribute("aria-busy", String(answers.now?.of !== state && fault === null));
    if (acts.find(state, this.host) === undefined) this.#placeEditor(null);
    this.bars.draw({
      state,
      frame,
      models,
      columns,
      isStale: fault !== null,
      hasOutside: Boolean(model.outside),
    });
    element("verdict").textContent = verdict(
      state,
      answers.now?.of === state ? models : [],
      answers.reference?.shares,
    );
    this.#placeEditor(NARROW.matches ? frame.selected : null);
    this.#editors(state, frame, fault);
    this.#controls(session, frame);
    const shares = answers.now?.shares[frame.mapped] ?? null;
    this.map.draw(state, frame, shares, answers.field);
    this.heat.draw(answers.explained, frame);
    this.announcer.say(models);
  }

  /** On a narrow screen the editor opens under its item, elsewhere it stands beside the set. */
  #placeEditor(name) {
    const place = name === null ? element("editor-home") : this.bars.row(name);
    if (element("editor").parentNode !== place) place.append(element("editor"));
    element("editor-home").hidden = name !== null;
    this.host = name;
  }

  #editors(state, frame, fault) {
    const item = acts.find(state, frame.selected);
    element("editor-title").textContent = item.gone
      ? `Item ${item.name}, removed`
      : `Item ${item.name}`;
    this.itemEditor.draw({
      of: item.name,
      columns: acts.itemColumns(this.model),
      values: item.values,
      others: [...state.items, ...state.reference.items].map((one) => one.values),
      isDisabled: item.gone,
      fault: fault?.item === item.name ? fault : null,
      edit: (values, gesture) =>
        this.#change((now) => acts.edited(now, item.name, values), gesture),
    });
    this.contextEditor.draw({
      of: "the set",
      columns: acts.contextColumns(this.model),
      values: state.context,
      others: [state.context, state.reference.context],
      isDisabled: false,
      fault: fault?.item === null ? fault : null,
      edit: (values, gesture) => this.#change((now) => acts.inContext(now, values), gesture),
    });
  }

  #controls({ state, history }, frame) {
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
        .text((one) => one);
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
    element("map-text").textContent = mapWords(frame);
  }
}
