// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// The only place where elements are made from data. Names come from tenants: they become text and never HTML, and
// what did not change is not touched.
import {select} from './vendor/d3-selection.min.js';

const healths = {
  ok: ['✓', 'ok'],
  pending: ['…', 'pending'],
  warning: ['!', 'warning'],
  error: ['✕', 'error'],
  orphan: ['○', 'orphan'],
  foreign: ['◇', 'foreign'],
  planned: ['+', 'planned'],
  skipped: ['–', 'skipped'],
};

// The worst first: the order in which objects are kept where there is no room for all.
export const severity = ['error', 'warning', 'pending', 'planned', 'orphan', 'foreign', 'ok'];

export const isHealth = (health) => Object.hasOwn(healths, health);
export const symbol = (health) => (isHealth(health) ? healths[health][0] : '?');
export const healthName = (health) => (isHealth(health) ? healths[health][1] : String(health));
export const healthClass = (health) => 'h-' + (isHealth(health) ? health : 'unknown');

// el returns an element with attributes and children; a child that is a string becomes text.
export function el(name, attributes = {}, ...children) {
  const out = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) out.addEventListener(key.slice(2), value);
    else if (value === true) out.setAttribute(key, '');
    else if (value !== false && value != null) out.setAttribute(key, value);
  }
  out.append(...children.filter((c) => c != null));
  return out;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (value == null) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== value) {
    node.setAttribute(name, value);
  }
}

export function setStyle(node, name, value) {
  if (node.style.getPropertyValue(name) !== value) node.style.setProperty(name, value);
}

// badge shows a health by symbol, word and colour.
export function badge(health) {
  const out = el('span', {class: 'badge'}, el('span', {'aria-hidden': 'true', class: 'symbol'}), ' ', el('span'));
  setBadge(out, health);
  return out;
}

export function setBadge(node, health) {
  setAttribute(node, 'class', 'badge ' + healthClass(health));
  setText(node.firstChild, symbol(health));
  setText(node.lastChild, healthName(health));
}

// replace exchanges the children of a node when the value that they show has changed.
export function replace(node, value, make) {
  const key = JSON.stringify(value);
  if (node.shown === key) return;
  node.shown = key;
  node.replaceChildren(...[make()].flat().filter((c) => c != null));
}

// rows keeps the children of a parent in step with values: one child a key, drawn again only when its value changed.
// The first `limit` values are drawn; a button adds as many again.
export function rows(parent, values, {key, make, fill, limit = 100, more}) {
  parent.limit ??= limit;
  const shown = values.slice(0, parent.limit);
  select(parent).selectChildren().data(shown, key)
    .join((enter) => enter.append(make))
    .order()
    .each(function (value) {
      const text = JSON.stringify(value);
      if (this.shown === text) return;
      this.shown = text;
      fill(this, value);
    });
  if (more) {
    const left = values.length - shown.length;
    more.hidden = left <= 0;
    setText(more, `Show ${Math.min(left, limit)} more of ${left}`);
    more.onclick = () => {
      parent.limit += limit;
      rows(parent, values, {key, make, fill, limit, more});
    };
  }
}

// cells fills a table's row; a value is a string, or a list of nodes.
export function cells(row, values) {
  const titles = row.closest('table')?.querySelectorAll('thead th') ?? [];
  while (row.children.length < values.length) row.append(el(row.children.length === 0 ? 'th' : 'td', row.children.length === 0 ? {scope: 'row'} : {}));
  values.forEach((value, i) => {
    if (typeof value === 'string') setText(row.children[i], value);
    else row.children[i].replaceChildren(...value);
    if (titles[i]) setAttribute(row.children[i], 'data-title', titles[i].textContent); // shown where a row is a card
  });
}

