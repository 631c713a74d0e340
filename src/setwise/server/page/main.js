/** The page: loads the model, wires the parts together, and draws them when something changes. */

import { decode, encode } from "./address.js";
import { ofColumns, ofSample } from "./state.js";
import { Notices } from "./notices.js";
import { Session } from "./session.js";
import { copy } from "./share.js";
import { Views } from "./views.js";
import { ask } from "./service.js";

const ADDRESS_MS = 250; // browsers refuse addresses that change too often

const element = (id) => document.getElementById(id);
const notices = new Notices(() => (session === null ? start() : session.refresh()));

let session = null;
let isStarting = false;
let addressTimer = 0;

function opening(model) {
  const first = { state: model.samples?.length ? ofSample(model, 0) : ofColumns(model), view: {} };
  const text = location.hash.slice(1);
  if (text === "") return first;
  try {
    return decode(model, text);
  } catch (error) {
    notices.say(
      `This address cannot be opened: ${error.message}. Here is the beginning instead.`,
      "Close",
    );
    return first;
  }
}

function writeAddress() {
  clearTimeout(addressTimer);
  const text = `#${encode(session.model, session.state, session.view)}`;
  if (text !== location.hash) history.replaceState(null, "", text);
}

function copyLink() {
  writeAddress();
  copy(location.href, element("copy-link"), () =>
    notices.say("The link is in the address bar: copy it from there.", "Close"),
  );
}

/** The address follows the set, once somebody has changed something, when it has come to rest. */
function followed(opened) {
  let written = opened;
  return () => {
    if (session.state === written.state && session.view === written.view) return;
    written = { state: session.state, view: session.view };
    clearTimeout(addressTimer);
    addressTimer = setTimeout(writeAddress, ADDRESS_MS);
  };
}

async function load() {
  try {
    return await ask("v1/model");
  } catch (error) {
    notices.fault(error);
    return null;
  }
}

async function start() {
  if (isStarting) return;
  isStarting = true;
  const model = await load();
  isStarting = false;
  if (model !== null) begin(model);
}

function begin(model) {
  notices.clear();
  const opened = opening(model);
  const views = new Views(model, { session: () => session, copyLink });
  const follow = followed(opened);
  session = new Session(model, opened, {
    draw: () => {
      views.draw(session);
      follow();
    },
    fail: (fault) => notices.fault(fault),
    succeed: () => notices.recovered(),
  });
  notices.loaded();
  session.refresh();
  addEventListener("hashchange", () => session.open(opening(model)));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => views.draw(session));
}

start();
