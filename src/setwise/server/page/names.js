/**
 * What items are called: by the model's template of columns, or by the names in its sample.
 *
 * An item keeps its letter, which is short and its own; the name is what people know it by. Where
 * two items have one name, the letter tells them apart.
 */

import { itemFields, valueText } from "./columns.js";
import { OUTSIDE, letter } from "./state.js";

const NOBODY = "None of them";

/** The fields that a template names, by the names of their columns. */
const fieldOf = (fields, name) =>
  fields.find((field) => field.columns.some((column) => column.name === name));

/** The name of an item without regard to the others; "" if it has none. */
export function titleOf(model, state, item) {
  if (item.name === OUTSIDE) return NOBODY;
  if (model.item_name) {
    const fields = itemFields(model);
    return model.item_name.replace(/\{([^{}]*)\}/g, (braced, name) => {
      const field = fieldOf(fields, name);
      return field ? valueText(field, item.values) : braced;
    });
  }
  const names = model.samples?.[state.sample]?.names ?? [];
  return names.find((_, place) => letter(place) === item.name) ?? "";
}

/** By letter, what each item that was ever in the set is called in sentences and pictures. */
export function namesOf(model, state) {
  const gone = state.reference.items.filter(
    (old) => !state.items.some((item) => item.name === old.name),
  );
  const all = [...state.items, ...gone, ...(model.outside ? [{ name: OUTSIDE }] : [])];
  const titles = all.map((item) => titleOf(model, state, item));
  const isAlone = (title) => titles.filter((one) => one === title).length === 1;
  const called = (item, title) => {
    if (title === "") return item.name;
    return isAlone(title) ? title : `${title} ${item.name}`;
  };
  return new Map(all.map((item, place) => [item.name, called(item, titles[place])]));
}

/** The fields that a name is made of, which need not be told beside it. */
export function isInName(model, field) {
  return field.columns.some((column) => model.item_name?.includes(`{${column.name}}`));
}
