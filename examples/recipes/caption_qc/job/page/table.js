// The table of assets: DataTables sorts and pages it; filters are ours; rows and findings are made when they show.

const summary = JSON.parse(document.getElementById("summary").textContent);
const RANKS = { error: 0, fail: 1, warn: 2, pass: 3 };
const MOST_RULES = 3;
const PAGE = 25;

// Also what dates, controls and stripes of the library's style sheet go by.
const dark = matchMedia("(prefers-color-scheme: dark)");
const followTheme = () => document.documentElement.classList.toggle("dark", dark.matches);
dark.addEventListener("change", followTheme);
followTheme();

const sayAge = () => {
  const written = document.querySelector("#written time");
  const age = (Date.now() - Date.parse(written.dateTime)) / 1000;
  const [size, unit] = [[86400, "day"], [3600, "hour"], [60, "minute"]].find(([size]) => age >= size) ?? [1, "second"];
  const ago = new Intl.RelativeTimeFormat("en").format(-Math.round(age / size), unit);
  document.getElementById("written").append(` (${ago})`);
};

const option = (value, text) => make("option", { value }, text);

const filterOf = (label, id, control) => make("p", {}, make("label", { for: id }, label), control);

const statusFilter = () => {
  const counts = Object.fromEntries(Object.keys(RANKS).map((status) => [status, 0]));
  for (const asset of summary.assets) counts[asset.status] += 1;
  const options = Object.entries(counts).map(([name, count]) => option(name, `${name} (${numbers.format(count)})`));
  return make("select", { id: "filter-status" }, option("", "any status"), ...options);
};

const ruleFilter = () => {
  const names = [...new Set(summary.rules.map((rule) => rule.rule))];
  return make("select", { id: "filter-rule" }, option("", "any rule"), ...names.map((name) => option(name, name)));
};

const controls = {
  text: make("input", { id: "filter-text", type: "search", autocomplete: "off", spellcheck: "false" }),
  status: statusFilter(),
  rule: ruleFilter(),
  // Of what has a newer delivery nothing needs anybody; asked for where there is any.
  current: make("input", { id: "filter-current", type: "checkbox" }),
  clear: make("button", { type: "button" }, "Clear filters"),
};

// What the text filter looks into; made at its first use.
const haystacks = new Map();
const haystackOf = (asset) => {
  if (!haystacks.has(asset)) {
    const found = asset.first_findings.flatMap((finding) => [finding.message, finding.caption ?? "", finding.timecode ?? ""]);
    haystacks.set(asset, [asset.asset_id, ...Object.keys(asset.rules), ...found].join("\n").toLowerCase());
  }
  return haystacks.get(asset);
};

const passes = (asset) => {
  const words = controls.text.value.toLowerCase().split(/\s+/).filter(Boolean);
  return (controls.status.value === "" || asset.status === controls.status.value)
    && !(controls.current.checked && asset.superseded)
    && (controls.rule.value === "" || controls.rule.value in asset.rules)
    && words.every((word) => haystackOf(asset).includes(word));
};

// One file is there twice with two profiles or two contents.
const times = new Map();
for (const { asset_id: name } of summary.assets) times.set(name, (times.get(name) ?? 0) + 1);

const opener = (asset) => {
  const name = foreign(asset.asset_id);
  const marks = [
    asset.superseded ? "delivered again since" : null,
    asset.queue === QUEUE ? null : `of the queue ${asset.queue}`,
    times.get(asset.asset_id) > 1 ? `profile ${asset.profile}, SHA-256 ${asset.content_sha256.slice(0, 8)}` : null,
  ].filter(Boolean);
  return make("div", {}, make("button", { type: "button", class: "open", "aria-expanded": "false" }, name),
    marks.length ? make("small", { class: "marks" }, marks.join("; ")) : null);
};

const rulesOf = (asset) => {
  const all = Object.entries(asset.rules);
  const named = all.slice(0, MOST_RULES).flatMap(([rule, count]) =>
    [make("span", { class: "rule" }, make("code", {}, rule), count > 1 ? ` × ${numbers.format(count)}` : ""), " "]);
  const more = all.length - MOST_RULES;
  return make("span", {}, ...named, more > 0 ? `and ${numbers.format(more)} more` : "");
};

