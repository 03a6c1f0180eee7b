// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// The map on other screens than a desk's: cards on a phone, and a wall that is looked at from afar.
import {el, healthClass, healthName, inPlainWords, isHealth, rows, setAttribute, setStyle, setText, severity} from './dom.js';
import {chain, most, wayText} from './graph.js';

const get = (id) => document.getElementById(id);

// drawCards draws the map of a narrow screen: each Service with its way, and what else is not well; the worst first.
export function drawCards(store, drawn, isStale, open) {
  const shown = drawn.columns.flatMap((c) => c.boxes.flatMap((b) => (b.object ? [b.object] : b.type === 'group' && b.open ? [] : b.members)))
    .filter((o) => o.kind === 'service' || !['ok', 'planned', 'foreign'].includes(o.health))
    .sort((a, b) => severity.indexOf(a.health) - severity.indexOf(b.health));
  rows(get('map-cards'), shown.map((o) => ({...o, stale: isStale(o.kind), chain: o.kind === 'service' ? chain(store, o.id) : null})), {
    key: (o) => o.id, limit: most, more: get('map-cards-more'),
    make: () => el('li', {}, el('button', {type: 'button'}, el('span', {class: 'symbol'}), el('span', {class: 'title'}, el('span', {class: 'unseen'}), el('span')), el('span', {class: 'reason'}), el('span', {class: 'way'}))),
    fill: (li, o) => {
      const [node] = li.children;
      const [sign, title, reason, about] = node.children;
      const bad = ['error', 'warning'].includes(o.health);
      setAttribute(node, 'class', ['card', healthClass(o.health), o.stale ? 'stale' : ''].filter(Boolean).join(' '));
      setAttribute(node, 'data-kind', o.kind);
      node.onclick = () => open(o.id);
      setAttribute(sign, 'data-health', isHealth(o.health) ? o.health : 'unknown');
      setText(title.firstChild, `${healthName(o.health)}: `);
      setText(title.lastChild, o.kind === 'service' && o.group ? `${o.group}/${o.name}` : o.name);
      setText(reason, (bad || o.health === 'pending' || o.health === 'orphan') && inPlainWords(o.why?.[0] ?? '')[0] || '');
      setText(about, o.chain ? wayText(o.chain) || o.label || '' : o.label || '');
    },
  });
}

// createWall returns {fit}, which arranges the map: on a wall with letters as large as there is room for. draw draws the map, placed
// returns where its boxes are.
export function createWall(draw, arrange, placed) {
  const wall = get('map-wall');
  wall.addEventListener('click', () => {
    const on = document.documentElement.classList.toggle('wall');
    setAttribute(wall, 'aria-pressed', String(on));
    if (on) document.documentElement.requestFullscreen?.().catch(() => {}); // a browser may refuse: the page is a wall all the same
    else if (document.fullscreenElement) document.exitFullscreen();
    draw();
  });
  document.addEventListener('fullscreenchange', () => {
    if (!document.fullscreenElement && document.documentElement.classList.contains('wall')) wall.click();
  });

  // fit makes the letters of a wall as large as the map leaves room for.
  function fit() {
    const root = document.documentElement;
    setStyle(root, 'font-size', '');
    if (!root.classList.contains('wall')) {
      arrange();
      return;
    }
    let [small, large] = [12, 60];
    while (large - small > 0.5) {
      const middle = (small + large) / 2;
      setStyle(root, 'font-size', middle + 'px');
      arrange();
      const area = get('map-area');
      const places = placed();
      const fits = area.getBoundingClientRect().top + places.height + 12 <= innerHeight && places.width <= area.clientWidth;
      if (fits) small = middle;
      else large = middle;
    }
    setStyle(root, 'font-size', small + 'px');
    arrange();
  }
  // What stands above the map grows and shrinks with the causes.
  new ResizeObserver(() => { if (document.documentElement.classList.contains('wall')) fit(); }).observe(get('causes'));
  addEventListener('resize', () => { if (document.documentElement.classList.contains('wall')) draw(); });
  return {fit};
}
