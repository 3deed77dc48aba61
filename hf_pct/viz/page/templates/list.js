/* A list of any length that only ever holds the rows in view. */
const TALLEST = 8e6; // pixels; browsers stop drawing somewhere above, so longer lists scroll faster than they are
const BEYOND = 6; // rows drawn above and below the view, so that scrolling shows no gap

class VirtualList {
  constructor(box, render) {
    this.box = box;
    this.render = render;
    this.sizer = box.querySelector(".sizer");
    this.window = box.querySelector(".window");
    this.count = 0;
    this.drawn = "";
    let waiting = false;
    const later = () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; this.draw(); });
    };
    box.addEventListener("scroll", later, { passive: true });
    new ResizeObserver(() => this.layout()).observe(box);
  }

  show(count) {
    this.count = count;
    this.box.scrollTop = 0;
    this.layout();
  }

  layout() {
    this.height = parseFloat(getComputedStyle(this.box).getPropertyValue("--row")) || 56;
    this.total = this.count * this.height;
    this.physical = Math.min(this.total, TALLEST);
    this.sizer.style.height = `${this.physical}px`;
    this.refresh();
  }

  refresh() {
    this.drawn = "";
    this.draw();
  }

  /** How far down the list the view is, were it not squeezed into TALLEST pixels. */
  position() {
    const room = this.physical - this.box.clientHeight;
    if (room <= 0) return 0;
    return this.box.scrollTop * ((this.total - this.box.clientHeight) / room);
  }

  draw() {
    if (this.printing) return;
    const top = this.position();
    const first = Math.max(0, Math.floor(top / this.height) - BEYOND);
    const last = Math.min(this.count, Math.ceil((top + this.box.clientHeight) / this.height) + BEYOND);
    this.window.style.transform = `translateY(${this.box.scrollTop + first * this.height - top}px)`;
    const span = `${first}-${last}`;
    if (span === this.drawn) return;
    this.drawn = span;
    this.window.replaceChildren(...Array.from({ length: last - first }, (_, i) => this.render(first + i)));
  }

  reveal(place) {
    const view = this.box.clientHeight, top = this.position(), at = place * this.height;
    if (at >= top && at + this.height <= top + view) return this.refresh();
    const wanted = at < top ? at : at + this.height - view;
    const room = this.total - view;
    const target = Math.max(0, Math.min(wanted, room));
    this.box.scrollTop = room > 0 ? target * ((this.physical - view) / room) : 0;
    this.refresh();
  }

  /** Paper does not scroll: the first rows stand one below the other. */
  print(most) {
    this.printing = true;
    this.window.style.transform = "none";
    this.window.replaceChildren(...Array.from({ length: Math.min(most, this.count) }, (_, i) => this.render(i)));
  }

  endPrint() {
    this.printing = false;
    this.layout();
  }
}
