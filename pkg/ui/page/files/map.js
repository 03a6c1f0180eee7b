// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// The map: boxes in columns as lists of buttons, links as a drawing behind them.
import {select} from './vendor/d3-selection.min.js';
import {announce, el, healthClass, healthName, isHealth, remembered, rows, setAttribute, setStyle, setText, severity, showMissing} from './dom.js';
import {columnIndex, columns, most, path, picture} from './graph.js';
import {place, way} from './layout.js';

const get = (id) => document.getElementById(id);
const svg = (name) => document.createElementNS('http://www.w3.org/2000/svg', name);

export function createMap(store, open) {
  const view = {query: '', wrong: false, health: '', namespace: '', only: null, open: new Set(), limits: new Map(), selected: null};
  const canvas = get('map-canvas');
  const drawing = svg('svg');
  drawing.setAttribute('aria-hidden', 'true');
  const lines = svg('g');
  const hot = svg('path');
  hot.setAttribute('class', 'hot');
  drawing.append(lines, hot);
  canvas.append(drawing);
  const lists = columns.map((c) => {
    const count = el('span', {class: 'count'});
    const list = el('ul', {'aria-labelledby': 'column-' + c.id});
    const head = el('h3', {id: 'column-' + c.id}, c.title + ' ', count);
    canvas.append(el('div', {class: 'column'}, head, list));
    return {head, count, list};
  });
  let drawn = {columns: [], links: [], boxOf: new Map()};
  let places = null;
  let focus = null; // the box that Tab reaches
  let lit = null;
  const button = (id) => canvas.querySelector(`button[data-id="${CSS.escape(id)}"]`);

  function draw() {
    const focused = canvas.contains(document.activeElement);
    showMissing(get('map-missing'), store, 'objects');
    drawn = picture(store, view);
    const boxes = new Map(drawn.columns.flatMap((c) => c.boxes.map((b) => [b.id, b])));
    if (!boxes.has(focus)) focus = drawn.columns.flatMap((c) => c.boxes)[0]?.id ?? null;
    drawn.boxes = boxes;
    arrange();
    const hidden = drawn.found === undefined;
    get('map-all').hidden = !view.health && !view.only;
    for (const b of document.querySelectorAll('[data-health-filter]')) setAttribute(b, 'aria-pressed', String(b.dataset.healthFilter === view.health));
    namespaces();
    setText(get('map-found'), hidden ? `${store.objects.size} objects` : `${drawn.found} of ${store.objects.size} objects match`);
    get('map-fold').hidden = view.open.size === 0;
    // The box with the focus is gone, or was moved, which takes the focus from it.
    if (focused && !canvas.contains(document.activeElement) && focus) button(focus)?.focus();
  }

  // arrange places the boxes; it is also called when the room changes.
  function arrange() {
    places = place(drawn, get('map-area').clientWidth - 16);
    setStyle(canvas, 'width', places.width + 'px');
    setStyle(canvas, 'height', places.height + 'px');
    setAttribute(drawing, 'width', String(places.width));
    setAttribute(drawing, 'height', String(places.height));
    drawn.columns.forEach((c, i) => {
      const {head, count, list} = lists[i];
      setStyle(head.parentNode, 'left', places.columns[i].x + 'px');
      setStyle(head.parentNode, 'width', places.columns[i].width + 'px');
      setText(count, String(c.count));
      select(list).selectChildren().data(c.boxes, (b) => b.id)
        .join((enter) => enter.append(makeBox))
        .order()
        .each(function (b) {
          setStyle(this, 'top', places.at.get(b.id).y + 'px');
          fillBox(this.firstChild, b);
        });
    });
    drawLinks();
    light(lit);
  }

  // curve is the path of a link: curves from column to column, straight where it passes one.
  const curve = (link) => way(drawn, places, link).map((p, i, all) => {
    if (i === 0) return `M${p.x},${p.y}`;
    const before = all[i - 1];
    const half = (before.x + p.x) / 2;
    return before.y === p.y ? `L${p.x},${p.y}` : `C${half},${before.y} ${half},${p.y} ${p.x},${p.y}`;
  }).join('');

  function namespaces() {
    const box = get('map-namespace');
    const all = [...new Set([...store.objects.values()].filter((o) => o.kind === 'service').map((o) => o.group || ''))].sort();
    get('map-namespace-label').hidden = all.length < 2;
    rows(box, ['', ...all], {key: (v) => v, make: () => el('option'), fill: (o, v) => { setAttribute(o, 'value', v); setText(o, v || 'all'); }});
    box.value = all.includes(view.namespace) ? view.namespace : '';
  }

  // One path for all links of a pair of columns and a health: a thousand links are a few elements.
  function drawLinks() {
    const bundles = [...Map.groupBy(drawn.links, (l) => l.columns + ' ' + l.health)].sort();
    select(lines).selectChildren().data(bundles, (b) => b[0])
      .join((enter) => enter.append(() => svg('path')))
      .each(function ([, links]) {
        setAttribute(this, 'class', healthClass(links[0].health));
        setAttribute(this, 'd', links.map(curve).join(''));
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
    const kind = (b.object ?? b.members[0])?.kind;
    const stale = store.sources.some((s) => s.state === 'failing' && s.kinds.includes(kind));
    setAttribute(node, 'class', ['box', b.type, healthClass(b.health), b.id === view.selected ? 'selected' : '', stale ? 'stale' : ''].filter(Boolean).join(' '));
    setAttribute(node, 'data-kind', kind ?? null);
    setAttribute(node, 'tabindex', b.id === focus ? '0' : '-1');
    setAttribute(node, 'aria-expanded', b.type === 'group' ? String(b.open) : null);
    setAttribute(node, 'aria-current', b.id === view.selected ? 'true' : null);
    setBadgeOf(sign, health, b);
    if (b.type === 'object') {
      setText(name, b.object.name);
      const reason = ['error', 'warning'].includes(b.object.health) && b.object.why?.[0];
      setText(label, reason || b.object.label || b.object.why?.[0] || '');
    } else {
      const wrong = severity.filter((h) => b.wrong[h]).map((h) => `${b.wrong[h]} ${healthName(h)}`).join(', ');
      setText(name, b.type === 'more' ? `${b.count} more` : (b.group || 'no group'));
      setText(label, b.type === 'more' ? (wrong || 'all ok') : `${b.count}: ${wrong || 'all ok'}`);
    }
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
    id ??= drawn.boxOf.get(view.selected);
    if (!places.at.has(id)) id = null;
    const on = id ? path(drawn.links, id) : null;
    for (const old of canvas.querySelectorAll('[data-on]')) if (!on?.has(old.dataset.id)) old.removeAttribute('data-on');
    for (const b of on ?? []) {
      const node = button(b);
      if (node) setAttribute(node, 'data-on', '');
    }
    setAttribute(hot, 'd', on ? drawn.links.filter((l) => on.has(l.from) && on.has(l.to)).map(curve).join('') : '');
  }

  const nearest = (boxes, y) => boxes.reduce((a, b) => (a && Math.abs(places.at.get(a.id).y - y) <= Math.abs(places.at.get(b.id).y - y) ? a : b), null);

  // sideways finds the next box in another column: one that is linked, if there is one.
  function sideways(at, step) {
    const y = places.at.get(focus).y;
    const linked = drawn.links.filter((l) => (step > 0 ? l.from : l.to) === focus).map((l) => (step > 0 ? l.to : l.from));
    if (linked.length > 0) return nearest(linked.map((id) => drawn.boxes.get(id)), y);
    for (let i = at + step; i >= 0 && i < columns.length; i += step) {
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
  // all takes back what the counts and the causes have chosen.
  function all() {
    [view.health, view.only] = ['', null];
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
      if (o && !drawn.groupOf) drawn = picture(store, view); // the map was never drawn
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
