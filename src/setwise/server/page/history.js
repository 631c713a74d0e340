/** Undo and redo. Changes of one gesture, such as a slider's drag, are one step. */

const ONE_GESTURE_MS = 1000;

export class History {
  #past = [];
  #future = [];
  #gesture = null;
  #when = 0;

  /** Remember the state that a change leaves behind; `gesture` says what is being done, or null. */
  record(state, gesture) {
    const now = performance.now();
    const goesOn =
      gesture !== null && gesture === this.#gesture && now - this.#when < ONE_GESTURE_MS;
    if (!goesOn) this.#past.push(state);
    this.#future = [];
    this.#gesture = gesture;
    this.#when = now;
  }

  get canUndo() {
    return this.#past.length > 0;
  }

  get canRedo() {
    return this.#future.length > 0;
  }

  undo(state) {
    return this.#step(state, this.#past, this.#future);
  }

  redo(state) {
    return this.#step(state, this.#future, this.#past);
  }

  #step(state, from, to) {
    to.push(state);
    this.#gesture = null;
    return from.pop();
  }
}
