/** Where the labels of points go, so that none covers another or a point. */

const [WIDTH, HEIGHT, AIR] = [46, 14, 4];

const overlap = (one, other) =>
  Math.max(0, Math.min(one.right, other.right) - Math.max(one.left, other.left)) *
  Math.max(0, Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top));

const around = ({ x, y, radius }) => ({
  left: x - radius,
  right: x + radius,
  top: y - radius,
  bottom: y + radius,
});

/** Right, left, above and below of a point, the preferred one first. */
function boxes({ x, y, radius }) {
  const away = radius + AIR;
  const box = (left, top) => ({ left, top, right: left + WIDTH, bottom: top + HEIGHT });
  return [
    box(x + away, y - HEIGHT / 2),
    box(x - away - WIDTH, y - HEIGHT / 2),
    box(x - WIDTH / 2, y - away - HEIGHT),
    box(x - WIDTH / 2, y + away),
  ];
}

/** How much of a box lies outside the picture. */
function outside(box, [width, height]) {
  const inside = overlap(box, { left: 0, top: 0, right: width, bottom: height });
  return WIDTH * HEIGHT - inside;
}

/** The marks with `left` and `baseline` of their labels: each takes the emptiest place of four. */
export function placed(marks, size) {
  const taken = marks.map(around);
  return marks.map((mark) => {
    const cost = (box) =>
      2 * outside(box, size) + taken.reduce((sum, one) => sum + overlap(box, one), 0);
    const best = boxes(mark).reduce((found, box) => (cost(box) < cost(found) ? box : found));
    taken.push(best);
    return { ...mark, left: best.left, baseline: best.bottom - 3 };
  });
}
