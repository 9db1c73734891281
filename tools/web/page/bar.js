// The bar above text and picture: which graph, whether it is right, and the commands that run it.
import {el, refill} from "./dom.js";
import {get, on, post, remove} from "./api.js";
import {openGraph, opened, replaceText, save, saveAs} from "./editor.js";
import {openRun} from "./run.js";
import {showAdvice, showData, showProfile, showWhatIf} from "./measures.js";
import {say, state, tell, when} from "./state.js";

let list, status, stop, sets;

export async function setUpBar() {
  state.graphs = (await get("graphs")).graphs;
  list = el("select", {"aria-label": "Graph", onchange: choose},
    state.graphs.map(g => el("option", {value: g.id}, g.name)));
  status = el("span", {class: "pill", role: "status"}, "…");
  stop = el("button", {onclick: end, disabled: "", title: "It finishes its step and writes a checkpoint"},
    "Stop");
  sets = el("input", {class: "sets", "aria-label": "Changes for a run", spellcheck: "false",
    placeholder: "with nodes.step.lr=0.01", title: "Changes of values for this run " +
    "alone, as --set takes them"});
  const off = state.readOnly ? "" : null;
  refill(document.getElementById("graph-bar"), list, status,
    el("button", {onclick: save, disabled: off, title: "Ctrl-S"}, "Save"),
    el("button", {onclick: saveAs, disabled: off}, "Save as"),
    el("span", {class: "gap"}), sets,
    el("button", {class: "main", onclick: () => run("run"), disabled: off}, "Run"), stop,
    el("button", {onclick: () => run("profile"), disabled: off}, "Profile"),
    el("button", {onclick: whatIf, disabled: off}, "What if"),
    el("button", {onclick: () => run("advise"), disabled: off}, "Advise"),
    el("button", {onclick: () => run("data_check"), disabled: off}, "Check data"));
  when("graph", () => {
    if (![...list.options].some(o => o.value === state.graph.id))
      list.append(el("option", {value: state.graph.id}, state.graph.name));
    list.value = state.graph.id;
  });
  when("checked", checked);
  when("text", title);
  on("job", took);
  for (const job of state.jobs.values()) took(job);
}

// Where the graph that is open is not left, the list says so.
async function choose() {
  try {
    await openGraph(list.value);
  } finally {
    if (state.graph) list.value = state.graph.id;
  }
}

function title() {
  const mark = state.graph?.dirty ? "● " : "";
  document.title = mark + (state.graph ? state.graph.name + " - " : "") + "Sluice";
  status.classList.toggle("dirty", !!state.graph?.dirty);
}

function checked(found) {
  const wrong = found.diagnostics.filter(d => d.severity === "error").length;
  const more = found.diagnostics.length - wrong;
  status.className = "pill " + (wrong ? "bad" : more ? "warn" : "good");
  const count = (n, word) => n + " " + word + (n === 1 ? "" : "s");
  status.textContent = !found.graph ? "no graph" : wrong ? count(wrong, "error")
    : `ok, ${count(found.nodes, "node")}` + (more ? `, ${count(more, "warning")}` : "");
  title();
}

const working = () => [...state.jobs.values()].filter(j => j.state !== "ended");

// Changes as --set takes them, blanks between them; blanks in quotes and brackets are theirs.
export function changesIn(text) {
  const all = [""];
  let depth = 0, quoted = false;
  for (const c of text) {
    if (c === '"') quoted = !quoted;
    if (!quoted) depth += "[{".includes(c) - "]}".includes(c);
    if (/\s/.test(c) && !quoted && depth <= 0) all.push("");
    else all[all.length - 1] += c;
  }
  return all.filter(Boolean);
}

// ---- jobs ---------------------------------------------------------------------------------------

async function run(kind, more = {}) {
  if (state.check && !state.check.ok) return say("mend the graph first: " +
    state.check.diagnostics[0].message, true);
  if (opened().dirty && !(await save())) return;
  const set = changesIn(sets.value);
  const job = await post("jobs", {kind, graph: state.graph.id, set, ...more});
  if (kind === "run") {
    say("running; its page is open");
    await openRun(job.run, true);
    state.show("run");
  } else {
    say({profile: "profiling for 20 s", advise: "trying changes; this takes minutes",
      what_if: "measuring for 20 s", data_check: "looking at all files"}[kind]);
  }
}

function whatIf() {
  const dialog = document.getElementById("dialog");
  const changes = el("input", {value: "verdict null:data", spellcheck: "false",
    "aria-label": "Changes"});
  const verify = el("input", {type: "checkbox"});
  const go = () => {
    dialog.close();
    run("what_if", {changes: changesIn(changes.value), verify: verify.checked});
  };
  refill(dialog, el("h2", {}, "What if …"), el("p", {}, "The rate after a change, by a ",
    "simulation with measured times: ", el("code", {}, "threads=4"), ", ",
    el("code", {}, "load.threads=4"), ", ", el("code", {}, "batch.size=8"), ", ",
    el("code", {}, "free:load"), ", ", el("code", {}, "null:data"), ", ",
    el("code", {}, "null:model"), ", or ", el("code", {}, "verdict"), ": what the verdict names."),
  changes, el("label", {class: "tick"}, verify, " run each change too, to see how true that is"),
  el("div", {class: "buttons"}, el("button", {class: "main", onclick: go}, "Measure"),
    el("button", {onclick: () => dialog.close()}, "Close")));
  dialog.showModal();
}

export async function resume(run, set = []) {
  await post("jobs", {kind: "resume", run, set});
  say("going on where it was");
}

async function end() {
  const jobs = working(), job = jobs[jobs.length - 1];
  if (!job) return;
  await remove("jobs/" + job.id);
  say("stopping: it finishes its step" + (job.run ? " and writes a checkpoint" : ""));
}
export const stopJob = id => remove("jobs/" + id);

async function took(job) {
  const before = state.jobs.get(job.id);
  state.jobs.set(job.id, job);
  stop.disabled = !working().length;
  tell("job", job);
  if (job.state !== "ended" || before?.state === "ended") return;
  if (job.kind === "run" || job.kind === "resume") {
    if (job.code && job.code < 129) say(job.title + ": " + lastLine(job.err), true);
    return;
  }
  const whole = await get("jobs/" + job.id);
  const faults = job.kind === "data_check" && whole.result?.findings;  // by which its code is not 0
  if (job.code && !faults) return say(job.kind + ": " + lastLine(job.err), true);
  ({profile: showProfile, what_if: showWhatIf, advise: showAdvice, data_check: showData})[job.kind](
    whole, replaceText);
}

const lastLine = text => text.trim().split("\n").filter(Boolean).pop() || "it failed";
