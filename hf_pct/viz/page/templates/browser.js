/* The flip browser: controls, list and the one row that is shown whole. Data only ever becomes text, never markup. */
function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

const sureness = (value) => (value === null || value === undefined ? "" : `${(100 * value).toFixed(0)} %`);

class FlipBrowser {
  constructor(rows) {
    this.rows = rows;
    this.found = [];
    this.chosen = -1; // place in `found`
    this.form = document.getElementById("filters");
    this.detail = document.getElementById("detail");
    this.box = document.getElementById("list");
    this.box.classList.toggle("pictures", rows.thumbnails.size > 0);
    this.list = new VirtualList(this.box, (place) => this.line(place));
    this.fill(document.getElementById("class"), "label");
    this.fill(document.getElementById("answer"), "new_answer");
    for (const select of this.form.querySelectorAll("select.slice")) this.fill(select, select.dataset.slice);
    this.listen();
    this.update();
    this.fromHash();
  }

  get noun() { return "flipped rows"; }

  fill(select, column) {
    if (!select) return;
    const { names } = this.rows.codes(column);
    const order = names.map((name, code) => [name, code]).sort((a, b) => a[0].localeCompare(b[0], undefined, { numeric: true }));
    for (const [name, code] of order) select.append(new Option(name, String(code)));
    select.dataset.column = column;
  }

