/** What is said besides the numbers: loading, a lost service, a token that is needed. */

import { hasToken, keepToken } from "./service.js";

const AGAIN_MS = 4000;

const element = (id) => document.getElementById(id);

export class Notices {
  #timer = 0;
  #isFault = false;

  constructor(again) {
    this.again = again;
    element("notice-action").addEventListener("click", () => this.#act());
    element("token-form").addEventListener("submit", (event) => {
      event.preventDefault();
      keepToken(element("token").value.trim());
      element("token").value = "";
      this.again();
    });
  }

  clear() {
    clearTimeout(this.#timer);
    this.#isFault = false;
    element("notice").hidden = true;
    element("token-form").hidden = true;
  }

  /** The service answers: what was said of its faults is over, other things stay said. */
  recovered() {
    if (this.#isFault) this.clear();
  }

  loaded() {
    element("loading").hidden = true;
    element("main").hidden = false;
  }

  say(text, action = null, act = () => this.clear()) {
    element("notice").hidden = false;
    element("notice-text").textContent = text;
    element("notice-action").hidden = action === null;
    element("notice-action").textContent = action ?? "";
    this.act = act;
  }

  /** What a request failed of: asks for a token, tries again by itself, or just says it. */
  fault({ kind, message }) {
    clearTimeout(this.#timer);
    this.#isFault = true;
    element("loading").hidden = true;
    if (kind === "token") {
      if (hasToken()) this.say("The service does not know this token.");
      else element("notice").hidden = true;
      element("token-form").hidden = false;
      element("token").focus();
    } else if (kind === "unavailable") {
      this.say(message, "Try again", this.again);
      this.#timer = setTimeout(() => this.again(), AGAIN_MS);
    } else {
      this.say(message);
    }
  }

  #act() {
    clearTimeout(this.#timer);
    this.act();
  }
}
