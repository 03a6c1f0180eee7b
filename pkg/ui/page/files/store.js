// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// The state of the page: the last snapshot with its patches. No DOM here.

export const schemaVersion = 1;

const parts = ['views', 'sources', 'checks', 'plans', 'nodes', 'timeline', 'calls', 'faults', 'missing'];

export function createStore() {
  return {title: '', at: null, speed: 0, controller: null, story: null, objects: new Map(), links: [], out: new Map(), in: new Map(), ...Object.fromEntries(parts.map((p) => [p, []]))};
}

// load replaces the state by a snapshot. It returns what changed, as patch does.
export function load(store, snapshot) {
  if (snapshot.schemaVersion !== schemaVersion) {
    throw new Error(`the server sends version ${snapshot.schemaVersion} of the data, this page reads version ${schemaVersion}: reload the page`);
  }
  const before = store.objects;
  store.title = snapshot.title;
  store.at = snapshot.at;
  store.speed = snapshot.speed || 0;
  store.controller = snapshot.controller || null;
  store.story = snapshot.story || null;
  store.objects = new Map((snapshot.objects || []).map((o) => [o.id, o]));
  connect(store, snapshot.links || []);
  for (const p of parts) store[p] = snapshot[p] || [];
  return {parts: new Set(['objects', 'links', 'speed', 'controller', 'story', ...parts]), worse: worsened(before, store.objects.values())};
}

// apply changes the state by a patch, and returns which parts changed and which objects changed their health.
export function apply(store, patch) {
  const changed = new Set();
  store.at = patch.at;
  if (patch.title != null) store.title = patch.title;
  if (patch.speed != null) {
    store.speed = patch.speed;
    changed.add('speed');
  }
  if (patch.controller != null) {
    store.controller = patch.controller;
    changed.add('controller');
  }
  if (patch.story != null) {
    store.story = patch.story;
    changed.add('story');
  }
  const worse = worsened(store.objects, patch.objects || []);
  for (const id of patch.removed || []) store.objects.delete(id);
  for (const o of patch.objects || []) store.objects.set(o.id, o);
  if (patch.objects?.length || patch.removed?.length) changed.add('objects');
  if (patch.links) {
    connect(store, patch.links);
    changed.add('links');
  }
  for (const p of parts) {
    if (patch[p] == null) continue;
    store[p] = patch[p];
    changed.add(p);
  }
  return {parts: changed, worse};
}

function worsened(before, objects) {
  const out = [];
  if (before.size === 0) return out;
  for (const o of objects) if ((before.get(o.id)?.health ?? 'ok') !== o.health) out.push(o);
  return out;
}

function connect(store, links) {
  store.links = links;
  store.out = new Map();
  store.in = new Map();
  for (const l of links) {
    push(store.out, l.from, l);
    push(store.in, l.to, l);
  }
}

function push(map, key, value) {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}
