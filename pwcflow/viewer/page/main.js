// Puts the page together.

const settings = JSON.parse(document.getElementById("settings").textContent);
const colors = new FlowColors(settings.wheel);
const stage = new Stage(colors, settings.scale);
const legend = new Legend(colors);
const probe = new Probe(stage, legend);
const payload = new Payload(settings.flows);
const player = new Player(payload, settings.fps, show, fail);
const controls = new Controls(stage, probe, player, setScale, settings.scale);
const timeline = document.getElementById("timeline");
let viewChosen = false;

function setScale(scale) {
  legend.setScale(scale);
  stage.setScale(scale);
}

function show(flow) {
  controls.offer(flow);
  if (!viewChosen) {
    viewChosen = true;
    controls.setView(flow.first ? "compare" : "flow");
  }
  const time = flow.seconds === null ? "" : ` · ${flow.seconds.toFixed(3)} s`;
  document.getElementById("position").textContent = `${flow.index + 1} of ${settings.flows}`;
  document.getElementById("name").textContent = `${flow.name}${time} · ${flow.fileWidth} x ${flow.fileHeight} px`;
  document.getElementById("unknown-note").hidden = !flow.unknown;
  const share = (100 * flow.unknown) / (flow.width * flow.height);
  document.getElementById("unknown").textContent = `${share < 0.1 ? "< 0.1" : share.toFixed(1)} %`;
  document.getElementById("message").hidden = true;
  timeline.value = flow.index;
  timeline.setAttribute("aria-valuetext", `${flow.index + 1} of ${settings.flows}, ${flow.name}`);
  payload.hold(flow);
  stage.show(flow);
}

function fail(error) {
  const message = document.getElementById("message");
  message.textContent = error.message;
  message.hidden = false;
}

stage.onDraw = () => {
  document.getElementById("zoom").textContent = `${Math.round(stage.geometry.zoom * 100)} %`;
  probe.update();
};
timeline.max = settings.flows - 1;
for (const part of document.querySelectorAll(".moving")) part.hidden = settings.flows < 2;
document.getElementById("fps").value = Number(settings.fps.toFixed(3));
if (typeof DecompressionStream === "undefined") {
  fail(new Error("This page needs a browser of 2023 or later."));
} else {
  player.go(0);
}
