/** The service: requests with a token and a time limit, and answers that come in order. */

const TOKEN = "setwise-token";
const LIMIT_MS = 20_000;
const PASSING = [408, 429]; // too slow or too many just now, which another try may mend

/** What went wrong: kind is "unavailable", "token" or "refused"; where is a place in the body. */
export class ServiceError extends Error {
  constructor(kind, message, where = null) {
    super(message);
    this.kind = kind;
    this.where = where;
  }
}

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;

export function keepToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

function withToken() {
  const token = sessionStorage.getItem(TOKEN);
  return token === null ? {} : { Authorization: `Bearer ${token}` };
}

/** Ask the service, by GET without a body. Paths are relative: a proxy may put a prefix before. */
export async function ask(path, body, signal) {
  const limit = AbortSignal.timeout(LIMIT_MS);
  const request = {
    headers: withToken(),
    signal: signal ? AbortSignal.any([signal, limit]) : limit,
    cache: "no-store",
  };
  if (body !== undefined) {
    request.method = "POST";
    request.headers["Content-Type"] = "application/json";
    request.body = JSON.stringify(body);
  }
  const response = await reach(path, request);
  return answerOf(response);
}

async function reach(path, request) {
  try {
    return await fetch(new URL(path, document.baseURI), request);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError(
      "unavailable",
      "The service does not answer. Is setwise serve still running?",
    );
  }
}

async function answerOf(response) {
  let answer;
  try {
    answer = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const message = `The service answered with status ${response.status}, and not with JSON.`;
    throw new ServiceError("unavailable", message);
  }
  if (response.ok) return answer;
  const { message, where } = answer?.error ?? {};
  const said = message ?? `The service refused the request with status ${response.status}.`;
  if (response.status === 401) throw new ServiceError("token", said);
  const passes = response.status >= 500 || PASSING.includes(response.status);
  throw new ServiceError(passes ? "unavailable" : "refused", said, where ?? null);
}

/**
 * Questions of which only the newest matters: one is under way at a time, the newest waits.
 *
 * With `replaces` a new question aborts the one under way; without, that one may end first, so that
 * a long drag of a slider is answered all along and not only when it rests.
 */
export class Newest {
  #waiting = null;
  #controller = null;
  #timer = 0;

  constructor(path, { receive, fail, wait = 0, replaces = false }) {
    Object.assign(this, { path, receive, fail, wait, replaces });
  }

  /** Ask for `body`; `about` comes back with the answer. */
  ask(body, about) {
    this.#waiting = { body, about };
    if (this.replaces) this.#stop();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#next(), this.wait);
  }

  /** Forget what was asked. */
  drop() {
    this.#waiting = null;
    clearTimeout(this.#timer);
    this.#stop();
  }

  #stop() {
    this.#controller?.abort();
    this.#controller = null;
  }

  async #next() {
    if (this.#controller !== null || this.#waiting === null) return;
    const { body, about } = this.#waiting;
    const controller = new AbortController();
    this.#waiting = null;
    this.#controller = controller;
    let [answer, fault] = [null, null];
    try {
      answer = await ask(this.path, body, controller.signal);
    } catch (error) {
      fault = error;
    }
    if (this.#controller !== controller) return; // a newer question took its place
    this.#controller = null;
    if (fault === null) this.receive(answer, about);
    else this.fail(fault, about);
    this.#next();
  }
}
