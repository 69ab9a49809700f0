/* Trains the network and shows it. `?steps=300` stops there; `done` on <body> says so. */

import { load } from "./spirals/contraflow.js";

const COLOURS = [[53, 97, 142], [214, 120, 35], [74, 142, 87]];
const SHOWN_EVERY = 60; // milliseconds between pictures, at least
const SHARE = 8; // training takes so many times longer than pictures
const last = Number(new URLSearchParams(location.search).get("steps") ?? 3000);
const at = (id) => document.getElementById(id);

const losses = [];
let paused = false;

async function main() {
  const { step, picture } = await load("./spirals");
  const points = (await step.read("points")).data;
  const arms = (await step.read("arms")).data;

  const rate = at("rate");
  const showRate = () => (at("rateShown").textContent = (10 ** rate.value).toPrecision(2));
  rate.value = Math.log10(await step.read("optimizer.lr"));
  showRate();
  rate.oninput = () => {
    step.write("optimizer.lr", 10 ** rate.value);
    showRate();
  };
  at("pause").onclick = () => {
    paused = !paused;
    at("pause").textContent = paused ? "Go on" : "Pause";
  };

  let shownAt = performance.now();
  let shownSteps = 0;
  let showTook = 0;
  await show();
  while (losses.length < last) {
    if (paused) {
      await pause();
      continue;
    }
    await step.run();
    losses.push(await step.item("loss"));
    const due = shownAt + Math.max(SHOWN_EVERY, SHARE * showTook);
    if (performance.now() > due || losses.length === last) await show();
  }
  document.body.dataset.done = "yes";

  async function show() {
    const now = performance.now();
    await picture.run();
    const { data, shape } = await picture.read("chances");
    if (losses.length) {
      at("count").textContent = losses.length + 1; // Python has done the first
      at("loss").textContent = losses.at(-1).toFixed(4);
      const speed = ((losses.length - shownSteps) * 1000) / (now - shownAt);
      at("speed").textContent = speed.toFixed(speed < 10 ? 1 : 0);
    }
    drawPicture(data, Math.sqrt(shape[0]), points, arms);
    drawCurve();
    await pause();
    [shownAt, shownSteps] = [performance.now(), losses.length];
    showTook = shownAt - now;
  }
}

/** Let the browser paint; frames come once a second where the page is not seen. */
const pause = () => new Promise((resume) => setTimeout(resume, 4));

function drawPicture(chances, side, points, arms) {
  const canvas = at("picture");
  const context = canvas.getContext("2d");
  const image = new ImageData(side, side);
  for (let i = 0; i < side * side; i++) {
    for (let channel = 0; channel < 3; channel++) {
      const mixed = COLOURS.reduce((sum, colour, arm) => sum + chances[3 * i + arm] * colour[channel], 0);
      image.data[4 * i + channel] = 110 + 0.57 * mixed;
    }
    image.data[4 * i + 3] = 255;
  }
  const small = new OffscreenCanvas(side, side);
  small.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = true;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
  for (let i = 0; i < arms.length; i++) {
    const x = ((points[2 * i] + 1) / 2) * canvas.width;
    const y = ((points[2 * i + 1] + 1) / 2) * canvas.height;
    context.beginPath();
    context.arc(x, y, 3.2, 0, 2 * Math.PI);
    context.fillStyle = `rgb(${COLOURS[arms[i]]})`;
    context.fill();
    context.strokeStyle = "white";
    context.stroke();
  }
}

function drawCurve() {
  const canvas = at("curve");
  const context = canvas.getContext("2d");
  const [left, right, top, bottom] = [52, canvas.width - 10, 10, canvas.height - 34];
  const [least, most] = [-3, 0.3]; // powers of ten
  const steps = Math.max(losses.length, 50);
  const x = (index) => left + ((right - left) * index) / (steps - 1);
  const y = (loss) => {
    const power = Math.min(Math.max(Math.log10(loss), least), most);
    return bottom - ((bottom - top) * (power - least)) / (most - least);
  };
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.font = "13px system-ui, sans-serif";
  context.fillStyle = "#5b6672";
  context.strokeStyle = "#e3e6ea";
  context.lineWidth = 1;
  context.textAlign = "right";
  for (const loss of [0.001, 0.01, 0.1, 1]) {
    line([[left, y(loss)], [right, y(loss)]]);
    context.fillText(String(loss), left - 8, y(loss) + 4);
  }
  context.textAlign = "center";
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    const index = Math.round(part * (steps - 1));
    context.fillText(String(index + 2), Math.min(x(index), right - 12), bottom + 20);
  }
  context.strokeStyle = "#35618e";
  context.lineWidth = 1.5;
  if (losses.length > 1) line(losses.map((loss, index) => [x(index), y(loss)]));

  function line(places) {
    context.beginPath();
    places.forEach((place) => context.lineTo(...place));
    context.stroke();
  }
}

main().catch((error) => {
  at("problem").textContent = error.message;
  document.body.dataset.done = "no";
  throw error;
});
globalThis.losses = losses;
