// Times of a file: real seconds as a clock has them, and the labels that its own time base counts.

const FRAMES_A_SECOND = 30000 / 1001;
const DAY = 24 * 60 * 60 * 30;
const TEN_DROP_MINUTES = 17982;
const DROP_MINUTE = 1798;

const two = (number) => String(number).padStart(2, "0");

// To the nearest millisecond: 2.002 has no last digit of its own in binary.
const seconds = (value) => {
  if (value === null) return "unknown";
  const all = Math.round(value * 1000);
  const [whole, rest] = [Math.floor(all / 1000), all % 1000];
  return `${[Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60].map(two).join(":")}.${String(rest).padStart(3, "0")}`;
};

// A drop-frame label leaves out two at the start of each minute that ten does not divide.
const withDropped = (frame) => {
  const tens = Math.floor(frame / TEN_DROP_MINUTES);
  const minutes = Math.floor(Math.max((frame % TEN_DROP_MINUTES) - 2, 0) / DROP_MINUTE);
  return frame + 2 * (9 * tens + minutes);
};

const label = (value, drop) => {
  if (value === null) return "unknown";
  const frame = Math.round(value * FRAMES_A_SECOND);
  const counted = (drop ? withDropped(frame) : frame) % DAY;
  const whole = Math.floor(counted / 30);
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60].map(two);
  return `${parts.join(":")}${drop ? ";" : ":"}${two(counted % 30)}`;
};
