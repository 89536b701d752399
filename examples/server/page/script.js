// The page of the example: it sends requests, and draws the quotas that the headers of the
// answers report. It has no other source.

const hue = matchMedia("(prefers-color-scheme: dark)");
const still = matchMedia("(prefers-reduced-motion: reduce)");
const pollEvery = 250; // ms; asking by HEAD is charged nothing
const maxUnderWay = 20; // requests; a browser queues more than its connections, often six to an instance

// The requests of each route. who is the client whose quota they use: each client has a
// history. If free is true, a HEAD reports the quota without a charge, and the page polls
// it. The quota of logins is reported only with an attempt.
const asks = {
  hello: () => ({ path: "/hello", who: "you", free: true, curl: "" }),
  quote: () => {
    const key = chosen("key");
    return {
      path: "/quote", who: key, free: true, headers: key ? { "X-API-Key": key } : {},
      curl: key ? `-H 'X-API-Key: ${key}' ` : "",
    };
  },
  login: () => {
    const form = `account=alice&password=${chosen("password")}`;
    return {
      path: "/login", who: "alice", free: false, method: "POST", body: form,
      headers: { "Content-Type": "application/x-www-form-urlencoded" },
      curl: `-d '${form}' `,
    };
  },
  export: () => ({ path: "/export", who: "you", free: true, curl: "-N " }),
};

// The instances of the service share their counts. The page sends its requests to all of them in
// turn. By another name of the host than that of their URLs, it knows only its own.
const instances = {
  origins: [location.origin],
  answers: [0],
  turns: { HEAD: 0, other: 0 }, // polls take their turns apart from other requests

  async load() {
    const all = await (await fetch("/instances")).json();
    if (!all || all.length < 2 || !all.includes(location.origin)) return;
    this.origins = all;
    this.answers = all.map(() => 0);
    this.show();
  },

  // fetch sends a request to the next instance.
  async fetch(path, options) {
    const kind = options.method === "HEAD" ? "HEAD" : "other";
    const turn = this.turns[kind]++ % this.origins.length;
    const response = await fetch(this.origins[turn] + path, options);
    if (kind === "other") {
      this.answers[turn]++;
      this.show();
    }
    return response;
  },

  show() {
    if (this.origins.length < 2) return;
    const element = document.querySelector(".instances");
    const ports = this.origins.map((origin) => new URL(origin).port);
    element.textContent = `Instances on ports ${ports.join(" and ")} share the counts. Answers: ${this.answers.join(" and ")}.`;
    element.hidden = false;
  },
};

const chosen = (name) => document.querySelector(`input[name=${name}]:checked`).value;

// parameters reads the first member of a list such as "hello";q=20;w=10 into {q: 20, w: 10}.
function parameters(header) {
  const [member] = (header ?? "").match(/^"[^"]*"[^,]*/) ?? [""];
  return Object.fromEntries([...member.matchAll(/;([a-z]+)=(\d+)/g)].map(([, name, value]) => [name, Number(value)]));
}

// A History is the past of one quota as one client has seen it. Times are in ms.
//
// The units of a limit on what is under way have no window: a request holds its unit until its response
// has ended. Until then, it has a lane of the chart to itself. Such responses occupy connections of the
// browser. If they occupy all of them, the page's other requests wait, and it shows what it knew before.
class History {
  events = []; // {at, until, kind, height, lane}: requests, by the times of their answers
  levels = []; // {at, left}: units left, by the answer at that time
  quota = NaN;
  window = 10_000; // until an answer tells it
  holds = false; // whether the limit is on what is under way; then window is only what the chart shows
  left = NaN;
  moreAt = 0; // time at which more is left
  retry = { at: 0, until: 0 };
  newest = 0; // number of the newest request whose answer was used
  admitted = 0;
  denied = 0;
  failures = []; // time of the answer to each failed attempt; see estimateLeft
  full = 0; // time at which a token bucket is full again; see estimateFlow
  others = { units: 0, until: Infinity };

