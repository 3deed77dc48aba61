"""How large a page is and how long a browser takes to open it: python tests/viz/page_speed.py"""

import tempfile
from pathlib import Path
from statistics import median

import numpy as np
from page_browser import start_browser
from page_reports import long_report
from PIL import Image

from hf_pct.viz.page.write import write_page

SCROLL = """const done = arguments[0], list = document.getElementById('list'), times = [];
    let last = performance.now();
    const step = () => {
        const now = performance.now();
        times.push(now - last);
        last = now;
        list.scrollTop = list.scrollHeight * ((times.length * 37) % 100) / 100;
        if (times.length < 60) requestAnimationFrame(step); else done(times.slice(2));
    };
    requestAnimationFrame(step);"""


def main() -> None:
    noise = np.random.default_rng(0).integers(0, 255, (320, 240, 3), dtype=np.uint8)  # nothing compresses worse
    print(f"{'flipped rows':>12} {'thumbnails':>10} {'MB':>6} {'opens in, s':>11} {'frame, ms':>9}  (medians)")
    with tempfile.TemporaryDirectory() as name, start_browser(Path(name)) as browser:
        for flips, pictures in ((10_000, 0), (100_000, 0), (10_000, 500)):
            images = {f"row-{row:06d}": Image.fromarray(noise) for row in range(pictures)} or None
            path = write_page(Path(name) / f"{flips}-{pictures}.html", long_report(flips), images=images)
            seconds = median(browser.seconds_to_open(path) for _ in range(7))
            frame = median(browser.driver.execute_async_script(SCROLL))
            size = path.stat().st_size / 1e6
            print(f"{flips:>12,} {pictures:>10} {size:>6.1f} {seconds:>11.2f} {frame:>9.1f}")


if __name__ == "__main__":
    main()
