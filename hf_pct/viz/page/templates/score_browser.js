/* The browser of scored rows: what was asked, and both answers with both scores side by side. */
const points = (value) => (value === null || value === undefined ? "" : String(Number(Number(value).toPrecision(4))));

class ScoreBrowser extends FlipBrowser {
  get noun() { return "changed rows"; }

  line(place) {
    const { rows } = this, row = this.found[place], kind = rows.get("kind", row);
    const line = make("div", `row ${kind}`);
    line.id = `row-${place}`;
    line.dataset.place = place;
    for (const [name, value] of Object.entries({ role: "option", "aria-selected": place === this.chosen,
      "aria-setsize": this.found.length, "aria-posinset": place + 1 })) line.setAttribute(name, String(value));
    line.append(make("span", "badge", kind));
    const what = make("span", "what");
    if (rows.textColumn) what.append(make("span", "text", named(rows.get(rows.textColumn, row))));
    what.append(make("span", "id", named(rows.get("id", row))));
    const answers = make("span", "answers");
    for (const side of ["old", "new"]) answers.append(this.answer(side, row));
    line.append(what, answers);
    return line;
  }

  answer(side, row) {
    const cell = make("span", "answer");
    const text = this.rows.get(`${side}_answer`, row);
    cell.append(make("span", "who", side), make("span", "name", text === null ? "" : named(text)));
    cell.append(make("span", "sure", points(this.rows.get(`${side}_score`, row))));
    return cell;
  }

  show(row) {
    const { rows } = this, kind = rows.get("kind", row), id = named(rows.get("id", row));
    const head = make("p", "head"), link = make("a", "", "link to this row");
    head.append(make("span", `badge ${kind}`, kind), make("b", "", named(rows.get("task", row))));
    link.href = `#id=${encodeURIComponent(id)}`;
    head.append(link);
    const parts = [head];
    const texts = ["text", "new_text"].map((name) => rows.get(name, row)).filter((text) => text !== null);
    const prompts = texts.length === 2 && texts[0] !== texts[1] ? changedWords(...texts).map(marked) : texts.slice(0, 1).map((text) => [text]);
    for (const prompt of prompts) {
      const quote = make("blockquote");
      quote.append(...prompt);
      parts.push(quote);
    }
    parts.push(this.sides(row));
    const facts = make("dl");
    const fact = (name, value) => facts.append(make("dt", "", name), make("dd", "", value));
    if (rows.get("label", row) !== null) fact("right answer", named(rows.get("label", row)));
    fact("id", id);
    for (const name of rows.extra) if (!SHOWN.includes(name)) fact(name, named(rows.get(name, row)));
    this.detail.replaceChildren(...parts, facts);
  }

  sides(row) {
    const box = make("div", "sides");
    const texts = ["old_answer", "new_answer"].map((name) => this.rows.get(name, row));
    const words = texts.every((text) => typeof text === "string") ? changedWords(...texts).map(marked) : texts.map((text) => [named(text)]);
    ["old", "new"].forEach((side, place) => {
      const card = make("div", `side ${side}`), answer = make("p", "answer-text");
      answer.append(...words[place]);
      card.append(make("p", "who", `${side} version, score ${points(this.rows.get(`${side}_score`, row))}`), answer);
      box.append(card);
    });
    return box;
  }
}

const SHOWN = ["task", "text", "new_text", "old_score", "new_score"];
