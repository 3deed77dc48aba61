/* One row at a time, four answers, the keyboard, and a file at the end. Data only ever becomes text, never markup. */
const rows = JSON.parse(document.getElementById("data").textContent).rows;
const RIGHTS = ["old", "new", "neither", "unsure"];
const right = new Map(); // id -> one of RIGHTS
let place = 0;
let saved = true;
const part = (id) => document.getElementById(id);

function show() {
  const row = rows[place];
  part("place").textContent = `${place + 1} of ${rows.length}`;
  part("id").textContent = row.id;
  part("text").textContent = row.text || "(no text in the plan)";
  part("old").textContent = row.old_answer;
  part("new").textContent = row.new_answer;
  part("further").replaceChildren(...Object.entries(row.further).flatMap(([name, value]) => {
    const term = document.createElement("dt");
    const detail = document.createElement("dd");
    term.textContent = name;
    detail.textContent = value;
    return [term, detail];
  }));
  for (const button of document.querySelectorAll("[data-right]")) {
    button.setAttribute("aria-pressed", String(right.get(row.id) === button.dataset.right));
  }
  part("progress").textContent = `${right.size} of ${rows.length} labelled${saved ? "" : ", not saved yet"}`;
}

function go(to) {
  place = Math.max(0, Math.min(rows.length - 1, to));
  show();
}

function answer(verdict) {
  right.set(rows[place].id, verdict);
  saved = false;
  go(place + 1);
}

function clear() {
  right.delete(rows[place].id);
  saved = false;
  show();
}

const quoted = (value) => `"${String(value).replaceAll('"', '""')}"`;

function save() {
  const names = ["order", "id", "old_answer", "new_answer", "stratum"]; // the answers say which models were judged
  const lines = rows.map((row) => [...names.map((name) => row[name]), right.get(row.id) || ""].map(quoted).join(","));
  const file = new Blob([[[...names, "right"].join(","), ...lines, ""].join("\n")], { type: "text/csv" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = "labels.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  saved = true;
  show();
}

/* The CSV that save wrote; quotes may hold commas, line ends and doubled quotes. */
function parse(text) {
  const cells = [...text.matchAll(/("(?:[^"]|"")*"|[^",\r\n]*)(,|\r?\n|$)/g)];
  const lines = [[]];
  for (const [all, cell, end] of cells) {
    if (!all) break;
    lines.at(-1).push(cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell);
    if (end !== ",") lines.push([]);
  }
  return lines.filter((line) => line.length > 1);
}

function load(text) {
  const [head, ...lines] = parse(text.replace(/^\ufeff/, ""));
  const at = { id: head ? head.indexOf("id") : -1, right: head ? head.indexOf("right") : -1 };
  const known = new Set(rows.map((row) => String(row.id)));
  const usable = lines.filter((line) => known.has(line[at.id]) && RIGHTS.includes(line[at.right]));
  if (at.id < 0 || at.right < 0 || !usable.length) {
    part("progress").textContent = "That file has no labels of these rows; nothing was changed.";
    return;
  }
  for (const line of usable) right.set(line[at.id], line[at.right]);
  const next = rows.findIndex((row) => !right.has(row.id));
  go(next < 0 ? rows.length - 1 : next);
}

for (const row of rows) row.id = String(row.id);
for (const button of document.querySelectorAll("[data-right]")) {
  button.addEventListener("click", () => answer(button.dataset.right));
}
part("back").addEventListener("click", () => go(place - 1));
part("forward").addEventListener("click", () => go(place + 1));
part("clear").addEventListener("click", clear);
part("save").addEventListener("click", save);
part("load").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (file) load(await file.text());
  event.target.value = "";
});
const keys = {
  1: () => answer("old"), 2: () => answer("new"), 3: () => answer("neither"), 4: () => answer("unsure"),
  ArrowLeft: () => go(place - 1), ArrowRight: () => go(place + 1), Delete: clear, Backspace: clear, s: save,
};
document.addEventListener("keydown", (event) => {
  const act = keys[event.key];
  if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  act();
});
window.addEventListener("beforeunload", (event) => {
  if (!saved) event.preventDefault();
});
go(0);
document.documentElement.dataset.ready = "true";
