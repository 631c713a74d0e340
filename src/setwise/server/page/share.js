/** The card from which what is on screen is copied. */

import { FORMATS } from "./formats.js";
import { hasToken } from "./service.js";

const SAID_MS = 1500;

const element = (id) => document.getElementById(id);

/** Copies text and says so on the button; where the browser forbids it, `otherwise` is told. */
export async function copy(text, button, otherwise) {
  const label = button.dataset.label ?? button.textContent;
  button.dataset.label = label;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => {
      button.textContent = label;
    }, SAID_MS);
  } catch {
    otherwise(); // browsers give the clipboard only to pages from https or from this machine
  }
}

export class ShareCard {
  constructor() {
    this.format = element("format");
    this.text = element("format-text");
    this.format.addEventListener("change", () => this.#write());
    element("copy-format").addEventListener("click", () =>
      copy(this.text.textContent, element("copy-format"), () => this.#select()),
    );
  }

  /** `page`: the model, the state, and what the bars show of it. */
  draw(page) {
    const address = new URL("v1/predict", document.baseURI).href;
    this.page = { ...page, address, hasToken: hasToken() };
    this.#write();
  }

  #write() {
    this.text.textContent = FORMATS[this.format.value](this.page);
  }

  #select() {
    getSelection().selectAllChildren(this.text);
  }
}
