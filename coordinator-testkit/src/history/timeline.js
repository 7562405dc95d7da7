// The zoom: everything is placed in per cent, so a wider drawing is all that it takes. Then the axis is written anew.
const drawing = document.querySelector("svg"), lines = document.querySelector(".lines");
const zoom = document.getElementById("zoom"), axis = document.getElementById("axis");
const span = Number(drawing.dataset.span), steps = [1, 2, 5];

function label(nanoseconds) {
  const [unit, name] = span >= 5e9 ? [1e9, "s"] : span >= 5e6 ? [1e6, "ms"] : [1e3, "µs"];
  return "+" + Number((nanoseconds / unit).toFixed(6)) + " " + name;
}

function draw() {
  const before = (lines.scrollLeft + lines.clientWidth / 2) / lines.scrollWidth;
  const width = lines.clientWidth * 2 ** Number(zoom.value);
  drawing.setAttribute("width", width);
  lines.scrollLeft = before * lines.scrollWidth - lines.clientWidth / 2;
  axis.replaceChildren();
  const wanted = span * 120 / width, power = 10 ** Math.floor(Math.log10(wanted));
  const step = power * (steps.find(step => step * power >= wanted) ?? 10);
  // Only what is in sight, and a little more: there may be a million of them.
  const from = Math.max(0, lines.scrollLeft / width - 0.01), to = (lines.scrollLeft + lines.clientWidth) / width + 0.01;
  for (let n = Math.floor(from * span / step); n * step <= Math.min(1, to) * span; n++) {
    const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
    text.setAttribute("x", n * step / span * 100 + "%");
    text.setAttribute("y", 14);
    text.textContent = "|" + label(n * step);
    axis.append(text);
  }
}

zoom.addEventListener("input", draw);
lines.addEventListener("scroll", () => requestAnimationFrame(draw));
window.addEventListener("resize", draw);
draw();