// table returns an empty table in a frame that scrolls on a narrow screen.
export function table(caption, titles) {
  const body = el('tbody');
  const frame = el('div', {class: 'table', role: 'region', 'aria-label': caption, tabindex: '0'},
    el('table', {}, el('caption', {class: 'unseen'}, caption),
      el('thead', {}, el('tr', {}, ...titles.map((t) => el('th', {scope: 'col'}, t)))), body));
  return {frame, body};
}

// objectLink leads to an object on the map; an object that is not there is text.
export function objectLink(id, object) {
  if (!object) return el('span', {}, id);
  const name = object.kind === 'service' && object.group ? `${object.group}/${object.name}` : object.name;
  return el('a', {href: '#map/' + encodeURIComponent(id)}, name || id);
}

// marked is a text whose commands are between backticks.
export const marked = (text) => text.split('`').map((part, i) => (i % 2 ? el('code', {}, part) : part));

export function list(texts, attributes = {}) {
  return el('ul', attributes, ...texts.map((text) => el('li', {}, text)));
}

// time returns a moment; the day is left out for the day of `now`.
export function time(at, now) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return el('span', {}, String(at));
  const options = {hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23'};
  if (now && new Date(now).toDateString() !== date.toDateString()) Object.assign(options, {month: 'short', day: 'numeric'});
  return el('time', {datetime: date.toISOString()}, date.toLocaleString('en-GB', options));
}

// missing shows why a part could not be read, in place of an empty view.
export function showMissing(node, state, ...parts) {
  const found = (state.missing || []).filter((m) => parts.includes(m.part));
  replace(node, found, () => found.map((m) => el('div', {class: 'missing'},
    el('p', {}, el('strong', {}, `No ${m.part}: `), m.reason), m.remedy ? el('p', {}, m.remedy) : null)));
  return found.length > 0;
}

// ago is the age of a moment, as "12 s" or "3 min".
export function ago(at, now = Date.now()) {
  const s = Math.max(0, Math.round((now - new Date(at).getTime()) / 1000));
  if (s < 100) return `${s} s`;
  return s < 6000 ? `${Math.round(s / 60)} min` : `${Math.round(s / 3600)} h`;
}

// remembered keeps the value of a control while the tab lives, so that a reload does not change what is shown.
export function remembered(control, name, property = 'value') {
  const key = 'csccm.' + name;
  try {
    const value = sessionStorage.getItem(key);
    if (value !== null) control[property] = property === 'checked' ? value === 'true' : value;
    control.wished = value ?? ''; // of a select whose options come later
    const keep = () => {
      control.wished = '';
      sessionStorage.setItem(key, String(control[property]));
    };
    control.addEventListener('input', keep);
    control.addEventListener('change', keep);
  } catch {
    // The browser keeps nothing for this page.
  }
  return control;
}

export const plural = (n, word) => `${n} ${word}${n === 1 ? '' : 's'}`;

// plain says what CloudStack means, with what to do, where its own words say neither. They stay in the details.
const plain = [
  [/Maximum number of public IP addresses for (\S+ \S+) has been exceeded/, (m) => [`The limit of public addresses of ${m[1].replace(':', '')} is reached.`, 'Raise the limit, or release an address.']],
  [/Internal error executing command/, () => ['answers with an internal error (530)', 'See the log of the management server.']],
];

// inPlainWords returns a reason and its remedy.
export function inPlainWords(text, remedy) {
  for (const [pattern, say] of plain) {
    const found = pattern.exec(text);
    if (found) return say(found);
  }
  return [text, remedy];
}

// named replaces ids by the names that people know, and leaves out the names that the controller gives its rules: port and address say more.
export function named(store, text) {
  return text.replace(/ a[0-9a-f]{31}-\S+/g, '').replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, (id) =>
    ['network', 'vm', 'address'].map((kind) => store.objects.get(`${kind}/${id}`)?.name).find(Boolean) ?? id);
}

let pending = '';
// announce tells a screen reader one short text; texts within a moment are one.
export function announce(text) {
  if (!pending) setTimeout(() => { setText(document.getElementById('announce'), pending); pending = ''; }, 200);
  pending = text;
}
