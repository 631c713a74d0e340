/** Where the labels of points go, so that none covers another or a point. */

const [WIDTH, HEIGHT, AIR] = [46, 14, 4];
const MOST_COVERED = 0.15; // of a label

const overlap = (one, other) =>
  Math.max(0, Math.min(one.right, other.right) - Math.max(one.left, other.left)) *
  Math.max(0, Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top));

const around = ({ x, y, radius }) => ({
  left: x - radius,
  right: x + radius,
  top: y - radius,
  bottom: y + radius,
});

/** Right, left, above and below of a point, then beside these, the preferred one first. */
function boxes({ x, y, radius }) {
  const away = radius + AIR;
  const near = 0.75 * away; // of a corner, which is further from a round point
  const box = (left, top) => ({ left, top, right: left + WIDTH, bottom: top + HEIGHT });
  const [left, right] = [x - WIDTH, x];
  const [over, under] = [y - HEIGHT, y];
  return [
    box(right + away, y - HEIGHT / 2),
    box(left - away, y - HEIGHT / 2),
    box(x - WIDTH / 2, over - away),
    box(x - WIDTH / 2, under + away),
    box(right + near, over - near),
    box(right + near, under + near),
    box(left - near, over - near),
    box(left - near, under + near),
  ];
}

/** How much of a box lies outside the picture. */
function outside(box, [width, height]) {
  const inside = overlap(box, { left: 0, top: 0, right: width, bottom: height });
  return WIDTH * HEIGHT - inside;
}

/**
 * The marks with `left` and `baseline` of their labels: each takes the emptiest of eight places.
 *
 * The largest shares choose first. A label that would cover much of another is left out: all
 * numbers stand at the bars.
 */
export function placed(marks, size) {
  const taken = marks.map(around);
  const labels = [];
  const found = [];
  for (const mark of [...marks].sort((one, other) => other.share - one.share)) {
    const over = (box, others) => others.reduce((sum, one) => sum + overlap(box, one), 0);
    const cost = (box) => 2 * outside(box, size) + over(box, taken) + 2 * over(box, labels);
    const best = boxes(mark).reduce((least, box) => (cost(box) < cost(least) ? box : least));
    if (over(best, labels) > MOST_COVERED * WIDTH * HEIGHT) continue;
    labels.push(best);
    found.push({ ...mark, left: best.left, baseline: best.bottom - 3 });
  }
  return found;
}
