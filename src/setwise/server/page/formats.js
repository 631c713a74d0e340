/** What is on screen, to be taken elsewhere: as JSON, CSV, a program in Python, or a call of curl. */

import { contextColumns, asRequest, itemColumns, present } from "./state.js";
import { OUTSIDE } from "./state.js";

const SET = "set"; // where the model does not say what its table called it

/** One column per thing that is said of the items: the models' shares, spreads and ticks. */
function answers(models, names) {
  const of = (map) => names.map((name) => map?.get(name) ?? null);
  return models.flatMap(({ label, shares, allowed, doubt }) => [
    [label, of(shares)],
    ...(doubt?.share.size ? [[`${label} spread`, of(doubt.share)]] : []),
    ...(allowed.size ? [[`${label} if IIA held`, of(allowed)]] : []),
  ]);
}

function shown({ state, models, names, hasOutside }) {
  const letters = present(state).map((item) => item.name);
  const all = hasOutside ? [...letters, OUTSIDE] : letters;
  return { called: all.map((name) => names.get(name)), columns: answers(models, all) };
}

function asJson(page) {
  const { called, columns } = shown(page);
  const { model, state } = page;
  const told = {
    model: { estimator: model.estimator, file: model.file, checksum: model.checksum },
    request: asRequest(present(state), state.context),
    names: called,
    probabilities: Object.fromEntries(columns),
  };
  return JSON.stringify(told, null, 2);
}

const cell = (value) => {
  const text = String(value ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

function asCsv(page) {
  const { called, columns } = shown(page);
  const { model, state } = page;
  const items = present(state);
  const [own, around] = [itemColumns(model), contextColumns(model)];
  const head = [model.set ?? SET, "item", ...[...own, ...around].map(({ name }) => name)];
  const rows = called.map((name, place) => [
    1,
    name,
    ...own.map((column) => items[place]?.values[column.name]),
    ...around.map((column) => state.context[column.name]),
    ...columns.map(([, values]) => values[place]),
  ]);
  const lines = [[...head, ...columns.map(([label]) => label)], ...rows];
  return lines.map((line) => line.map(cell).join(",")).join("\n");
}

function inPython(value) {
  if (value === null || value === undefined) return "None";
  if (value === true || value === false) return value ? "True" : "False";
  return JSON.stringify(value);
}

/** A program that reads the model's file and predicts the same. */
function asPython({ model, state }) {
  const items = present(state);
  const list = (column, values) => {
    const inside = values.map(inPython).join(", ");
    const written = column.kind === "date" ? `np.array([${inside}], "datetime64")` : `[${inside}]`;
    return `    ${JSON.stringify(column.name)}: ${written},`;
  };
  const own = itemColumns(model).map((column) =>
    list(column, items.map((item) => item.values[column.name])),
  );
  const around = contextColumns(model).map((column) =>
    list(column, items.map(() => state.context[column.name])),
  );
  const hasDates = model.columns.some((column) => column.kind === "date");
  return [
    ...(hasDates ? ["import numpy as np"] : []),
    "import setwise as sw",
    "",
    `model = sw.load(${JSON.stringify(model.file)})`,
    "table = {",
    list({ name: model.set ?? SET }, items.map(() => 1)),
    ...own,
    ...around,
    "}",
    "print(model.predict_proba(table).tolist())",
  ].join("\n");
}

function asCurl({ model, state, address, hasToken }) {
  const request = { ...asRequest(present(state), state.context) };
  if (model.reference) request.reference = true;
  const body = JSON.stringify(request).replaceAll("'", "'\\''");
  return [
    `curl ${address}`,
    "-H 'Content-Type: application/json'",
    ...(hasToken ? ['-H "Authorization: Bearer $SETWISE_TOKEN"'] : []),
    `-d '${body}'`,
  ].join(" \\\n  ");
}

export const FORMATS = { json: asJson, csv: asCsv, python: asPython, curl: asCurl };
