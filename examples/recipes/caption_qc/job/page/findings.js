// What is known of one asset: its figures, and each finding with its place and the caption that it is in.

const inspectOf = (asset) => {
  const queue = document.querySelector("main").dataset.queue;
  const path = `${queue.replace(/\/$/, "")}/${asset.asset_id}`;
  // A name that a shell would read otherwise, or that is written with %E9, is left to the reader.
  const file = /^[\w./ +@:-]+$/.test(path) ? (path.includes(" ") ? `'${path}'` : path) : "FILE";
  return `python -m examples.recipes.caption_qc inspect ${file}`;
};

const pair = (name, ...value) => make("div", {}, make("dt", {}, name), make("dd", {}, ...value));

const figuresOf = (asset) =>
  make(
    "dl",
    { class: "figures" },
    pair("captions", shown(asset.cues)),
    pair("length", seconds(asset.duration_seconds)),
    pair("time base", asset.time_base ?? "unknown"),
    pair("characters a second", `95th percentile ${shown(asset.p95_cps)}, most ${shown(asset.max_cps)}`),
    pair("words a minute", shown(asset.wpm)),
    pair("too fast", asset.share_over_cps === null ? "unknown" : shown(asset.share_over_cps * 100, " %")),
    pair("profile", foreign(asset.profile), " ", make("small", {}, asset.profile_sha256.slice(0, 12))),
    pair("SHA-256", make("code", {}, asset.content_sha256)),
  );

const placeOf = (finding) => {
  const named = [
    ["line", finding.line],
    ["word", finding.word],
    ["cue", finding.cue],
  ].filter(([, value]) => value !== null);
  const place = make("span", { class: "place" });
  if (finding.timecode !== null) place.append(make("span", { class: "timecode" }, foreign(finding.timecode)), " ");
  for (const [name, value] of named) place.append(make("span", {}, `${name} ${numbers.format(value)}`), " ");
  if (finding.channel !== null) place.append(make("span", {}, finding.channel));
  if (!place.childElementCount) place.append(make("span", {}, "the whole file"));
  return place;
};

const captionOf = (finding) => {
  if (finding.caption === null) return null;
  const when = `on screen ${seconds(finding.caption_start)} to ${seconds(finding.caption_end)}`;
  const rows = finding.caption.split("\n").map((row) => make("span", { class: "row", dir: "auto" }, row));
  return make("figure", { class: "caption" }, make("p", {}, ...rows), make("figcaption", {}, when));
};

const findingOf = (finding) =>
  make(
    "li",
    { class: "finding" },
    make("div", { class: "what" },
      make("p", {}, badge(finding.severity), " ", code(finding.rule), " ", placeOf(finding)),
      make("p", { class: "message" }, foreign(finding.message))),
    captionOf(finding),
  );

const cutOf = (asset) => {
  const listed = asset.first_findings.length;
  if (listed >= asset.findings) return null;
  const told = `${numbers.format(listed)} of ${counted(asset.findings, "finding")}, the worst: `;
  return make("p", { class: "cut" }, told, code(inspectOf(asset)), " shows all.");
};

const detailsOf = (asset, id) => {
  const title = make("h3", {}, counted(asset.findings, "finding"), " in ", foreign(asset.asset_id));
  const list = asset.first_findings.length
    ? make("ol", { class: "findings" }, ...asset.first_findings.map(findingOf))
    : null;
  return make("div", { id, class: "details", role: "group", "aria-label": `Findings in ${asset.asset_id}` },
    title, cutOf(asset), list, figuresOf(asset));
};
