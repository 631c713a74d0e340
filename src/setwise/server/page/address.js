/**
 * The state in the page's address: `#1.` and base64url of compact JSON.
 *
 * A link holds the whole set, reference and all, so that it shows the same after the model's sample
 * has changed. Rows are lists in the order of the columns `c`; an item that is as in the reference
 * `r` is its name only. What is decoded comes from outside, so that each part is checked.
 */

import { OUTSIDE, contextColumns, isChanged, itemColumns } from "./state.js";

const VERSION = "1.";
const MOST_CHARACTERS = 200_000;

const base64url = (bytes) =>
  btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");

const fromBase64url = (text) =>
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));

const names = (columns) => columns.map((column) => column.name);
const row = (columns, values) => names(columns).map((name) => values[name]);

export function encode(model, state, view) {
  const [items, context] = [itemColumns(model), contextColumns(model)];
  const plain = {
    c: names(items),
    k: names(context),
    r: state.reference.items.map(({ name, values }) => [name, ...row(items, values)]),
    i: state.items.map((item) =>
      isChanged(state, item) ? [item.name, ...row(items, item.values)] : item.name,
    ),
    g: state.items.filter((item) => item.gone).map((item) => item.name),
    rk: row(context, state.reference.context),
    ik: row(context, state.context),
    s: state.sample,
    h: state.chosen,
    v: view,
  };
  return VERSION + base64url(new TextEncoder().encode(JSON.stringify(plain)));
}

function check(condition, sentence) {
  if (!condition) throw new Error(sentence);
}

const BROKEN = "the link is cut off or altered";
const OTHER = "the link was made for a model with other columns";

const isValue = (one) => one === null || ["string", "number", "boolean"].includes(typeof one);
const isRow = (one, length) => Array.isArray(one) && one.length === length && one.every(isValue);
const isName = (one) => typeof one === "string" && /^[A-Z]{1,3}$/.test(one);
const equal = (one, other) => JSON.stringify(one) === JSON.stringify(other);

function record(columns, values) {
  check(isRow(values, columns.length), BROKEN);
  return Object.fromEntries(columns.map(({ name }, place) => [name, values[place]]));
}

function parsed(text) {
  check(text.startsWith(VERSION), "the link is of another version of this page");
  check(text.length <= MOST_CHARACTERS, "the link is too long");
  let plain;
  try {
    plain = JSON.parse(new TextDecoder().decode(fromBase64url(text.slice(VERSION.length))));
  } catch {
    throw new Error(BROKEN);
  }
  check(plain !== null && typeof plain === "object", BROKEN);
  return plain;
}

function named(columns, one) {
  check(Array.isArray(one) && isName(one[0]), BROKEN);
  return { name: one[0], values: record(columns, one.slice(1)) };
}

function items(plain, columns, reference) {
  check(Array.isArray(plain.i) && Array.isArray(plain.g), BROKEN);
  const found = plain.i.map((one) =>
    typeof one === "string" ? reference.find((item) => item.name === one) : named(columns, one),
  );
  check(
    found.every((item) => item !== undefined),
    BROKEN,
  );
  check(new Set(found.map((item) => item.name)).size === found.length, BROKEN);
  return found.map((item) => ({ ...item, gone: plain.g.includes(item.name) }));
}

/** What a link holds, as `{ state, view }`; throws an Error whose message says what is wrong. */
export function decode(model, text) {
  const plain = parsed(text);
  const [columns, context] = [itemColumns(model), contextColumns(model)];
  check(equal(plain.c, names(columns)) && equal(plain.k, names(context)), OTHER);
  check(Array.isArray(plain.r) && plain.r.length > 0, BROKEN);
  const reference = plain.r.map((one) => named(columns, one));
  const state = {
    items: items(plain, columns, reference),
    context: record(context, plain.ik),
    reference: { items: reference, context: record(context, plain.rk) },
    sample: Number.isInteger(plain.s) && model.samples?.[plain.s] ? plain.s : null,
    chosen: isName(plain.h) || plain.h === OUTSIDE ? plain.h : null,
  };
  check(
    state.items.some((item) => !item.gone),
    BROKEN,
  );
  const view = plain.v !== null && typeof plain.v === "object" ? plain.v : {};
  return { state, view };
}
