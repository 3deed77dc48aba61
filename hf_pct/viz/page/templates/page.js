/* The page around the browser: light and dark, sorting, the alpha curve, the raw JSON, paper. */
const data = JSON.parse(document.getElementById("data").textContent);
const rows = new Rows(data);
const Browser = typeof ScoreBrowser === "undefined" ? FlipBrowser : ScoreBrowser;
const browser = document.getElementById("list") ? new Browser(rows) : null;

function setUpTheme() {
  const root = document.documentElement, button = document.getElementById("theme");
  const stored = () => { try { return localStorage.getItem("hf_pct_theme"); } catch { return null; } };
  const prefers = window.matchMedia("(prefers-color-scheme: dark)");
  const apply = (theme) => {
    root.dataset.theme = theme;
    button.setAttribute("aria-pressed", String(theme === "dark"));
    button.textContent = theme === "dark" ? "Light" : "Dark";
  };
  apply(stored() ?? (prefers.matches ? "dark" : "light"));
  prefers.addEventListener("change", () => { if (!stored()) apply(prefers.matches ? "dark" : "light"); });
  button.addEventListener("click", () => {
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    apply(theme);
    try { localStorage.setItem("hf_pct_theme", theme); } catch { /* then it is forgotten */ }
  });
}

function setUpSorting(table) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  const words = new Intl.Collator(undefined, { numeric: true });
  heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
    const numbers = head.classList.contains("n");
    const before = head.getAttribute("aria-sort");
    const up = before ? before === "descending" : !numbers; // numbers start with the largest, names with a
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const value = (row) => row.cells[column].dataset.v;
    const compare = numbers ? (a, b) => Number(value(a)) - Number(value(b)) : (a, b) => words.compare(value(a), value(b));
    body.append(...[...body.rows].sort((a, b) => (up ? compare(a, b) : -compare(a, b))));
    fitToRows(table.closest(".scroll"));
  }));
}

function setUpCurve(figure) {
  const cursor = document.getElementById("cursor"), readout = document.getElementById("readout");
  const stops = [...document.querySelectorAll("#curve table.numbers tbody tr")];
  const texts = stops.map((stop) => {
    const [alpha, accuracy, nfr, ensemble] = [...stop.cells].map((cell) => cell.textContent);
    return `alpha ${alpha}: accuracy ${accuracy}, NFR ${nfr}${ensemble ? `; ensemble: accuracy ${ensemble}` : ""}`;
  });
  let at = Math.max(0, stops.findIndex((stop) => stop.classList.contains("chosen")));
  const show = (index) => {
    at = Math.max(0, Math.min(stops.length - 1, index));
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, stops[at].dataset.x);
    cursor.setAttribute("visibility", "visible");
    readout.textContent = texts[at];
  };
  figure.addEventListener("pointermove", (event) => {
    const box = figure.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * figure.viewBox.baseVal.width;
    const away = stops.map((stop) => Math.abs(Number(stop.dataset.x) - x));
    show(away.indexOf(Math.min(...away)));
  });
  figure.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) { event.preventDefault(); show(at + step); }
  });
  figure.addEventListener("focus", () => show(at));
}

/** A table that scrolls ends between two rows, because half a row cannot be read, and says how many come below. */
function fitToRows(box) {
  const body = box.querySelector("tbody");
  if (!body) return;
  box.style.maxHeight = "";
  if (box.nextElementSibling?.classList.contains("more")) box.nextElementSibling.remove();
  if (box.scrollHeight <= box.clientHeight) return;
  box.style.scrollPaddingTop = `${box.querySelector("thead").getBoundingClientRect().height}px`; // rows stop below it
  const inside = box.getBoundingClientRect().top + box.clientTop - box.scrollTop;
  const bottoms = [...body.rows].map((row) => row.getBoundingClientRect().bottom - inside);
  const whole = bottoms.filter((bottom) => bottom <= box.clientHeight);
  if (!whole.length) return;
  box.style.maxHeight = `${whole.at(-1) + box.offsetHeight - box.clientHeight}px`;
  const more = document.createElement("p");
  more.className = "more quiet";
  more.textContent = `${(bottoms.length - whole.length).toLocaleString("en")} more below: scroll in the table.`;
  if (bottoms.length > whole.length) box.after(more);
}

function download() {
  const listed = data.list === null ? {} : { [data.list ?? "flips"]: rows.plain() }; // null: a report without rows
  const text = JSON.stringify({ ...data.report, ...listed }, null, 1) + "\n";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = data.file ?? (data.list ? "score_report.json" : "flip_report.json");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

for (const button of document.querySelectorAll(".tools button")) button.hidden = false;
setUpTheme();
document.querySelectorAll("table.sortable").forEach(setUpSorting);
const fit = () => document.querySelectorAll(".scroll").forEach(fitToRows);
window.addEventListener("resize", fit);
document.addEventListener("toggle", fit, true); // a table that was folded has no height before
fit();
const figure = document.getElementById("alpha");
if (figure) setUpCurve(figure);
document.getElementById("download")?.addEventListener("click", download);
document.getElementById("print").addEventListener("click", () => window.print());
if (browser) {
  window.addEventListener("beforeprint", () => browser.list.print(200));
  window.addEventListener("afterprint", () => browser.list.endPrint());
}
document.documentElement.dataset.ready = "true";
