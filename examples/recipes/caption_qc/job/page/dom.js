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

const badge = (word) => make("span", { class: `badge ${word}` }, word);

const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const tenths = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const shown = (value, unit = "") => (value === null ? "unknown" : `${numbers.format(value)}${unit}`);

const counted = (count, noun) => `${numbers.format(count)} ${noun}${count === 1 ? "" : "s"}`;

// Seconds of the file as hours, minutes and seconds, to the millisecond.
const seconds = (value) => {
  if (value === null) return "unknown";
  const whole = Math.floor(value);
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const rest = String(Math.floor((value - whole) * 1000)).padStart(3, "0");
  return `${parts.map((part) => String(part).padStart(2, "0")).join(":")}.${rest}`;
};