  listen() {
    this.form.addEventListener("submit", (event) => event.preventDefault());
    document.getElementById("clear").addEventListener("click", () => { this.form.reset(); this.update(); });
    this.form.addEventListener("input", (event) => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.update(), event.target.id === "search" ? 120 : 0);
    });
    this.box.addEventListener("click", (event) => {
      const line = event.target.closest(".row");
      if (line) this.choose(Number(line.dataset.place), true);
    });
    this.box.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("hashchange", () => this.fromHash());
    document.addEventListener("click", (event) => {
      const button = event.target.closest("button.pick");
      if (button) this.pick(button.dataset);
    });
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.box.clientHeight / this.list.height) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (!(event.key in steps) || !this.found.length) return;
    event.preventDefault();
    const next = this.chosen < 0 ? 0 : this.chosen + steps[event.key];
    this.choose(Math.max(0, Math.min(this.found.length - 1, next)));
  }

  /** What the controls ask for. */
  wanted() {
    const codes = [];
    for (const select of this.form.querySelectorAll("select[data-column]")) {
      if (select.value !== "") codes.push([select.dataset.column, Number(select.value)]);
    }
    const kind = this.form.elements.kind.value;
    if (kind) codes.push(["kind", this.rows.codes("kind").seen.get(kind) ?? -1]);
    const least = (id) => Number(document.getElementById(id)?.value ?? 0) / 100;
    return {
      codes,
      search: document.getElementById("search").value,
      old: least("old-sure"),
      new: least("new-sure"),
      order: document.getElementById("order").value,
    };
  }

  update() {
    clearTimeout(this.timer);
    for (const output of this.form.querySelectorAll("output")) {
      output.textContent = `${document.getElementById(output.htmlFor.value).value} %`;
    }
    const row = this.chosen < 0 ? -1 : this.found[this.chosen];
    this.found = this.rows.select(this.wanted());
    this.chosen = this.found.indexOf(row);
    const all = this.rows.count.toLocaleString("en"), some = this.found.length.toLocaleString("en");
    document.getElementById("count").textContent =
      this.found.length === this.rows.count ? `${all} ${this.noun}` : `${some} of ${all} ${this.noun}`;
    this.list.show(this.found.length);
  }

  /** From a table above: show only the rows of that class, slice or confusion. */
  pick(data) {
    this.form.reset();
    const set = (select, value) => {
      const code = this.rows.codes(select.dataset.column).seen.get(value);
      if (code !== undefined) select.value = String(code);
      return code !== undefined;
    };
    const select = data.slice === undefined ? document.getElementById("class")
      : [...this.form.querySelectorAll("select.slice")].find((each) => each.dataset.slice === data.slice);
    if (!select) return;
    if (!set(select, data.value)) document.getElementById("search").value = data.value;
    if (data.answer !== undefined) {
      set(document.getElementById("answer"), data.answer);
      this.form.elements.kind.value = "negative";
    }
    this.update();
    document.getElementById("browser").scrollIntoView();
  }

  /** #id=... in the address shows that row, whatever was filtered before. */
  fromHash() {
    if (!location.hash.startsWith("#id=")) return;
    let id = location.hash.slice(4);
    try { id = decodeURIComponent(id); } catch { /* a stray percent sign is part of the id */ }
    const row = this.rows.rowOfId(id);
    if (row === undefined) {
      this.detail.replaceChildren(make("p", "quiet", `There is no flipped row with the id ${id} in this page.`));
      return;
    }
    if (!this.found.includes(row)) { this.form.reset(); this.update(); }
    document.getElementById("browser").scrollIntoView();
    this.choose(this.found.indexOf(row));
  }

  choose(place, touched = false) {
    this.chosen = place;
    const row = this.found[place];
    this.list.reveal(place);
    this.box.setAttribute("aria-activedescendant", `row-${place}`);
    this.show(row);
    const hash = `#id=${encodeURIComponent(String(this.rows.get("id", row)))}`;
    if (location.hash !== hash) history.replaceState(null, "", hash);
    if (touched && getComputedStyle(this.detail).position === "static") this.detail.scrollIntoView({ block: "nearest" });
  }

  line(place) {
    const { rows } = this, row = this.found[place];
    const line = make("div", `row ${rows.get("kind", row) === "negative" ? "broken" : "fixed"}`);
    line.id = `row-${place}`;
    line.dataset.place = place;
    line.setAttribute("role", "option");
    line.setAttribute("aria-selected", String(place === this.chosen));
    line.setAttribute("aria-setsize", this.found.length);
    line.setAttribute("aria-posinset", place + 1);
    line.append(make("span", "badge", rows.get("kind", row) === "negative" ? "broken" : "fixed"));
    if (rows.thumbnails.size) line.append(this.picture(row));
    const what = make("span", "what"), id = named(rows.get("id", row));
    if (rows.textColumn) what.append(make("span", "text", named(rows.get(rows.textColumn, row))));
    what.append(make("span", "id", id));
    const answers = make("span", "answers");
    answers.append(this.answer("old", row), this.answer("new", row));
    line.append(what, answers);
    return line;
  }

  picture(row) {
    const source = this.rows.thumbnails.get(String(this.rows.get("id", row)));
    if (!source) return make("span", "picture");
    const picture = make("img", "picture");
    picture.src = source;
    picture.alt = "";
    return picture;
  }

  answer(side, row) {
    const answer = this.rows.get(`${side}_answer`, row), right = answer === this.rows.get("label", row);
    const cell = make("span", `answer ${right ? "yes" : "no"}`);
    cell.append(make("span", "who", side), make("span", "tick", right ? "✓" : "✗"));
    cell.append(make("span", "name", named(answer)), make("span", "sure", sureness(this.rows.get(`${side}_confidence`, row))));
    return cell;
  }

  /** All of one row. */
  show(row) {
    const { rows } = this, id = named(rows.get("id", row)), broken = rows.get("kind", row) === "negative";
    const head = make("p", "head");
    head.append(make("span", `badge ${broken ? "broken" : "fixed"}`, broken ? "broken" : "fixed"), make("b", "", id));
    const link = make("a", "", "link to this row");
    link.href = `#id=${encodeURIComponent(id)}`;
    head.append(link);
    const parts = [head];
    if (rows.thumbnails.size) parts.push(this.picture(row));
    if (rows.textColumn) parts.push(make("blockquote", "", named(rows.get(rows.textColumn, row))));
    const facts = make("dl");
    const fact = (name, value) => facts.append(make("dt", "", name), make("dd", "", value));
    fact("right answer", named(rows.get("label", row)));
    for (const side of ["old", "new"]) {
      facts.append(make("dt", "", `${side} model`));
      const cell = make("dd");
      cell.append(this.answer(side, row));
      const sure = rows.get(`${side}_confidence`, row);
      if (sure !== null && sure !== undefined) {
        const meter = make("meter");
        meter.value = sure;
        cell.append(meter);
      }
      facts.append(cell);
    }
    for (const name of rows.extra) if (name !== rows.textColumn) fact(name, named(rows.get(name, row)));
    this.detail.replaceChildren(...parts, facts);
  }
}