  // update reads the headers of an answer. It ignores an answer to a request that was sent
  // before one whose answer was used already.
  update(number, response, now, free) {
    const policy = parameters(response.headers.get("RateLimit-Policy"));
    const state = parameters(response.headers.get("RateLimit"));
    if (state.r === undefined || number < this.newest) return state;
    this.newest = number;
    this.quota = policy.q;
    this.holds = policy.w === undefined;
    this.window = (policy.w ?? 10) * 1000;
    if (free) this.level(state.r, now);
    if (state.r > 0) this.retry = { at: 0, until: 0 }; // Retry-After is rounded up, so it may end later
    this.moreAt = state.t === undefined ? 0 : now + state.t * 1000;
    return state;
  }

  // known returns whether an answer has told the limit.
  get known() {
    return Number.isFinite(this.quota);
  }

  // held returns the requests of this page that hold units.
  get held() {
    return this.events.filter(({ until }) => until === Infinity);
  }

  level(left, now) {
    this.left = left;
    if (this.levels.at(-1)?.left !== left) this.levels.push({ at: now, left });
  }

  // estimateLeft computes how much is left of a quota that cannot be polled: the quota less
  // the failures in the window and the charges of others; or, if flows is true, less what has
  // not flowed back into the token bucket; or less what is held.
  estimateLeft(now, flows) {
    if (this.holds) return this.level(Math.max(0, this.quota - this.held.length), now);
    if (flows) return this.estimateFlow(now);
    while (this.failures[0] + this.window <= now) this.failures.shift();
    if (now >= this.others.until) this.others = { units: 0, until: Infinity };
    if (!this.known) return;
    this.level(Math.max(0, this.quota - this.failures.length - this.others.units), now);
    this.moreAt = this.idle() ? 0 : Math.min(this.failures[0] + this.window || Infinity, this.others.until);
  }

  // estimateFlow is estimateLeft for a token bucket, which fills in one window.
  estimateFlow(now) {
    if (!this.known) return;
    const unit = this.window / this.quota;
    const missing = Math.max(0, Math.ceil((this.full - now) / unit - 1e-6)); // in part or whole
    this.level(Math.max(0, this.quota - missing), now);
    this.moreAt = this.idle() ? 0 : this.full - (missing - 1) * unit;
  }

  // attempted updates the history by the units left after an attempt. If no other request
  // was under way, the rest is the charges of others, which end after one window at most.
  attempted(kind, left, alone, now) {
    const unit = this.window / this.quota;
    if (kind === "admitted") {
      this.failures.push(now);
      this.full = Math.max(this.full, now) + unit;
    }
    if (!alone || this.holds) return;
    const returned = kind === "returned" ? 1 : 0; // given back after the headers were written
    const charged = this.quota - left - returned;
    // Of the last unit charged, a part may have flowed back: as this page knows, else none.
    const missing = (this.full - now) / unit;
    if (missing <= charged - 1 || missing > charged) this.full = now + charged * unit;
    while (this.failures.length > charged) this.failures.shift(); // no longer charged, by the server's clock
    const units = charged - this.failures.length;
    this.others = { units, until: units > 0 ? now + this.window : Infinity };
  }

  // record adds a request, and returns it. If it holds units, end must follow.
  record(kind, state, response, now) {
    const event = { at: now, until: now, kind, height: state.r ?? 0 };
    if (this.holds && (kind === "admitted" || kind === "returned")) {
      const taken = this.held.map(({ lane }) => lane);
      event.lane = [...taken.keys(), taken.length].find((lane) => !taken.includes(lane));
      event.until = Infinity;
    }
    this.events.push(event);
    if (kind === "denied") {
      this.denied++;
      this.retry = { at: now, until: now + Number(response.headers.get("Retry-After")) * 1000 };
    } else if (kind !== "refused") {
      this.admitted++;
      this.retry = { at: 0, until: 0 };
    }
    return event;
  }

  // end records that the response to a request has ended, or that its client has hung up.
  end(event, hungUp, now) {
    if (event.until === Infinity) Object.assign(event, { until: now, hungUp });
  }

