// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Where the boxes of the map are. Pure functions, no DOM.

const base = {height: 48, gap: 8, head: 54, least: 122, greatest: 400};
const space = 0.26; // between two columns, as a part of their width

// place returns {size, unit, lines, width, height, columns: [{x, width}], at: Map of box to {x, y}} for a picture. unit is the size of
// the page's letters, as a multiple of that on a desk: on a wall all is larger. lines are those of the second line of a box: as many as
// the words of a box need, if all boxes then fit into the height `tall`, which a wall does not have: it has two. words are the widths of
// name and second line on a desk, by box.
// Each box is as near to the middle of the boxes of its side that lead to it as the order of its column allows. Nodes and
// networks begin at the top: most rules lead to all nodes, and the middle of a long map is out of sight.
export function place(picture, room, unit = 1, words = [], tall = 0) {
  const size = Object.fromEntries(Object.entries(base).map(([name, n]) => [name, Math.round(n * unit)]));
  const n = picture.columns.length;
  const column = Math.max(size.least, Math.min(size.greatest, Math.floor(room / (n + (n - 1) * space))));
  const step = Math.max(column + Math.floor(column * space), Math.min(column * 2, Math.floor((room - column) / Math.max(1, n - 1))));
  const most = Math.max(1, ...picture.columns.map((c) => c.boxes.length));
  const line = column / unit - 50; // in pixels of a desk; where lines end between words, they need more
  const needed = (width) => (width <= line ? 1 : Math.ceil(width * 1.15 / line));
  let lines = Math.min(tall === Infinity ? 2 : 5, Math.max(1, ...words.map(([name, label]) => needed(name) + needed(label) - 1)));
  while (lines > 1 && size.head + most * (size.height + (lines - 1) * 17 * unit + size.gap) > tall) lines--;
  size.height += Math.round((lines - 1) * 17 * unit);
  const at = new Map();
  const incoming = Map.groupBy(picture.links, (l) => l.to);
  // Sides are shown apart, each below the one before, as two clusters of a lesson.
  const names = picture.sides?.length ? [...picture.sides, null] : [null];
  const sides = [];
  let height = size.head;
  for (const name of names) {
    const parts = picture.columns.map((c) => c.boxes.filter((b) => (names.includes(b.group) ? b.group : null) === name));
    if (parts.every((p) => p.length === 0)) continue;
    let top = height;
    if (names.length > 1) {
      sides.push({name, y: top});
      top += size.head * 0.7;
    }
    picture.columns.forEach((c, i) => {
      const first = c.side !== picture.columns[i - 1]?.side;
      const wished = new Map(parts[i].map((b) => [b.id, first ? null : middle(incoming.get(b.id)?.filter((l) => at.has(l.from)), at, top)]));
      if (c.side === 'namespace' && i > 0) order(parts[i], wished);
      const ys = settle(parts[i].map((b) => wished.get(b.id)), size.height + size.gap);
      parts[i].forEach((b, j) => at.set(b.id, {x: i * step, y: top + ys[j]}));
      height = Math.max(height, top + (ys.at(-1) ?? 0) + size.height);
      c.boxes = [...c.boxes.filter((b) => !parts[i].includes(b)), ...parts[i]]; // as they are below each other
    });
    if (names.length > 1) height += size.gap * 3;
  }
  const columns = picture.columns.map((c, i) => ({x: i * step, width: column}));
  return {size, unit, lines, width: (n - 1) * step + column, height, columns, at, sides};
}

// way returns the points of a link: through the gaps between the boxes of the columns that it skips, so that it touches no box
// that it does not connect.
export function way(picture, places, {from, to, columns: pair}) {
  const [first, last] = pair.split('-').map(Number);
  const {size} = places;
  const a = places.at.get(from);
  const b = places.at.get(to);
  const start = {x: a.x + places.columns[first].width, y: a.y + size.height / 2};
  const end = {x: b.x, y: b.y + size.height / 2};
  const out = [start];
  for (let i = first + 1; i < last; i++) {
    const {x, width} = places.columns[i];
    const wish = start.y + (end.y - start.y) * (x - start.x) / Math.max(1, end.x - start.x);
    const y = gap(picture.columns[i].boxes.map((box) => places.at.get(box.id).y), wish, size);
    out.push({x, y}, {x: x + width, y});
  }
  out.push(end);
  return out;
}

// bundle joins links that lead from several boxes of one column to the same boxes of the next one: rules that lead to all workers are
// one stem with twigs. It returns the other links, and the bundles as {from, to, columns, health}: lists of ids.
export function bundle(links) {
  const single = [];
  const stems = new Map();
  for (const [key, list] of Map.groupBy(links, (l) => `${l.columns} ${l.health}\n${l.from}`)) {
    const [first, last] = list[0].columns.split('-').map(Number);
    if (list.length < 2 || last !== first + 1) {
      single.push(...list);
      continue;
    }
    const to = list.map((l) => l.to).sort();
    const name = key.split('\n')[0] + '\n' + to.join('\n');
    if (!stems.has(name)) stems.set(name, {from: [], to, columns: list[0].columns, health: list[0].health});
    stems.get(name).from.push(list[0].from);
  }
  // Twigs cost more lines than they save where no other box leads to the same ones.
  const bundles = [...stems.values()].filter((b) => b.from.length > 1);
  for (const b of stems.values()) if (b.from.length === 1) single.push(...b.to.map((to) => ({from: b.from[0], to, columns: b.columns, health: b.health})));
  return {single, bundles};
}

// knots returns for each bundle the point {x, y} where its lines meet: before the column that it leads to, none upon another.
export function knots(places, bundles) {
  const used = [];
  return bundles.map((b) => {
    const last = Number(b.columns.split('-')[1]);
    const room = places.columns[last].x - places.columns[last - 1].x - places.columns[last - 1].width;
    const ys = b.to.map((id) => places.at.get(id).y + places.size.height / 2);
    let y = ys.reduce((sum, v) => sum + v, 0) / ys.length;
    while (used.some((u) => u.last === last && Math.abs(u.y - y) < places.size.gap * 2)) y += places.size.gap * 2;
    used.push({last, y});
    return {x: places.columns[last].x - room / 2, y, room};
  });
}

// gap returns the middle of the gap between boxes that is nearest to a height. tops are sorted.
function gap(tops, wish, size) {
  const inside = tops.find((top) => wish > top - size.gap / 2 && wish < top + size.height + size.gap / 2);
  if (inside === undefined) return wish;
  const [above, below] = [inside - size.gap / 2, inside + size.height + size.gap / 2];
  return wish - above < below - wish ? above : below;
}

function middle(links, at, head) {
  if (!links?.length) return null;
  let sum = 0;
  for (const l of links) sum += at.get(l.from).y - head;
  return sum / links.length;
}

// order sorts single boxes by where they would like to be. What is in an open group stays behind its group.
function order(boxes, wished) {
  const index = new Map(boxes.map((b, i) => [b, i]));
  const folded = boxes.some((b) => b.type !== 'object');
  for (let from = 0; from < boxes.length; from++) {
    let to = from;
    while (boxes[to]?.type === 'object' && (!folded || boxes[to].group === boxes[from].group)) to++;
    const run = boxes.slice(from, to).sort((a, b) => (wished.get(a.id) ?? Infinity) - (wished.get(b.id) ?? Infinity) || index.get(a) - index.get(b));
    boxes.splice(from, run.length, ...run);
    from = Math.max(from, to - 1);
  }
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
