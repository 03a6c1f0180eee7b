// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// The map: boxes in columns as lists of buttons, links as a drawing behind them.
import {select} from './vendor/d3-selection.min.js';
import {announce, el, healthClass, healthName, isHealth, remembered, rows, setAttribute, setStyle, setText, showMissing} from './dom.js';
import {columnIndex, columns, leaves, most, path, picture, textsOf} from './graph.js';
import {createWall, drawCards} from './screens.js';
import {drawingFile} from './drawing.js';
import {bundle, knots, place, way} from './layout.js';

const get = (id) => document.getElementById(id);
const mostOnWall = 14; // boxes of a column, so that they can be read from afar; the worst are kept
const flash = 2000; // milliseconds for which a box that has changed its health is marked
const svg = (name) => document.createElementNS('http://www.w3.org/2000/svg', name);

export function createMap(store, open) {
  // focus is the chosen object while its chain is shown alone, and whole says that the reader wants all others beside it.
  const view = {query: '', wrong: false, health: '', namespace: '', only: null, open: new Set(), others: new Set(), limits: new Map(), room: most, selected: null, focus: null, whole: false};
  const canvas = get('map-canvas');
  const drawing = svg('svg');
  drawing.setAttribute('aria-hidden', 'true');
  const lines = svg('g');
  const hot = svg('path');
  hot.setAttribute('class', 'hot');
  const labels = svg('g'); // of knots: how many boxes of all that there are
  labels.setAttribute('class', 'knot');
  drawing.append(lines, hot, labels);
  const sides = el('ul', {class: 'sides', 'aria-hidden': 'true'});
  canvas.append(drawing, sides);
  const lists = new Map(columns.map((c) => {
    const count = el('span', {class: 'count'});
    const list = el('ul', {'aria-labelledby': 'column-' + c.id});
    const head = el('h3', {id: 'column-' + c.id, 'data-system': c.system}, c.title + ' ', count);
    canvas.append(el('div', {class: 'column ' + c.system.toLowerCase()}, head, list));
    return [c.id, {head, count, list}];
  }));
  let drawn = {columns: [], links: [], boxOf: new Map()};
  let places = null;
  const pen = document.createElement('canvas').getContext('2d'); // measures words
  let focus = null; // the box that Tab reaches
  let lit = null;
  const isStale = (kind) => store.sources.some((s) => s.state === 'failing' && s.kinds.includes(kind));
  const narrow = matchMedia('(max-width: 600px)');
  narrow.addEventListener('change', () => draw());
  const button = (id) => canvas.querySelector(`button[data-id="${CSS.escape(id)}"]`);

  // alone shows the chain of an object, or everything. The groups that are open there are not those that are open here.
  function alone(id) {
    if (Boolean(view.focus) !== Boolean(id)) [view.open, view.others] = [view.others, view.open];
    view.focus = id;
  }

  function draw() {
    const focused = canvas.contains(document.activeElement);
    showMissing(get('map-missing'), store, 'objects');
    if (!store.objects.has(view.focus)) alone(null); // what is gone has no chain
    view.room = document.documentElement.classList.contains('wall') ? mostOnWall : most;
    drawn = picture(store, view);
    drawn.sides = store.story?.sides;
    const boxes = new Map(drawn.columns.flatMap((c) => c.boxes.map((b) => [b.id, b])));
    if (!boxes.has(focus)) focus = drawn.columns.flatMap((c) => c.boxes)[0]?.id ?? null;
    drawn.boxes = boxes;
    // A name is of a namespace; where groups do not say of which, boxes do.
    drawn.spread = namespaces() > 1 && !drawn.columns.some((c) => c.id === 'services' && c.boxes.some((b) => b.type === 'group'));
    wall.fit();
    const hidden = drawn.found === undefined;
    get('map-all').hidden = !view.health && !view.only && !view.focus;
    for (const b of document.querySelectorAll('[data-health-filter]')) setAttribute(b, 'aria-pressed', String(b.dataset.healthFilter === view.health));
    setText(get('map-found'), view.focus ? `Only ${store.objects.get(view.focus)?.name ?? 'this object'} and what belongs to it`
      : hidden ? `${store.objects.size} objects` : `${drawn.found} of ${store.objects.size} objects match`);
    get('map-fold').hidden = view.open.size === 0;
    if (narrow.matches) drawCards(store, drawn, isStale, open);
    // The box with the focus is gone, or was moved, which takes the focus from it.
    if (focused && !canvas.contains(document.activeElement) && focus) button(focus)?.focus();
  }

  // arrange places the boxes; it is also called when the room changes.
  function arrange() {
    const area = get('map-area');
    const root = document.documentElement;
    const width = (text, font) => {
      pen.font = font + ' system-ui, sans-serif';
      return pen.measureText(text).width;
    };
    const words = [...drawn.boxes.values()].map((b) => {
      const [name, label] = textsOf(store, view, drawn.spread, b);
      return [width(b.type === 'group' ? '▸ ' + name : name, '600 13.5px'), width(label, b.health === 'ok' ? '12px' : '600 12px')];
    });
    const tall = root.classList.contains('wall') ? Infinity : innerHeight - area.getBoundingClientRect().top - 48; // below it are the keys; a wall's letters follow from the height
    places = place(drawn, area.clientWidth - 16, parseFloat(getComputedStyle(root).fontSize) / 15, words, tall);
    setStyle(canvas, '--box', places.size.height + 'px');
    setStyle(canvas, '--lines', String(places.lines));
    setStyle(canvas, '--between', (places.columns[1]?.x ?? 0) - places.columns[0].width + 'px');
    canvas.classList.toggle('tall', places.lines > 1);
    setStyle(canvas, 'width', places.width + 'px');
    setStyle(canvas, 'height', places.height + 'px');
    setAttribute(drawing, 'width', String(places.width));
    setAttribute(drawing, 'height', String(places.height));
    for (const [id, {head}] of lists) head.parentNode.hidden = !drawn.columns.some((c) => c.id === id);
    drawn.columns.forEach((c, i) => {
      const {head, count, list} = lists.get(c.id);
      setStyle(head.parentNode, 'left', places.columns[i].x + 'px');
      setStyle(head.parentNode, 'width', places.columns[i].width + 'px');
      setText(count, String(c.count));
      setAttribute(head, 'data-joined', drawn.columns[i - 1]?.system === c.system ? '' : null); // one band for columns of one system
      select(list).selectChildren().data(c.boxes, (b) => b.id)
        .join((enter) => enter.append(makeBox))
        .order()
        .each(function (b) {
          setStyle(this, 'top', places.at.get(b.id).y + 'px');
          fillBox(this.firstChild, b);
        });
    });
    rows(sides, places.sides, {key: (s) => String(s.name), make: () => el('li'), fill: (li, s) => {
      setStyle(li, 'top', s.y + 'px');
      setText(li, s.name === null ? 'Both' : `Cluster “${s.name}”`);
    }});
    drawLinks();
    label();
    light(lit);
  }

  // lead is the path through points: curves from column to column, straight where it passes one.
  const lead = (points) => points.map((p, i, all) => {
    if (i === 0) return `M${p.x},${p.y}`;
    const before = all[i - 1];
    const half = (before.x + p.x) / 2;
    return before.y === p.y ? `L${p.x},${p.y}` : `C${half},${before.y} ${half},${p.y} ${p.x},${p.y}`;
  }).join('');

  // curves is the path of links of one health; those to the same boxes meet in a knot.
  function curves(links) {
    const {single, bundles} = bundle(links);
    const at = knots(places, bundles);
    const out = single.map((l) => lead(way(drawn, places, l)));
    bundles.forEach((b, i) => {
      const [first, last] = b.columns.split('-').map(Number);
      const middle = (id, x) => ({x, y: places.at.get(id).y + places.size.height / 2});
      out.push(...b.from.map((id) => lead([middle(id, places.columns[first].x + places.columns[first].width), at[i]])),
        ...b.to.map((id) => lead([at[i], middle(id, places.columns[last].x)])));
    });
    return out.join('');
  }

  function namespaces() {
    const box = get('map-namespace');
    const all = [...new Set([...store.objects.values()].filter((o) => o.kind === 'service').map((o) => o.group || ''))].sort();
    get('map-namespace-label').hidden = all.length < 2;
    rows(box, ['', ...all], {key: (v) => v, make: () => el('option'), fill: (o, v) => { setAttribute(o, 'value', v); setText(o, v || 'all'); }});
    box.value = all.includes(view.namespace) ? view.namespace : '';
    return all.length;
  }

  // label says at a knot whether all boxes of a pool are meant.
  function label() {
    const {bundles} = bundle(drawn.links);
    const at = knots(places, bundles);
    const {unit} = places;
    const out = bundles.flatMap((b, i) => {
      const to = b.to.map((id) => drawn.boxes.get(id));
      if (to.some((x) => x.type !== 'object')) return [];
      const pools = new Set(to.map((x) => x.group));
      const all = [...store.objects.values()].filter((o) => o.kind === to[0].object.kind && pools.has(drawn.groupOf.get(o.id))).length;
      const text = all === to.length ? `all ${all}` : `${to.length} of ${all}`;
      return [{x: at[i].x, y: at[i].y, text: at[i].room < (text.length * 6 + 10) * unit ? `${to.length}/${all}` : text}];
    });
    select(labels).selectChildren().data(out)
      .join((enter) => enter.append(() => { const g = svg('g'); g.append(svg('rect'), svg('text')); return g; }))
      .each(function ({x, y, text}) {
        const [box, word] = this.children;
        const half = (text.length * 3 + 5) * unit;
        for (const [name, value] of Object.entries({x: x - half, y: y - 8 * unit, width: 2 * half, height: 16 * unit, rx: 8 * unit})) setAttribute(box, name, String(value));
        setAttribute(word, 'x', String(x));
        setAttribute(word, 'y', String(y));
        setText(word, text);
      });
  }

  // One path for all links of a pair of columns and a health: a thousand links are a few elements.
  function drawLinks() {
    const bundles = [...Map.groupBy(drawn.links, (l) => l.columns + ' ' + l.health)].sort();
    select(lines).selectChildren().data(bundles, (b) => b[0])
      .join((enter) => enter.append(() => svg('path')))
      .each(function ([, links]) {
        setAttribute(this, 'class', healthClass(links[0].health));
        setAttribute(this, 'd', curves(links));
      });
  }

  function makeBox(b) {
    const out = el('button', {
      type: 'button', 'data-id': b.id,
      onclick: () => act(out.box),
      onfocus: () => { focusOn(b.id); light(b.id); },
      onblur: () => light(null),
      onpointerenter: () => light(b.id),
      onpointerleave: () => light(canvas.contains(document.activeElement) ? document.activeElement.dataset.id : null),
    }, el('span', {class: 'symbol'}), el('span', {class: 'unseen'}), el('span', {class: 'name'}), el('span', {class: 'label'}));
    return el('li', {}, out);
  }

  function fillBox(node, b) {
    node.box = b;
    const [sign, health, name, label] = node.children;
    const kind = b.object?.kind ?? b.kind;
    const stale = isStale(kind);
    // What changed its health is marked for a moment: the eye finds what a list of numbers hides.
    const changed = node.health !== undefined && node.health !== b.health;
    node.health = b.health;
    if (changed) node.until = Date.now() + flash;
    if (changed) setTimeout(() => node.classList.remove('changed'), flash);
    setAttribute(node, 'class', ['box', b.type, healthClass(b.health), b.id === view.selected ? 'selected' : '', stale ? 'stale' : '', leaves(b) ? 'leaves' : '', node.until > Date.now() ? 'changed' : ''].filter(Boolean).join(' '));
    setAttribute(node, 'data-kind', kind ?? null);
    setAttribute(node, 'tabindex', b.id === focus ? '0' : '-1');
    setAttribute(node, 'aria-expanded', b.type === 'group' ? String(b.open) : null);
    setAttribute(node, 'aria-current', b.id === view.selected ? 'true' : null);
    setBadgeOf(sign, health, b);
    textsOf(store, view, drawn.spread, b).forEach((text, i) => setText([name, label][i], text));
    setAttribute(node, 'title', `${name.textContent}\n${label.textContent}`);
  }

  function setBadgeOf(sign, health, b) {
    const text = isHealth(b.health) ? b.health : 'unknown';
    setAttribute(sign, 'data-health', text);
    setText(health, `${healthName(b.health)}: `);
  }

  function act(b) {
    if (b.type === 'group') toggle(b.key);
    else if (b.type === 'more') {
      view.limits.set(b.column, (view.limits.get(b.column) ?? most) + most);
      draw();
    } else open(b.object.id);
  }

  function toggle(key) {
    if (!view.open.delete(key)) view.open.add(key);
    draw();
    announce(view.open.has(key) ? 'Group opened' : 'Group folded');
  }

  function focusOn(id) {
    if (focus === id) return;
    if (focus) button(focus)?.setAttribute('tabindex', '-1');
    focus = id;
    button(id)?.setAttribute('tabindex', '0');
  }

  // light shows the path of a box: that of the pointer or the focus, or else of the object whose details are open.
  function light(id) {
    lit = id ?? null;
    id ??= view.focus ? null : drawn.boxOf.get(view.selected); // a chain is alone: all of it is meant
    if (!places.at.has(id)) id = null;
    const on = id ? path(drawn.links, id) : null;
    for (const old of canvas.querySelectorAll('[data-on]')) if (!on?.has(old.dataset.id)) old.removeAttribute('data-on');
    for (const b of on ?? []) {
      const node = button(b);
      if (node) setAttribute(node, 'data-on', '');
    }
    setAttribute(hot, 'd', on ? curves(drawn.links.filter((l) => on.has(l.from) && on.has(l.to)).map((l) => ({...l, health: 'ok'}))) : '');
  }

  const nearest = (boxes, y) => boxes.reduce((a, b) => (a && Math.abs(places.at.get(a.id).y - y) <= Math.abs(places.at.get(b.id).y - y) ? a : b), null);

  // sideways finds the next box in another column: one that is linked, if there is one.
  function sideways(at, step) {
    const y = places.at.get(focus).y;
    const linked = drawn.links.filter((l) => (step > 0 ? l.from : l.to) === focus).map((l) => (step > 0 ? l.to : l.from));
    if (linked.length > 0) return nearest(linked.map((id) => drawn.boxes.get(id)), y);
    for (let i = at + step; i >= 0 && i < drawn.columns.length; i += step) {
      if (drawn.columns[i].boxes.length > 0) return nearest(drawn.columns[i].boxes, y);
    }
    return null;
  }

  canvas.addEventListener('keydown', (event) => {
    const at = drawn.columns.findIndex((c) => c.boxes.some((b) => b.id === focus));
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const boxes = drawn.columns[at].boxes;
    const i = boxes.findIndex((b) => b.id === focus);
    const to = {
      ArrowDown: () => boxes[i + 1], ArrowUp: () => boxes[i - 1], Home: () => boxes[0], End: () => boxes.at(-1),
      ArrowRight: () => sideways(at, 1), ArrowLeft: () => sideways(at, -1),
    }[event.key];
    if (!to) return;
    event.preventDefault();
    const next = to();
    if (next) button(next.id).focus();
  });

  let waiting;
  view.query = remembered(get('map-search'), 'search').value;
  view.wrong = remembered(get('map-wrong'), 'wrong', 'checked').checked;
  view.namespace = remembered(get('map-namespace'), 'namespace').wished ?? '';
  get('map-namespace').addEventListener('change', (event) => {
    view.namespace = event.target.value;
    draw();
    announce(get('map-found').textContent);
  });
  get('map-all').addEventListener('click', all);
  // all takes back what the counts, the causes and a choice have left of the map.
  function all() {
    [view.health, view.only, view.whole] = ['', null, view.selected !== null];
    alone(null);
    draw();
  }
  get('map-search').addEventListener('input', (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      view.query = event.target.value;
      draw();
      announce(get('map-found').textContent);
    }, 80);
  });
  // From the search to what it found, without a mouse.
  get('map-search').addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' && event.key !== 'ArrowDown') return;
    event.preventDefault();
    clearTimeout(waiting);
    view.query = event.target.value;
    draw();
    const words = view.query.toLowerCase();
    const boxes = drawn.columns.flatMap((c) => c.boxes);
    const found = boxes.find((b) => b.object?.name.toLowerCase() === words) ?? boxes.find((b) => b.object?.name.toLowerCase().includes(words)) ?? boxes[0];
    if (!found) return;
    if (event.key === 'Enter') act(found);
    else button(found.id).focus();
  });
  get('map-wrong').addEventListener('change', (event) => {
    view.wrong = event.target.checked;
    draw();
    announce(get('map-found').textContent);
  });
  get('map-fold').addEventListener('click', () => {
    view.open.clear();
    view.limits.clear();
    draw();
    focus && button(focus)?.focus();
  });
  get('map-save').addEventListener('click', () => drawingFile(store, drawn, places, curves));
  const wall = createWall(draw, arrange, () => places);

  let width = 0;
  new ResizeObserver(() => {
    const now = get('map-area').clientWidth;
    if (now === width || now === 0) return;
    width = now;
    if (places) arrange();
  }).observe(get('map-area'));

  return {
    draw,
    all,
    // filter shows the objects of a health with all that they need; only those of a list.
    filter(health) {
      [view.health, view.only] = [health, null];
      draw();
      announce(get('map-found').textContent);
    },
    only(ids) {
      [view.health, view.only] = ['', new Set(ids)];
      draw();
      announce(get('map-found').textContent);
    },
    // choose marks an object, and unfolds what hides it.
    choose(id) {
      view.selected = id;
      const o = id && store.objects.get(id);
      if (!id) view.whole = false;
      // Of what serves one Service the chain is shown alone; all else leads to everything.
      alone(o && !view.whole && !view.only && ['service', 'address', 'rule', 'forward'].includes(o.kind) ? id : null);
      if (o) drawn = picture(store, view); // the map was never drawn, or is another now
      if (o && drawn.boxOf.get(id) !== id) {
        if (!drawn.boxOf.has(id)) {
          view.query = get('map-search').value = '';
          view.wrong = get('map-wrong').checked = false;
          [view.health, view.only, view.namespace] = ['', null, ''];
        }
        const column = columns[columnIndex(o)];
        if (column) view.open.add(`${column.side}:${drawn.groupOf.get(id) ?? o.group ?? ''}`);
      }
      draw();
      if (id) button(id)?.scrollIntoView({block: 'nearest', inline: 'nearest'});
    },
    focus(id) {
      const box = drawn.boxOf.get(id) ?? focus;
      if (box) button(box)?.focus();
    },
  };
}