  // shown returns the time that the chart shows: also some before the window, if there is one.
  get shown() {
    return this.holds ? this.window : 1.3 * this.window;
  }

  forget(now) {
    const from = now - this.shown;
    while (this.events.length && this.events[0].until < from) this.events.shift();
    while (this.levels.length > 1 && this.levels[1].at < from) this.levels.shift();
  }

  // idle reports whether the quota stays as it is until a request is sent. That includes an
  // unknown quota.
  idle() {
    return !(this.left < this.quota);
  }
}

// A Route is one row of the page.
class Route {
  histories = new Map();
  number = 0;
  underWay = 0; // requests without an answer
  responses = new Set(); // the AbortControllers of requests whose response has not ended, oldest first
  owed = 0; // requests to send by the rate, with a fraction
  asking = false;
  again = false;
  spokenAt = 0;
  answerUntil = 0; // time at which the last answer is past
  flows = false; // whether the limit is a token bucket

  constructor(section) {
    this.section = section;
    this.name = section.dataset.route;
    this.ask = asks[this.name];
    const add = (template, to) => to.append(document.getElementById(template).content.cloneNode(true));
    add("controls", section.querySelector(".ask"));
    add("panels", section);
    this.find = (selector) => section.querySelector(selector);
    this.rate = this.find("input[type=range]");
    this.chart = new Chart(this.find("canvas"));
    section.addEventListener("click", ({ target }) => this.send(Number(target.dataset.send ?? 0)));
    this.find("[data-hang-up]")?.addEventListener("click", () => this.hangUp());
    section.addEventListener("input", () => this.changed());
    this.changed();
  }

  get history() {
    const { who } = this.ask();
    if (!this.histories.has(who)) this.histories.set(who, new History());
    return this.histories.get(who);
  }

  changed() {
    const { path, curl } = this.ask();
    this.find(".rate output").value = this.rate.value;
    this.find(".curl code").textContent = `curl -i ${curl}${location.origin}${path}`;
    this.poll();
  }

  send(times) {
    for (let i = 0; i < times; i++) this.sendOne();
  }

  async sendOne() {
    const { path, free, method, headers, body } = this.ask();
    const { history } = this;
    const number = ++this.number;
    const alone = ++this.underWay === 1;
    const caller = new AbortController();
    try {
      const response = await instances.fetch(path, { method, headers, body, cache: "no-store", signal: caller.signal });
      const now = performance.now();
      const state = history.update(number, response, now, free);
      const kind = kindOf(this.name, response.status);
      const event = history.record(kind, state, response, now);
      if (!free && state.r !== undefined) history.attempted(kind, state.r, alone && number === this.number, now);
      this.answered(response, kind, state, now);
      this.follow(response, caller, history, event);
    } catch {
      this.unanswered();
    }
    this.underWay--;
  }

  // follow waits until a response has ended. The units that it held are free then.
  async follow(response, caller, history, event) {
    this.responses.add(caller);
    await response.text().catch(() => {}); // it was broken off, which ends it, too
    this.responses.delete(caller);
    history.end(event, caller.signal.aborted, performance.now());
    if (history.holds) setTimeout(() => this.poll(), caller.signal.aborted ? 50 : 0); // the server must notice a hang-up first
  }

  // hangUp ends the oldest response, as a client does that loses its patience.
  hangUp() {
    const [oldest] = this.responses;
    oldest?.abort();
  }

  // poll requests the quota by HEAD, if that is free. If a poll is under way, it polls once
  // more afterwards, since the client may have changed.
  async poll() {
    const { path, free, headers } = this.ask();
    if (!free) return;
    this.again = this.asking;
    if (this.asking) return;
    this.asking = true;
    const { history } = this;
    const number = ++this.number;
    try {
      const response = await instances.fetch(path, { method: "HEAD", headers, cache: "no-store" });
      history.update(number, response, performance.now(), free);
    } catch {
      this.unanswered();
    }
    this.asking = false;
    if (this.again) this.poll();
  }

