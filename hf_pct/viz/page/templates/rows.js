/* The flipped rows: columns as they lie in the file, looked up by row, searched and filtered. */
const CORE = ["id", "kind", "label", "old_answer", "new_answer", "old_confidence", "new_confidence"];
const USUAL_TEXTS = ["text", "sentence", "utterance", "question", "content", "premise"];

/** A value as Python's str() writes it, because slices are named that way. */
function named(value) {
  if (value === null || value === undefined) return "(none)";
  if (typeof value === "boolean") return value ? "True" : "False";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

class Rows {
  constructor(data) {
    this.count = data.rows;
    this.columns = new Map(Object.entries(data.columns));
    this.thumbnails = new Map(Object.entries(data.thumbnails));
    this.slices = data.slices;
    this.extra = [...this.columns.keys()].filter((name) => !CORE.includes(name));
    this.textColumn = this.findTextColumn();
    this.coded = new Map();
  }

  get(name, row) {
    const column = this.columns.get(name);
    if (!column) return null;
    if (!column.codes) return column.values[row];
    return column.codes[row] < 0 ? null : column.names[column.codes[row]];
  }

  /** The usual name, or the longest column of texts that is no slice; null when the rows carry no text. */
  findTextColumn() {
    const usual = USUAL_TEXTS.find((name) => this.columns.has(name));
    if (usual) return usual;
    let best = null, longest = 12;
    for (const name of this.extra) {
      if (this.slices.includes(name)) continue;
      const some = Array.from({ length: Math.min(this.count, 50) }, (_, row) => this.get(name, row));
      if (!some.every((value) => value === null || typeof value === "string")) continue;
      const mean = some.reduce((sum, value) => sum + (value ? value.length : 0), 0) / Math.max(1, some.length);
      if (mean > longest) [best, longest] = [name, mean];
    }
    return best;
  }

  /** A column as codes of its names, made once. */
  codes(name) {
    if (!this.coded.has(name)) {
      const codes = new Int32Array(this.count), names = [], seen = new Map();
      for (let row = 0; row < this.count; row++) {
        const value = named(this.get(name, row));
        if (!seen.has(value)) { seen.set(value, names.length); names.push(value); }
        codes[row] = seen.get(value);
      }
      this.coded.set(name, { codes, names, seen });
    }
    return this.coded.get(name);
  }

  rowOfId(id) {
    if (!this.byId) {
      this.byId = new Map();
      for (let row = 0; row < this.count; row++) this.byId.set(String(this.get("id", row)), row);
    }
    return this.byId.get(id);
  }

  /** All that a search looks at in a row, in small letters; made when it is first searched. */
  searchable(row) {
    if (!this.haystack) this.haystack = new Array(this.count);
    if (this.haystack[row] === undefined) {
      const parts = ["id", "label", "old_answer", "new_answer", ...this.extra].map((name) => named(this.get(name, row)));
      this.haystack[row] = parts.join("\n").toLowerCase();
    }
    return this.haystack[row];
  }

  /** Row numbers that match, in the order asked for. `wanted.codes` has pairs of a column and one of its codes. */
  select(wanted) {
    const tests = wanted.codes.map(([name, code]) => [this.codes(name).codes, code]);
    const sure = ["old", "new"].filter((side) => wanted[side] > 0).map((side) => [`${side}_confidence`, wanted[side]]);
    const words = wanted.search.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    for (let row = 0; row < this.count; row++) {
      if (!tests.every(([codes, code]) => codes[row] === code)) continue;
      if (!sure.every(([name, least]) => (this.get(name, row) ?? -1) >= least)) continue;
      if (words.length) {
        const text = this.searchable(row);
        if (!words.every((word) => text.includes(word))) continue;
      }
      found.push(row);
    }
    if (wanted.order === "id") {
      const order = new Intl.Collator(undefined, { numeric: true });
      found.sort((a, b) => order.compare(String(this.get("id", a)), String(this.get("id", b))));
    } else if (wanted.order) {
      found.sort((a, b) => (this.get(wanted.order, b) ?? -1) - (this.get(wanted.order, a) ?? -1) || a - b);
    }
    return found;
  }

  /** The rows as the report has them, for the JSON to download. */
  plain() {
    return Array.from({ length: this.count }, (_, row) =>
      Object.fromEntries([...this.columns.keys()].map((name) => [name, this.get(name, row)])));
  }
}
