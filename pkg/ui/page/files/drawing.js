// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// The map as a file: SVG with its own colours, and without scripts, that any browser, editor or chat shows.
import {el, healthName, symbol} from './dom.js';
import {leaves} from './graph.js';

const tones = {ok: ['#c6ccd4', '#ffffff'], pending: ['#0b57a8', '#e8f1fb'], warning: ['#855000', '#fff3df'], error: ['#b3261e', '#fdecea'],
  orphan: ['#5c636d', '#e9ebee'], foreign: ['#5b4a8a', '#f1eef9'], planned: ['#535b66', 'none']};
const toneOf = (health) => tones[health] ?? tones.error;

// drawingText returns the SVG of a picture; curves is how the map draws links.
export function drawingText(store, drawn, places, curves) {
  const edge = 16;
  const top = 40;
  const [width, height] = [places.width + 2 * edge, places.height + top + 2 * edge];
  const doc = document.implementation.createDocument('http://www.w3.org/2000/svg', 'svg');
  const add = (parent, name, attributes, text) => {
    const out = doc.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [key, value] of Object.entries(attributes)) out.setAttribute(key, String(value));
    if (text !== undefined) out.textContent = text; // names come from tenants: text, never markup
    parent.append(out);
    return out;
  };
  const root = doc.documentElement;
  for (const [key, value] of Object.entries({width, height, viewBox: `0 0 ${width} ${height}`, 'font-family': 'system-ui, sans-serif', role: 'img'})) root.setAttribute(key, String(value));
  add(root, 'title', {}, store.title);
  add(root, 'rect', {width: '100%', height: '100%', fill: '#fbfbfc'});
  add(root, 'text', {x: edge, y: 28, 'font-size': 18, 'font-weight': 600, fill: '#1b1f24'}, `${store.title}, ${new Date(store.at).toISOString().slice(0, 19).replace('T', ' ')} UTC`);
  const map = add(root, 'g', {transform: `translate(${edge},${top})`});
  for (const [health, links] of Map.groupBy(drawn.links, (l) => l.health)) {
    add(map, 'path', {d: curves(links), fill: 'none', stroke: health === 'ok' ? '#c6ccd4' : toneOf(health)[0], 'stroke-width': 1.4});
  }
  const {size, unit} = places;
  const cut = (text, letters) => (text.length > letters ? text.slice(0, Math.max(1, letters - 1)) + '…' : text);
  drawn.columns.forEach((c, i) => {
    const {x, width: w} = places.columns[i];
    add(map, 'text', {x, y: size.head - 12 * unit, 'font-size': 14 * unit, 'font-weight': 600, fill: '#1b1f24'}, `${c.title} ${c.count}`);
    for (const b of c.boxes) {
      const [stroke, fill] = toneOf(b.health);
      const y = places.at.get(b.id).y;
      const name = b.object?.name ?? (b.type === 'more' ? `${b.count} more` : `${b.group || 'no group'} (${b.count})`);
      const text = b.object ? (['error', 'warning'].includes(b.health) && b.object.why?.[0]) || b.object.label || '' : '';
      const box = add(map, 'g', {});
      add(box, 'title', {}, `${healthName(b.health)}: ${name} ${text}`);
      add(box, 'rect', {x, y, width: w, height: size.height, rx: 6, fill, stroke, 'stroke-dasharray': ['planned', 'orphan', 'foreign'].includes(b.health) || leaves(b) ? '5 3' : 'none'});
      if (b.health !== 'ok') add(box, 'text', {x: x + 10 * unit, y: y + size.height / 2 + 5 * unit, 'font-size': 15 * unit, 'font-weight': 700, fill: stroke}, symbol(b.health));
      add(box, 'text', {x: x + 30 * unit, y: y + (text ? 20 : 29) * unit, 'font-size': 13 * unit, 'font-weight': 600, fill: '#1b1f24'}, cut(name, (w - 36 * unit) / (7.6 * unit)));
      add(box, 'text', {x: x + 30 * unit, y: y + 37 * unit, 'font-size': 12 * unit, fill: '#535b66'}, cut(text, (w - 36 * unit) / (6.6 * unit)));
    }
  });
  return new XMLSerializer().serializeToString(doc);
}

// drawingFile gives the drawing to the reader as a file.
export function drawingFile(...of) {
  const address = URL.createObjectURL(new Blob([drawingText(...of)], {type: 'image/svg+xml'}));
  el('a', {href: address, download: 'map.svg'}).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
