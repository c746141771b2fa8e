// Elements made of text: names and messages come from strangers, and nothing here reads HTML.

const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
};

// Whatever its direction, it has no effect on what stands beside it.
const foreign = (text) => make("bdi", { dir: "auto" }, text);

const code = (text) => make("code", {}, foreign(text));

const badge = (kind, word = kind) => make("span", { class: `badge ${kind}` }, word);

const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const tenths = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const shown = (value, unit = "") => (value === null ? "unknown" : `${numbers.format(value)}${unit}`);

// Of 0 to 1 in per cent, rounded down: only all of all is 100 %, only none of them is 0 %.
const share = (value) => {
  if (value === null) return "unknown";
  if (value > 0 && value < 0.001) return "under 0.1 %";
  return `${numbers.format(value === 1 ? 100 : Math.floor(value * 1000 + 1e-6) / 10)} %`;
};

const counted = (count, noun) => `${numbers.format(count)} ${noun}${count === 1 ? "" : "s"}`;
