// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Starts the page: which view is shown, what is drawn again after a change, keys.
import {announce, healthName, setAttribute, setText} from './dom.js';
import {apply, createStore, load} from './store.js';
import {connect} from './live.js';
import {createChecks, createNodes, createPlan, createTimeline} from './views.js';
import {createDetails, showStory} from './details.js';
import {createFaults} from './faults.js';
import {createMap} from './map.js';
import {createStrip} from './strip.js';

const get = (id) => document.getElementById(id);
const store = createStore();
const map = createMap(store, (id) => {
  if (id === selected) details.focus();
  else location.hash = '#map/' + encodeURIComponent(id);
});
const details = createDetails(store, close, (id) => map.only([id]));
const strip = createStrip(store, {filter: (health) => shown(() => map.filter(health)), only: (ids) => shown(() => map.only(ids))});
const views = {
  map: {draw: map.draw, parts: ['objects', 'links', 'missing', 'sources', 'story']},
  checks: createChecks(store), plan: createPlan(store), timeline: createTimeline(store), nodes: createNodes(store), faults: createFaults(store),
};
// Views that have changed since they were drawn: those that nobody sees are drawn when they are opened.
const stale = new Set(Object.keys(views));
let current = null;
let selected = null;

// route shows the view of the address: #checks, or #map/ID of an object.
function route(event) {
  const [name, ...rest] = location.hash.slice(1).split('/');
  const view = Object.hasOwn(views, name) ? name : 'map';
  let id = null;
  try {
    id = view === 'map' && rest.length > 0 ? decodeURIComponent(rest.join('/')) : null;
  } catch {
    // An address that somebody mistyped names no object.
  }
  if (view !== current || event && !id) scrollTo(0, 0); // the address names a section, to which the browser has scrolled
  if (view !== current) {
    current = view;
    for (const v of Object.keys(views)) get(v).hidden = v !== view;
    for (const a of document.querySelectorAll('nav a')) setAttribute(a, 'aria-current', a.getAttribute('href') === '#' + view ? 'page' : null);
  }
  const before = selected;
  selected = id;
  if (view === 'map' && id !== before) {
    stale.delete('map');
    map.choose(id);
  }
  drawStale();
  details.show(selected);
  if (event && selected && selected !== before) details.focus();
}

// shown opens the map and does something there.
function shown(act) {
  if (current !== 'map' || selected) {
    history.pushState(null, '', '#map');
    route();
  }
  act();
}

function drawStale() {
  if (!stale.delete(current)) return;
  views[current].draw();
}

function close() {
  const id = selected;
  if (!id) return;
  history.replaceState(null, '', '#map');
  route();
  map.focus(id);
}

function changed({parts, worse}) {
  for (const [name, view] of Object.entries(views)) if (view.parts.some((p) => parts.has(p))) stale.add(name);
  setText(get('title'), store.title || 'csccm');
  if (document.title !== get('title').textContent) document.title = get('title').textContent;
  const counts = {
    checks: store.checks.filter((c) => c.status === 'error' || c.status === 'warning').length,
    plan: store.plans.length,
    nodes: store.nodes.filter((n) => n.health === 'error' || n.health === 'warning').length,
    faults: store.faults.filter((f) => f.enabled).length,
  };
  for (const [name, n] of Object.entries(counts)) setText(get('count-' + name), n > 0 ? String(n) : '');
  get('nav-faults').hidden = store.faults.length === 0;
  // A page that sends no list of its views has all of them.
  for (const name of ['checks', 'plan', 'timeline', 'nodes']) {
    document.querySelector(`nav a[href='#${name}']`).parentNode.hidden = store.views.length > 0 && !store.views.includes(name);
  }
  if (parts.has('story')) showStory(store.story);
  if (strip.parts.some((p) => parts.has(p))) strip.draw();
  drawStale();
  if (selected) details.show(selected);
  if (worse.length > 0) {
    announce(worse.slice(0, 3).map((o) => `${o.name}: ${healthName(o.health)}`).join(', ') + (worse.length > 3 ? ` and ${worse.length - 3} more changes` : ''));
  }
}

let first = true;
connect({
  snapshot(value) {
    const change = load(store, value);
    get('frame').hidden = false; // before, every view would say that there is nothing
    if (first && selected) {
      stale.delete('map');
      map.choose(selected);
    }
    first = false;
    changed(change);
  },
  patch: (value) => changed(apply(store, value)),
});

window.addEventListener('hashchange', route);
get('skip').addEventListener('click', (event) => { // the address names the view, which stays
  event.preventDefault();
  get('view').focus();
});
document.addEventListener('keydown', (event) => {
  const typing = event.target.closest?.('input, select, textarea');
  if (event.key === 'Escape' && selected && !(typing && typing.value)) close();
  else if (event.key === 'Escape' && !typing && current === 'map') map.all();
  else if (event.key === '/' && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    if (current !== 'map') {
      history.pushState(null, '', '#map');
      route();
    }
    get('map-search').focus();
  }
});
route();
