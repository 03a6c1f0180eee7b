// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// The views that are tables: checks, plan, time line, nodes.
import {
  badge, cells, el, inPlainWords, list, marked, named, objectLink, plural, remembered, rows, setAttribute, setText, severity, showMissing, table,
  time,
} from './dom.js';
import {planBody} from './details.js';
import {createLanes} from './lanes.js';

const section = (id) => document.getElementById(id);
const unseen = (text) => el('span', {class: 'unseen'}, text);
const moreButton = () => el('button', {type: 'button', class: 'more', hidden: true});

function select(label, name) {
  const box = remembered(el('select', {name}), name);
  return {label: el('label', {}, label + ' ', box), box};
}

// options keeps a select's options in step with what there is.
function options(box, values) {
  const chosen = box.value || box.wished || '';
  rows(box, ['', ...values], {key: (v) => v, make: () => el('option'), fill: (o, v) => { setAttribute(o, 'value', v); setText(o, v || 'all'); }});
  box.value = values.includes(chosen) ? chosen : '';
}

// outside returns a link to another page, if it is one: the address comes from the data.
function outside(address, text) {
  return /^https?:\/\//.test(address || '') ? el('a', {href: address, rel: 'noopener noreferrer', target: '_blank'}, text) : null;
}

export function createChecks(store) {
  const status = select('Status', 'status');
  const category = select('Category', 'category');
  const missing = el('div');
  const found = el('p', {role: 'status'});
  const {frame, body} = table('All checks', ['Check', 'Status', 'Category', 'Finding and remedy', 'Objects']);
  const more = moreButton();
  section('checks').append(missing, el('div', {class: 'tools'}, status.label, category.label, found), frame, more);
  status.box.addEventListener('change', draw);
  category.box.addEventListener('change', draw);
  const order = ['error', 'warning', 'skipped', 'ok'];
  const at = (c) => (order.indexOf(c.status) + order.length + 1) % (order.length + 1);

  function draw() {
    frame.hidden = showMissing(missing, store, 'checks') && store.checks.length === 0;
    options(status.box, [...new Set(store.checks.map((c) => c.status))].sort());
    options(category.box, [...new Set(store.checks.map((c) => c.category))].sort());
    const shown = store.checks.filter((c) => (!status.box.value || c.status === status.box.value) && (!category.box.value || c.category === category.box.value))
      .sort((a, b) => at(a) - at(b) || (a.code < b.code ? -1 : 1));
    setText(found, `${shown.length} of ${store.checks.length} checks`);
    rows(body, shown, {key: (c) => c.code, make: () => el('tr'), more, fill: (row, c) => cells(row, [
      [outside(c.link, c.code) ?? c.code, ' ', c.title], [badge(c.status)], c.category,
      [c.message ? el('p', {}, c.message) : '', c.remedy ? el('p', {class: 'remedy'}, el('strong', {}, 'Remedy: '), ...marked(c.remedy)) : ''],
      c.objects?.length ? [el('ul', {}, ...c.objects.map((o) => el('li', {}, o.id && store.objects.has(o.id) ? el('a', {href: '#map/' + encodeURIComponent(o.id)}, o.text) : o.text)))] : '',
    ])});
  }
  return {draw, parts: ['checks', 'missing']};
}

export function createPlan(store) {
  const missing = el('div');
  const none = el('p');
  const plans = el('div', {class: 'plans'});
  const more = moreButton();
  section('plan').append(el('p', {}, 'What the controller would do now.'), missing, none, plans, more);
  return {parts: ['plans', 'missing', 'objects'], draw() {
    const unknown = showMissing(missing, store, 'plans');
    none.hidden = unknown || store.plans.length > 0;
    const waiting = [...store.objects.values()].filter((o) => o.kind === 'service' && o.health !== 'ok').length;
    setText(none, waiting === 0 ? 'Nothing to do: CloudStack has what the Services ask for.' : `Nothing is planned. Not all is well with ${waiting} Services: see the map.`);
    // Services that wait for the same have one heading: their plans say the same, too.
    const cause = (p) => {
      const o = store.objects.get(p.service);
      return o?.health === 'error' && inPlainWords(o.why?.[0] ?? '').filter(Boolean).join(' ') || p.service;
    };
    rows(plans, [...Map.groupBy(store.plans, cause)], {key: ([c]) => c, make: () => el('section'), more, fill: (node, [why, list]) => {
      const link = (p) => objectLink(p.service, store.objects.get(p.service));
      node.replaceChildren(...(list.length === 1 ? [el('h3', {}, link(list[0])), planBody(store, list[0])] : [
        el('h3', {}, `${list.length} Services`), el('p', {}, badge('error'), ' ' + why),
        el('ul', {class: 'waiting'}, ...list.map((p) => el('li', {}, link(p), el('details', {}, el('summary', {}, plural(p.actions?.length ?? 0, 'action')), planBody(store, p))))),
      ]));
    }});
  }};
}

const spans = [['60', 'last hour'], ['15', 'last 15 minutes'], ['360', 'last 6 hours'], ['all', 'all']];

