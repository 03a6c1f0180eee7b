// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Where the boxes of the map are. Pure functions, no DOM.

export const size = {height: 48, gap: 8, head: 40, least: 148, greatest: 360, space: 0.28};

// place returns {width, height, columns: [{x, width}], at: Map of box to {x, y}} for a picture.
// Each box is as near to the middle of the boxes of its side that lead to it as the order of its column allows. Nodes and
// networks begin at the top: most rules lead to all nodes, and the middle of a long map is out of sight.
export function place(picture, room) {
  const n = picture.columns.length;
  const column = Math.max(size.least, Math.min(size.greatest, Math.floor(room / (n + (n - 1) * size.space))));
  const step = Math.max(column + Math.floor(column * size.space), Math.floor((room - column) / (n - 1)));
  const at = new Map();
  const incoming = Map.groupBy(picture.links, (l) => l.to);
  let height = 0;
  const columns = picture.columns.map((c, i) => {
    const x = i * step;
    const first = c.side !== picture.columns[i - 1]?.side;
    const wished = new Map(c.boxes.map((b) => [b.id, first ? null : middle(incoming.get(b.id), at)]));
    if (c.side === 'namespace' && i > 0) order(c.boxes, wished);
    const ys = settle(c.boxes.map((b) => wished.get(b.id)), size.height + size.gap);
    c.boxes.forEach((b, j) => at.set(b.id, {x, y: size.head + ys[j]}));
    height = Math.max(height, size.head + (ys.at(-1) ?? 0) + size.height);
    return {x, width: column};
  });
  return {width: (n - 1) * step + column, height, columns, at};
}

// way returns the points of a link: through the gaps between the boxes of the columns that it skips, so that it touches no box
// that it does not connect.
export function way(picture, places, {from, to, columns: pair}) {
  const [first, last] = pair.split('-').map(Number);
  const a = places.at.get(from);
  const b = places.at.get(to);
  const start = {x: a.x + places.columns[first].width, y: a.y + size.height / 2};
  const end = {x: b.x, y: b.y + size.height / 2};
  const out = [start];
  for (let i = first + 1; i < last; i++) {
    const {x, width} = places.columns[i];
    const wish = start.y + (end.y - start.y) * (x - start.x) / Math.max(1, end.x - start.x);
    const y = gap(picture.columns[i].boxes.map((box) => places.at.get(box.id).y), wish);
    out.push({x, y}, {x: x + width, y});
  }
  out.push(end);
  return out;
}

// gap returns the middle of the gap between boxes that is nearest to a height. tops are sorted.
function gap(tops, wish) {
  const inside = tops.find((top) => wish > top - size.gap / 2 && wish < top + size.height + size.gap / 2);
  if (inside === undefined) return wish;
  const [above, below] = [inside - size.gap / 2, inside + size.height + size.gap / 2];
  return wish - above < below - wish ? above : below;
}

function middle(links, at) {
  if (!links) return null;
  let sum = 0;
  for (const l of links) sum += at.get(l.from).y - size.head;
  return sum / links.length;
}

// order sorts single boxes by where they would like to be; what is in groups keeps its order behind its group.
function order(boxes, wished) {
  if (boxes.some((b) => b.type !== 'object')) return;
  const index = new Map(boxes.map((b, i) => [b, i]));
  boxes.sort((a, b) => (wished.get(a.id) ?? Infinity) - (wished.get(b.id) ?? Infinity) || index.get(a) - index.get(b));
}

// settle returns positions at least `step` apart, in the given order and as near to the wishes as possible (least
// squares, by pooling adjacent violators). null has no wish.
export function settle(wishes, step) {
  const blocks = [];
  let last = 0;
  wishes.forEach((wish, i) => {
    const value = wish == null ? last : wish - i * step;
    last = value;
    let block = {sum: value, n: 1};
    while (blocks.length > 0 && blocks.at(-1).sum / blocks.at(-1).n > block.sum / block.n) {
      const before = blocks.pop();
      block = {sum: before.sum + block.sum, n: before.n + block.n};
    }
    blocks.push(block);
  });
  const out = [];
  for (const b of blocks) for (let k = 0; k < b.n; k++) out.push(Math.round(Math.max(0, b.sum / b.n) + out.length * step));
  return out;
}
