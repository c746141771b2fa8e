// What is known of one asset: its figures, and each finding with its place and the caption that it is in.

const { queue: QUEUE, program: PROGRAM, profiles: PROFILES } = document.querySelector("main").dataset;

// A name that a shell would read otherwise, or that is written with %E9, is left to the reader.
const pathOf = (asset) => {
  const path = `${asset.queue.replace(/\/$/, "")}/${asset.asset_id}`;
  if (path.startsWith("s3://") || !/^[\w./ +@:-]+$/.test(path)) return "FILE";
  return path.includes(" ") ? `'${path}'` : path;
};

// Of a profile that is a file of the house's, its name and digest are known, and not where it lies.
const isShipped = (asset) => PROFILES.split(" ").includes(asset.profile);

const inspectOf = (asset) =>
  `${PROGRAM} inspect --profile ${isShipped(asset) ? asset.profile : "PROFILE"} ${pathOf(asset)}`;

const namedOf = (asset) => [
  ...(isShipped(asset) ? [] : [" PROFILE is the TOML file with the name ", foreign(asset.profile),
    ` (${asset.profile_sha256.slice(0, 12)}).`]),
  ...(asset.superseded ? [" It was delivered again since: the command shows the newer file."] : []),
];

const pair = (name, ...value) => make("div", {}, make("dt", {}, name), make("dd", {}, ...value));

const figuresOf = (asset) =>
  make(
    "dl",
    { class: "figures" },
    // One that could not be checked has none that are known.
    pair("captions", asset.status === "error" ? "unknown" : shown(asset.cues)),
    pair("length in real time", seconds(asset.duration_seconds)),
    pair("time base", asset.time_base ?? "unknown"),
    pair("characters a second", `95th percentile ${shown(asset.p95_cps)}, most ${shown(asset.max_cps)}`),
    pair("words a minute", shown(asset.wpm)),
    pair("too fast", share(asset.share_over_cps)),
    pair("profile", foreign(asset.profile), " ", make("small", {}, asset.profile_sha256.slice(0, 12))),
    asset.queue === QUEUE ? null : pair("queue", foreign(asset.queue)),
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

// Of a file with both time bases a label is written as that of the finding's own line.
const isDrop = (asset, finding) =>
  asset.time_base === "mixed" ? (finding.timecode ?? "").includes(";") : asset.time_base === "df";

const captionOf = (asset, finding) => {
  if (finding.caption === null) return null;
  const [start, end] = [finding.caption_start, finding.caption_end];
  const drop = isDrop(asset, finding);
  const rows = finding.caption.split("\n").map((row) => make("span", { class: "row", dir: "auto" }, row));
  return make("figure", { class: "caption" }, make("p", {}, ...rows), make("figcaption", {},
    make("span", {}, `on screen ${label(start, drop)} to ${label(end, drop)}`), " ",
    make("span", {}, `real time ${seconds(start)} to ${seconds(end)}`)));
};

const findingOf = (asset, finding) =>
  make(
    "li",
    { class: "finding" },
    make("div", { class: "what" },
      make("p", {}, badge(finding.severity), " ", code(finding.rule), " ", placeOf(finding)),
      make("p", { class: "message" }, foreign(finding.message))),
    captionOf(asset, finding),
  );

const cutOf = (asset) => {
  const listed = asset.first_findings.length;
  if (listed >= asset.findings) return null;
  const told = `${numbers.format(listed)} of ${counted(asset.findings, "finding")}, the worst: `;
  return make("p", { class: "cut" }, told, code(inspectOf(asset)),
    " shows up to 100 of each rule.", ...namedOf(asset));
};

const detailsOf = (asset, id) => {
  const title = make("h3", {}, counted(asset.findings, "finding"), " in ", foreign(asset.asset_id));
  const list = asset.first_findings.length
    ? make("ol", { class: "findings" }, ...asset.first_findings.map((one) => findingOf(asset, one)))
    : null;
  return make("div", { id, class: "details", role: "group", "aria-label": `Findings in ${asset.asset_id}` },
    title, cutOf(asset), list, figuresOf(asset));
};