export function createTimeline(store) {
  const kind = select('Kind', 'kind');
  const caller = select('Caller', 'caller');
  const span = select('Lanes', 'span');
  rows(span.box, spans, {key: ([v]) => v, make: () => el('option'), fill: (o, [v, text]) => { setAttribute(o, 'value', v); setText(o, text); }});
  if (span.box.wished) span.box.value = span.box.wished;
  const pause = el('button', {type: 'button', 'aria-pressed': 'false'}, 'Pause');
  const missing = el('div');
  const lanes = createLanes((id) => { location.hash = '#map/' + encodeURIComponent(id); });
  const entries = table('Entries', ['Time', 'Kind', 'Object', 'What happened']);
  const more = moreButton();
  const nothing = el('p', {}, 'Nothing has happened yet.');
  const calls = table('Calls a minute', ['Command', 'Result', 'Calls a minute']);
  const callsPart = el('div', {}, el('h3', {}, 'Calls a minute'), calls.frame);
  section('timeline').append(missing, el('div', {class: 'tools'}, kind.label, caller.label, span.label, pause), el('div', {}, lanes.node),
    el('div', {class: 'two'}, el('div', {}, nothing, entries.frame, more), callsPart));
  for (const s of [kind, caller, span]) s.box.addEventListener('change', draw);
  let held = null; // the time line as it was when the reader paused it
  pause.addEventListener('click', () => {
    held = held ? null : {timeline: store.timeline, at: store.at};
    setAttribute(pause, 'aria-pressed', String(held !== null));
    setText(pause, held ? 'Go on' : 'Pause');
    draw();
  });
  new ResizeObserver(() => draw()).observe(section('timeline'));

  function draw() {
    const unread = showMissing(missing, store, 'timeline');
    const all = held?.timeline ?? store.timeline;
    const now = Date.parse(held?.at ?? store.at ?? 0);
    options(kind.box, [...new Set(all.map((e) => e.kind))].sort());
    options(caller.box, [...new Set(all.map((e) => e.caller).filter(Boolean))].sort());
    caller.label.hidden = caller.box.options.length < 2;
    const oldest = Math.min(now - 300000, ...all.map((e) => Date.parse(e.at)));
    const from = Math.max(oldest, now - (Number(span.box.value) || Infinity) * 60000);
    const shown = all.filter((e) => (!kind.box.value || e.kind === kind.box.value) && (!caller.box.value || e.caller === caller.box.value));
    lanes.draw(shown, from, now);
    rows(entries.body, shown, {key: (e) => [e.at, e.kind, e.object, e.reason, e.message].join('\n'), make: () => el('tr'), more, fill: (row, e) => {
      setAttribute(row, 'class', e.warning ? 'warning' : null);
      cells(row, [[time(e.at, store.at)], [e.kind], e.object ? [objectLink(e.object, store.objects.get(e.object))] : '',
        [e.warning ? badge('warning') : '', ' ', el('strong', {}, e.reason), e.count > 1 ? ` (${e.count} times)` : '', e.caller ? ` by ${e.caller}` : '', e.milliseconds ? ` in ${e.milliseconds} ms` : '', e.message ? ` ${named(store, e.message)}` : '']]);
    }});
    lanes.node.parentNode.hidden = entries.frame.hidden = all.length === 0;
    nothing.hidden = unread || all.length > 0;
    callsPart.hidden = store.calls.length === 0; // csccm ui does not know them
    const top = Math.max(1, ...store.calls.map((c) => c.perMinute));
    rows(calls.body, store.calls.map((c) => ({...c, top})), {key: (c) => c.command + '\n' + c.code, make: () => el('tr'), fill: (row, c) =>
      cells(row, [c.command, c.code, [el('meter', {min: 0, max: c.top, value: c.perMinute, 'aria-hidden': 'true'}), ` ${Math.round(c.perMinute * 10) / 10}`]])});
  }
  return {draw, parts: ['timeline', 'calls', 'missing']};
}

export function createNodes(store) {
  const search = remembered(el('input', {type: 'search', autocomplete: 'off'}), 'nodes-search');
  const wrong = remembered(el('input', {type: 'checkbox'}), 'nodes-wrong', 'checked');
  const missing = el('div');
  const found = el('p', {role: 'status'});
  const {frame, body} = table('Nodes and their VMs', ['Node', 'Health', 'Ready', 'Kubelet', 'Provider ID', 'VM', 'Addresses in Kubernetes', 'Addresses in CloudStack']);
  const more = moreButton();
  section('nodes').append(missing, el('div', {class: 'tools'}, el('label', {}, 'Search ', search), el('label', {}, wrong, ' only what is wrong'), found), frame, more);
  search.addEventListener('input', draw);
  wrong.addEventListener('change', draw);

  const addresses = (own, other) => [el('ul', {class: 'addresses'}, ...(own || []).map((a) => ((other || []).includes(a)
    ? el('li', {}, a) : el('li', {class: 'differs'}, a, unseen(' (differs)')))))];

  function draw() {
    frame.hidden = showMissing(missing, store, 'nodes') && store.nodes.length === 0;
    const text = search.value.toLowerCase();
    const shown = store.nodes.filter((n) => (!wrong.checked || n.health !== 'ok') && (!text || JSON.stringify(n).toLowerCase().includes(text)))
      .sort((a, b) => severity.indexOf(a.health) - severity.indexOf(b.health)); // the worst first
    setText(found, `${shown.length} of ${store.nodes.length} nodes`);
    rows(body, shown, {key: (n) => n.name, make: () => el('tr'), more, fill: (row, n) => cells(row, [
      [objectLink('node/' + n.name, store.objects.get('node/' + n.name))],
      [badge(n.health), n.why?.length ? list(n.why, {class: 'why'}) : ''],
      n.ready ? 'yes' : 'no', [n.kubelet, n.evidence ? el('p', {class: 'small'}, n.evidence) : ''], n.providerID || 'none',
      [n.vmID || 'none', n.vmState ? el('p', {class: 'small'}, n.vmState) : ''],
      addresses(n.kubernetesAddresses, n.cloudstackAddresses), [list(n.cloudstackAddresses || [], {class: 'addresses'})],
    ])});
  }
  return {draw, parts: ['nodes', 'missing']};
}
