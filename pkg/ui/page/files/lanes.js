// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// The time line as lanes: what happened at the same time is above each other. The table beside it has the same as text.
import {select} from './vendor/d3-selection.min.js';
import {setAttribute, setText} from './dom.js';

const svg = (name) => document.createElementNS('http://www.w3.org/2000/svg', name);
const names = {leader: 'Leader', drift: 'Drift', warning: 'Warnings', event: 'Events', fault: 'Faults', call: 'Calls'};
const order = Object.keys(names);
const buckets = 90;

const laneOf = (e) => (e.kind === 'call' ? 'call' : e.kind === 'event' && e.warning ? 'warning' : e.kind);

// plot returns the lanes of a time line between two moments: [{name, marks: [{at, entry}], bars: [{at, n, failed}]}].
export function plot(timeline, from, to) {
  const inside = timeline.map((entry) => ({at: Date.parse(entry.at), entry})).filter((m) => m.at >= from && m.at <= to);
  const lanes = Map.groupBy(inside, (m) => laneOf(m.entry));
  const width = (to - from) / buckets;
  const out = [...new Set([...order, ...lanes.keys()])].map((id) => {
    const marks = lanes.get(id) ?? [];
    if (id !== 'call') return {id, name: names[id] ?? id, marks, bars: []};
    const bars = new Map();
    const add = (at, n, failed) => {
      const slot = Math.floor((at - from) / width);
      const bar = bars.get(slot) ?? {at: from + slot * width, n: 0, failed: 0};
      bars.set(slot, bar);
      [bar.n, bar.failed] = [bar.n + n, bar.failed + failed];
    };
    for (const m of marks) add(m.at, m.entry.count || 1, m.entry.warning ? m.entry.count || 1 : 0);
    return {id, name: names.call, marks: [], bars: [...bars.values()]};
  });
  return out.filter((l) => l.marks.length + l.bars.length > 0);
}

// createLanes returns a drawing; open is called with the id of an object that was clicked.
export function createLanes(open) {
  const node = svg('svg');
  node.setAttribute('class', 'lanes');
  node.setAttribute('aria-hidden', 'true');
  const [grid, rows] = [svg('g'), svg('g')];
  node.append(grid, rows);

  function draw(timeline, from, to) {
    const unit = parseFloat(getComputedStyle(document.documentElement).fontSize) / 15;
    const [left, height, foot] = [84 * unit, 34 * unit, 22 * unit];
    const width = node.parentNode.clientWidth;
    if (width === 0) return;
    const lanes = plot(timeline, from, to);
    const x = (at) => left + (at - from) / (to - from) * (width - left - 12 * unit);
    setAttribute(node, 'width', String(width));
    setAttribute(node, 'height', String(lanes.length * height + foot));
    // Full minutes or hours, as many as have room.
    const step = [1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440, 10080].map((m) => m * 60000).find((s) => (to - from) / s <= Math.max(2, (width - left) / (80 * unit))) ?? (to - from) / 4;
    const ticks = [];
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) ticks.push(t);
    const clock = (t) => new Date(t).toLocaleString('en-GB', step >= 86400000 ? {month: 'short', day: 'numeric'} : {hour: '2-digit', minute: '2-digit', hourCycle: 'h23'});
    select(grid).selectChildren().data(ticks).join((enter) => enter.append(() => { const g = svg('g'); g.append(svg('line'), svg('text')); return g; })).each(function (t) {
      const [line, text] = this.children;
      for (const [name, value] of Object.entries({x1: x(t), x2: x(t), y1: 0, y2: lanes.length * height})) setAttribute(line, name, String(value));
      setAttribute(text, 'x', String(x(t)));
      setAttribute(text, 'y', String(lanes.length * height + foot * 0.75));
      setText(text, clock(t));
    });
    select(rows).selectChildren().data(lanes, (l) => l.id).join((enter) => enter.append(() => { const g = svg('g'); g.append(svg('text'), svg('line'), svg('g')); return g; })).order().each(function (lane, i) {
      const [text, line, marks] = this.children;
      const y = i * height;
      setAttribute(text, 'y', String(y + height / 2));
      setText(text, lane.name);
      for (const [name, value] of Object.entries({x1: left, x2: width, y1: y + height, y2: y + height})) setAttribute(line, name, String(value));
      const most = Math.max(1, ...lane.bars.map((b) => b.n));
      const bar = (width - left) / buckets * 0.7;
      const tall = (n) => n / most * (height - 8 * unit);
      const items = [
        ...lane.bars.map((b) => ({at: b.at, ok: tall(b.n - b.failed), bad: tall(b.failed), title: `${Math.round(b.n * 10) / 10} calls, ${Math.round(b.failed * 10) / 10} refused`})),
        ...lane.marks.map((m) => ({at: m.at, entry: m.entry, title: [m.entry.reason, m.entry.message].filter(Boolean).join(': ')})).reverse(),
      ];
      select(marks).selectChildren().data(items).join((enter) => enter.append(() => { const g = svg('g'); g.append(svg('title'), svg('path')); return g; })).each(function (m) {
        const [title, shape] = this.children;
        setText(title, m.title);
        const r = 5 * unit;
        const base = y + height - 1;
        const box = (top, size) => `M${x(m.at)},${top}h${bar}v${size}h${-bar}z`;
        setAttribute(shape, 'd', m.entry ? `M${x(m.at) - r},${y + height / 2}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0` : box(base - m.ok, m.ok));
        setAttribute(shape, 'class', m.entry ? `mark ${lane.id}${m.entry.warning ? ' bad' : ''}` : 'bar');
        if (!m.entry && m.bad > 0) {
          if (!this.children[2]) this.append(svg('path'));
          setAttribute(this.children[2], 'class', 'bar bad');
          setAttribute(this.children[2], 'd', box(base - m.ok - m.bad, m.bad));
        } else this.children[2]?.remove();
        this.onclick = m.entry?.object ? () => open(m.entry.object) : null;
        setAttribute(this, 'class', m.entry?.object ? 'leads' : null);
      });
    });
  }
  return {node, draw};
}