  answered(response, kind, state, now) {
    const says = ["RateLimit-Policy", "RateLimit", "Retry-After"]
      .filter((name) => response.headers.has(name))
      .map((name) => `${name}: ${response.headers.get(name)}`);
    this.say(kind, `${response.status} ${response.statusText}`, says.join(" · "));
    const seconds = Math.max(state.t ?? 0, Number(response.headers.get("Retry-After")));
    this.answerUntil = now + (seconds * 1000 || this.history.window);
  }

  unanswered() {
    this.rate.value = 0;
    this.find(".rate output").value = 0;
    this.say("refused", "No answer.", "Is the server running?");
    this.answerUntil = Infinity;
  }

  say(kind, first, rest) {
    const answer = this.find(".answer");
    answer.className = `answer ${kind}`;
    answer.querySelector("b").textContent = first;
    answer.querySelector("span").textContent = rest;
  }

  // tick sends requests at the rate, and polls while the quota changes.
  tick(elapsed) {
    this.owed = Math.min(this.owed + (Number(this.rate.value) * elapsed) / 1000, maxUnderWay);
    for (; this.owed >= 1 && this.underWay < maxUnderWay; this.owed--) this.sendOne();
    const now = performance.now();
    if (!document.hidden && !this.underWay && !this.history.idle() && now - (this.polledAt ?? 0) >= pollEvery) {
      this.polledAt = now;
      this.poll();
    }
  }

  draw(now) {
    const { history } = this;
    const { free } = this.ask();
    history.forget(now);
    if (!free) history.estimateLeft(now, this.flows);
    this.chart.draw(history, now);
    const { known } = history;
    const wait = Math.max(0, history.retry.until - now);
    const more = history.moreAt - now;
    this.text(".remaining b", known ? history.left : "–");
    this.text(".quota", known ? history.quota : "–");
    this.fill(".meter", known ? history.left / history.quota : 0);
    this.text(".more", this.more(known, free, more));
    this.text(".retry b", wait > 0 ? `${(wait / 1000).toFixed(1)} s` : "–");
    this.find(".retry").classList.toggle("waiting", wait > 0);
    this.fill(".retry-meter", wait / (history.retry.until - history.retry.at || 1));
    this.text("dd.admitted", history.admitted);
    this.text("dd.denied", history.denied);
    this.age(now);
    this.speak(history, wait, now);
  }

  more(known, free, wait) {
    const { holds, quota, left } = this.history;
    if (!known) return free ? "\u00a0" : "told with an attempt";
    if (holds) return `${quota - left} held now`;
    if (this.history.idle()) return "the full quota";
    return wait > 0 ? `more within ${Math.ceil(wait / 1000)} s` : "\u00a0";
  }

  // age marks the last answer as past once its time is over.
  age(now) {
    const past = now >= this.answerUntil;
    this.find(".answer").classList.toggle("past", past);
    if (this.answerUntil) this.text(".answer i", past ? "past" : "now");
  }

  text(selector, text) {
    const element = this.find(selector);
    if (element.textContent !== String(text)) element.textContent = text;
  }

  fill(selector, share) {
    this.find(selector).firstElementChild.style.width = `${100 * share}%`;
  }

  // speak writes a summary for screen readers, at most every four seconds.
  speak(history, wait, now) {
    const heard = `${history.admitted} ${history.denied} ${history.holds ? history.left : ""}`;
    if (heard === this.heard || now - this.spokenAt < 4000) return;
    this.heard = heard;
    if (!history.admitted && !history.denied) return;
    this.spokenAt = now;
    const retry = wait > 0 ? `, retry in ${Math.ceil(wait / 1000)} seconds` : "";
    this.text(".spoken", `${this.name}: ${history.left} of ${history.quota} left, ` +
      `${history.admitted} admitted, ${history.denied} denied${retry}.`);
  }
}

