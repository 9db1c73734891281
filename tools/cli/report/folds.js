// Draws the folds' report from the JSON in the page, with what tools/page has.
const data = JSON.parse(document.getElementById("data").textContent);
const section = id => document.getElementById("s-" + id);

const known = values => values.filter(v => v !== null);
const mean = values => values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
// Of a sample: over n - 1.
function deviation(values) {
  if (values.length < 2) return null;
  const m = mean(values);
  return Math.sqrt(values.reduce((a, v) => a + (v - m) * (v - m), 0) / (values.length - 1));
}
const dice = v => v === null ? "–" : v.toFixed(4);
const of = (cases, when, g) => known(cases.map(c => c[when][g]));
const foreground = (cases, when) => mean(known(data.groups.map((_, g) => mean(of(cases, when, g)))));
const runs = [...new Set(data.cases.map(c => c.run))].sort();

function head() {
  fill(document.getElementById("head"),
    el("div", {class: "title"}, el("h1", {}, data.name),
      el("span", {class: "pill good"}, plural(runs.length, "fold"))),
    el("p", {class: "meta"}, [data.folder, "Sluice " + data.version].join("  ·  ")));
  document.getElementById("foot").textContent = "Made by sluice report, " + day(data.made) +
    ". One file, no network: it may be kept and sent.";
}

const card = (value, label, more, main) => el("div", {class: "card" + (main ? " main" : "")},
  el("span", {}, label), el("b", {}, value), more ? el("small", {}, more) : null);

function headline() {
  const before = foreground(data.cases, "before"), after = foreground(data.cases, "after");
  const worst = data.cases[0], m = mean(known(worst.after));
  fill(section("headline"), el("div", {class: "cards"},
    card(dice(after), "mean foreground Dice", "before post-processing " + dice(before), true),
    card(short(data.cases.length), "cases", plural(runs.length, "fold")),
    card(dice(m), "worst case", worst.name)));
}

const spread = values => [el("td", {}, dice(mean(values))), el("td", {class: "faint"},
  values.length > 1 ? "± " + dice(deviation(values)) : "–")];

function folds() {
  const line = (name, cases) => el("tr", {}, el("td", {class: "left"}, el("b", {}, name)),
    el("td", {}, short(cases.length)),
    data.groups.map((_, g) => spread(of(cases, "after", g))),
    el("td", {}, dice(foreground(cases, "after"))));
  fill(section("folds"), el("h2", {}, "Dice by fold and class"),
    lead("Mean and standard deviation over the cases, after post-processing. A case in which ",
      "neither truth nor prediction has a class does not count there."),
    el("div", {class: "scroll"}, el("table", {},
      el("thead", {}, el("tr", {}, el("th", {class: "left"}, "Fold"), el("th", {}, "Cases"),
        data.groups.map(g => el("th", {colspan: 2}, g)), el("th", {}, "Foreground"))),
      el("tbody", {}, runs.map(r => line(r, data.cases.filter(c => c.run === r))),
        line("all", data.cases)))));
}

function worst() {
  const home = section("worst"), colors = new Map();
  fill(home, el("h2", {}, "Worst cases"));
  for (const p of data.pictures) p.classes.forEach((c, k) => colors.set(c, p.colors[k]));
  const row = (c, i) => el("tr", {}, el("th", {class: "row", scope: "row"}, c.name,
    el("small", {}, `${c.run}, ${dice(mean(known(c.after)))}`)),
  data.pictures.filter(p => p.case === i).map(p => el("td", {}, el("img", {
    src: "data:image/png;base64," + p.png, alt: `${c.name}, slice ${p.slice}`}))));
  const drawn = data.cases.filter((_, i) => data.pictures.some(p => p.case === i));
  fill(home, lead("The outline is the truth, the fill what was predicted, after post-processing: ",
    "fill outside of the outline is too much, an outline without fill was missed."),
  legend([...colors].sort((a, b) => a[0] - b[0])
    .map(([c, color]) => ({name: "label " + c, color}))),
  el("div", {class: "scroll"}, el("table", {class: "film few"}, el("tbody", {}, drawn.map(row)))));
}

function postprocessing() {
  const home = section("postprocessing");
  fill(home, el("h2", {}, "What post-processing changed"));
  if (!data.kept.length)
    return fill(home, empty("Nothing: no rule was better than what there is."));
  const changed = data.cases.filter(c => c.before.some((b, g) => b !== c.after[g]));
  const better = changed.filter(c => mean(known(c.after)) > mean(known(c.before)));
  fill(home, lead("Kept is the largest component of ", data.kept.join(", then of "),
    `, as nnU-Net's rule found it on all folds. ${plural(changed.length, "case")} changed, `,
    `${better.length} for the better.`),
  el("div", {class: "scroll"}, el("table", {},
    el("thead", {}, el("tr", {}, el("th", {class: "left"}, "Class"), el("th", {}, "Before"),
      el("th", {}, "After"))),
    el("tbody", {}, data.groups.map((name, g) => el("tr", {}, el("td", {class: "left"}, name),
      el("td", {}, dice(mean(of(data.cases, "before", g)))),
      el("td", {}, dice(mean(of(data.cases, "after", g))))))))));
}

function cases() {
  const cell = (c, g) => el("td", {}, dice(c.after[g]), c.before[g] === c.after[g] ? null
    : el("small", {class: "faint"}, ` was ${dice(c.before[g])}`));
  fill(section("cases"), el("h2", {}, "Every case"),
    lead("From the worst to the best; what post-processing changed stands beside what it was."),
    el("div", {class: "scroll"}, el("table", {},
      el("thead", {}, el("tr", {}, el("th", {class: "left"}, "Case"),
        el("th", {class: "left"}, "Fold"), data.groups.map(g => el("th", {}, g)))),
      el("tbody", {}, data.cases.map(c => el("tr", {}, el("td", {class: "left"}, c.name),
        el("td", {class: "left"}, c.run), data.groups.map((_, g) => cell(c, g))))))));
}

for (const draw of [head, headline, folds, worst, postprocessing, cases]) draw();
document.documentElement.dataset.ready = "yes";
