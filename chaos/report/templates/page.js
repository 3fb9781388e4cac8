"use strict";
// Only comfort: reading values off the charts, and copying the command. The page says everything without it.
document.querySelectorAll(".repeat").forEach((box) => {
  const button = box.querySelector("button"), code = box.querySelector("code");
  button.hidden = false;
  button.addEventListener("click", () => {
    const said = (word) => { button.textContent = word; setTimeout(() => { button.textContent = "Copy"; }, 1500); };
    const select = () => { getSelection().selectAllChildren(code); said("Selected"); };
    if (!navigator.clipboard) { select(); return; }
    navigator.clipboard.writeText(code.textContent).then(() => said("Copied"), select);
  });
});
document.querySelectorAll("svg[data-x-low]").forEach((svg) => {
  const number = (name) => Number(svg.dataset[name]);
  const low = number("xLow"), high = number("xHigh"), left = number("left"), right = number("right");
  const cursor = svg.querySelector(".cursor"), reading = svg.closest("figure").querySelector(".reading");
  const series = [...svg.querySelectorAll("[data-points]")].map((path) => ({
    label: path.dataset.label, unit: path.dataset.unit,
    points: path.dataset.points.split(" ").filter(Boolean).map((pair) => pair.split(",")),
  }));
  const steps = [...new Set(series.flatMap((one) => one.points.map((point) => Number(point[0]))))].sort((a, b) => a - b);
  const idle = reading.textContent;
  let at = -1;
  const show = (index) => {
    if (!steps.length) return;
    at = Math.max(0, Math.min(steps.length - 1, index));
    const step = steps[at], x = left + (step - low) / (high - low) * (right - left);
    cursor.setAttribute("x1", x); cursor.setAttribute("x2", x); cursor.style.visibility = "visible";
    const found = series.flatMap((one) => one.points.filter((point) => Number(point[0]) === step)
      .map((point) => `${one.label} ${point[1]}${one.unit}`));
    reading.textContent = `step ${step}: ${found.join(" · ")}`;
  };
  const nearest = (step) => steps.reduce((best, one, index) => Math.abs(one - step) < Math.abs(steps[best] - step) ? index : best, 0);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    show(nearest(low + (x - left) / (right - left) * (high - low)));
  });
  svg.addEventListener("pointerleave", () => { cursor.style.visibility = "hidden"; reading.textContent = idle; });
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (move) { show(at + move); event.preventDefault(); }
  });
});