// kindOf returns the kind of an answer. A failed login is admitted, and stays charged.
function kindOf(route, status) {
  if (status === 429) return "denied";
  if (status === 401) return "admitted";
  if (status >= 400) return "refused";
  return route === "login" ? "returned" : "admitted";
}

// A Chart is a timeline that ends now. It draws the window as a pane over a wall, the units
// left as a level in it, and requests as marks. Admitted requests lie on the level that
// they left, the others on the sill. A request that holds units is a bar, as long as it holds them.
class Chart {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.recolor();
    hue.addEventListener("change", () => this.recolor());
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.resize();
  }

  recolor() {
    const style = getComputedStyle(document.documentElement);
    const names = ["past", "pane", "line", "ink", "faint", "admitted", "level", "denied", "refused"];
    this.color = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`)]));
    this.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  }

  resize() {
    const scale = devicePixelRatio;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(this.height * scale);
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
  }

  draw(history, now) {
    this.right = this.width - 14;
    this.top = 26;
    this.bottom = this.height - 42; // the level at which no unit is left
    this.perMs = (this.right - 4) / history.shown;
    this.x = (at) => this.right - (now - at) * this.perMs;
    this.y = (left) => this.bottom - (left / history.quota) * (this.bottom - this.top);
    this.edge = this.x(now - history.window);
    this.canvas.setAttribute("aria-label", history.known
      ? `The last ${history.window / 1000} seconds of requests, and how many more were left`
      : "No request was sent yet, so the window is not known");
    this.wall(history, now);
    this.level(history, now);
    this.frame(history);
    history.events.forEach((event, i) => (event.lane === undefined ? this.mark(event, i) : this.bar(event, history, now)));
  }

  // wall draws the background: the past, the pane, and the marks of seconds.
  wall(history, now) {
    const c = this.context;
    c.globalAlpha = 1;
    c.fillStyle = this.color.past;
    c.fillRect(0, 0, this.width, this.height);
    c.fillStyle = this.color.pane;
    c.fillRect(this.edge, 0, this.right - this.edge, this.height - 16);
    c.strokeStyle = this.color.line;
    c.lineWidth = 1;
    c.globalAlpha = 0.6;
    c.beginPath();
    const step = history.window / 10;
    for (let at = Math.floor(now / step) * step; this.x(at) > 0; at -= step) {
      c.moveTo(this.x(at), this.top - 8);
      c.lineTo(this.x(at), this.height - 16);
    }
    c.stroke();
    c.globalAlpha = 1;
  }

  level(history, now) {
    if (!history.levels.length) return;
    const c = this.context;
    const steps = new Path2D();
    let y = this.y(history.levels[0].left);
    steps.moveTo(Math.max(0, this.x(history.levels[0].at)), y);
    for (const { at, left } of history.levels.slice(1)) {
      steps.lineTo(Math.max(0, this.x(at)), y);
      y = this.y(left);
      steps.lineTo(Math.max(0, this.x(at)), y);
    }
    steps.lineTo(this.x(now), y);
    const area = new Path2D(steps);
    area.lineTo(this.x(now), this.bottom);
    area.lineTo(Math.max(0, this.x(history.levels[0].at)), this.bottom);
    c.fillStyle = this.color.level;
    this.inBoth(() => c.fill(area));
    c.strokeStyle = this.color.admitted;
    c.lineWidth = 1.5;
    this.inBoth(() => c.stroke(steps));
  }

  // inBoth draws inside the window in full colour, and outside faintly.
  inBoth(draw) {
    const c = this.context;
    for (const [from, to, alpha] of [[0, this.edge, 0.25], [this.edge, this.width, 1]]) {
      c.save();
      c.beginPath();
      c.rect(from, 0, to - from, this.height);
      c.clip();
      c.globalAlpha = alpha;
      draw();
      c.restore();
    }
  }

  // frame draws the frame and the sill of the window, and their labels.
  frame(history) {
    const c = this.context;
    c.strokeStyle = this.color.faint;
    c.lineWidth = 2;
    c.strokeRect(this.edge, 1, this.right - this.edge, this.height - 17);
    c.lineWidth = 1;
    c.beginPath();
    c.moveTo(this.edge, this.bottom + 0.5);
    c.lineTo(this.right, this.bottom + 0.5);
    c.stroke();
    c.font = this.font;
    c.fillStyle = this.color.faint;
    c.textBaseline = "middle";
    c.textAlign = "left";
    if (history.quota) c.fillText(`${history.quota}`, this.edge + 7, this.top - 10);
    c.textBaseline = "bottom";
    c.fillText("0", this.edge + 7, this.bottom - 1);
    c.textBaseline = "alphabetic";
    c.textAlign = history.holds ? "left" : "center";
    if (history.known) c.fillText(`${history.window / 1000} s ago`, this.edge, this.height - 3);
    c.textAlign = "right";
    c.fillText("now", this.width - 2, this.height - 3);
  }

  // bar draws a request that holds units, in its lane. It ends in a stroke if its client has hung up.
  bar({ at, until, lane, hungUp }, { quota }, now) {
    const c = this.context;
    const lanes = (this.bottom - this.top) / quota;
    const y = this.top + lanes * ((lane % quota) + 0.5);
    const [from, to] = [Math.max(this.edge, this.x(at)), this.x(Math.min(until, now))];
    if (to < this.edge) return;
    const thick = Math.min(8, 0.7 * lanes);
    c.globalAlpha = 1;
    c.fillStyle = this.color.admitted;
    c.beginPath();
    c.roundRect(from, y - thick / 2, Math.max(to - from, thick), thick, thick / 2);
    c.fill();
    if (!hungUp) return;
    c.fillStyle = this.color.refused;
    c.fillRect(to, y - thick, 3, 2 * thick);
  }

  mark({ at, kind, height }, index) {
    const c = this.context;
    const x = this.x(at);
    c.globalAlpha = x < this.edge ? 0.3 : 1;
    c.fillStyle = c.strokeStyle = this.color[kind === "returned" ? "admitted" : kind];
    c.lineWidth = 2;
    c.beginPath();
    if (kind === "admitted" || kind === "returned") {
      c.arc(x, this.y(height), 3.5, 0, 2 * Math.PI);
      if (kind === "admitted") return c.fill();
      c.stroke();
      c.fillStyle = this.color.pane;
      return c.fill();
    }
    const y = this.bottom + 8 + (index % 3) * 5; // so that the marks of a burst do not coincide
    if (kind === "denied") {
      for (const slope of [-1, 1]) {
        c.moveTo(x - 3, y - 3 * slope);
        c.lineTo(x + 3, y + 3 * slope);
      }
      return c.stroke();
    }
    c.moveTo(x, y - 4);
    c.lineTo(x + 4, y + 3);
    c.lineTo(x - 4, y + 3);
    c.fill();
  }
}

const how = [
  [/at once/, "Held until the response has ended."],
  [/burst/, "Units flow back one by one."],
  [/buckets/, "A whole bucket is back at once."],
  [/parts/, "A whole sixteenth of a window is back at once."],
  [/log/, "Each unit is back after one window."],
  [/./, "Units come back bit by bit."],
];

// showLimits shows the limit of each route, and how its units come back.
async function showLimits(routes) {
  const limits = await (await fetch("/limits")).json();
  for (const route of routes) {
    const limit = limits[route.name];
    route.text(".limit", limit);
    route.flows = /burst/.test(limit);
    route.text(".how", how.find(([algorithm]) => algorithm.test(limit))[1]);
  }
}

const routes = [...document.querySelectorAll("section[data-route]")].map((section) => new Route(section));
showLimits(routes);
instances.load();

let ticked = performance.now();
setInterval(() => {
  const now = performance.now();
  for (const route of routes) route.tick(now - ticked);
  ticked = now;
}, 50);

let drawn = 0;
(function frame() {
  const now = performance.now();
  if (!still.matches || now - drawn >= 500) {
    drawn = now;
    for (const route of routes) route.draw(now);
  }
  requestAnimationFrame(frame);
})();