// `value` is what a column is sorted by, `show` what stands in its cells.
const column = (title, className, type, value, show) => ({
  title,
  className,
  type,
  data: null,
  searchable: false,
  render: (_data, kind, asset) => (kind === "display" ? show(asset) : value(asset)),
});
// Numbers have their greatest first at the first press: that is what is looked for.
const numberColumn = (title, className, value, format = numbers) => ({
  ...column(title, `number ${className}`, "num", value, (asset) => {
    const number = value(asset);
    return number === null ? "" : format.format(number);
  }),
  orderSequence: ["desc", "asc", ""],
});

const COLUMNS = [
  column("status", "status", "num", (asset) => RANKS[asset.status],
    (asset) => badge(asset.superseded ? `${asset.status} old` : asset.status, asset.status)),
  column("asset", "name", "string", (asset) => asset.asset_id, opener),
  numberColumn("errors", "", (asset) => asset.counts.error),
  numberColumn("warnings", "wide", (asset) => asset.counts.warn),
  numberColumn("notes", "wide", (asset) => asset.counts.info),
  numberColumn("chars/s", "wide", (asset) => asset.p95_cps, tenths),
  column("rules", "wide rules", "num", (asset) => Object.keys(asset.rules).length, rulesOf),
];

const isCut = summary.assets.some((asset) => asset.first_findings.length < asset.findings);
const NONE_PASSES = "No asset passes the filters."
  + (isCut ? " The text filter looks into names, rules and the findings that are listed here, not into all." : "");

const startTable = (element) =>
  new DataTable(element, {
    data: summary.assets,
    columns: COLUMNS,
    order: [],
    autoWidth: false,
    pageLength: PAGE,
    lengthMenu: [10, 25, 50, 100],
    layout: { topStart: "info", topEnd: null, bottomStart: "pageLength", bottomEnd: "paging" },
    language: {
      entries: { _: "assets", 1: "asset" },
      info: "_START_ to _END_ of _TOTAL_ _ENTRIES-TOTAL_",
      infoEmpty: "No asset",
      infoFiltered: "(filtered from _MAX_)",
      lengthMenu: "_MENU_ a page",
      zeroRecords: NONE_PASSES,
    },
  });

const toggle = (table, button) => {
  const row = table.row(button.closest("tr"));
  const open = !row.child.isShown();
  const id = `details-${row.index()}`;
  if (open) {
    row.child(detailsOf(row.data(), id), "opened").show();
    button.setAttribute("aria-controls", id);
  } else {
    row.child.remove();
    button.removeAttribute("aria-controls");
  }
  button.setAttribute("aria-expanded", String(open));
};

const cutLine = () => {
  if (!summary.truncated) return null;
  const told = `The worst ${numbers.format(summary.assets.length)} of ${counted(summary.assets_total, "asset")}; `;
  return make("p", { class: "cut" }, told, "the Parquet files in ", make("code", {}, "telemetry/"), " have all.");
};

const showOnly = (table, status, rule, current = false) => {
  controls.current.checked = current;
  controls.text.value = "";
  controls.status.value = status;
  controls.rule.value = rule;
  table.draw();
};

const listen = (table) => {
  controls.text.addEventListener("input", () => table.draw());
  controls.status.addEventListener("change", () => table.draw());
  controls.rule.addEventListener("change", () => table.draw());
  controls.current.addEventListener("change", () => table.draw());
  controls.clear.addEventListener("click", () => showOnly(table, "", ""));
  table.on("click", "button.open", (event) => toggle(table, event.currentTarget));
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-status], a[data-rule]");
    // Where it leads, the focus goes too, by itself.
    if (link !== null) showOnly(table, link.dataset.status ?? "", link.dataset.rule ?? "", "current" in link.dataset);
  });
};

const start = () => {
  const place = document.getElementById("table");
  if (place === null) return;
  const element = make("table", { "aria-labelledby": "assets-title" });
  const filters = make("div", { class: "filters", role: "search", "aria-label": "Filter the assets" },
    filterOf("Text", "filter-text", controls.text),
    filterOf("Status", "filter-status", controls.status),
    filterOf("Rule", "filter-rule", controls.rule),
    summary.assets.some((asset) => asset.superseded)
      ? make("p", { class: "tick" }, make("label", { for: "filter-current" }, controls.current, " without those delivered again since"))
      : null,
    make("p", {}, controls.clear));
  place.append(...[cutLine(), filters, element].filter(Boolean));
  const table = startTable(element);
  table.search.fixed("filters", (_text, asset) => passes(asset));
  listen(table);
  place.hidden = false;
  document.getElementById("plain").remove();
};

sayAge();
start();
