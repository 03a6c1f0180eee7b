// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// From the objects to the boxes that the map draws: groups, folding, search. Pure functions, no DOM.
import {healthName, inPlainWords, severity} from './dom.js';

export const columns = [
  {id: 'services', title: 'Services', kinds: ['service'], side: 'namespace', system: 'Kubernetes'},
  {id: 'addresses', title: 'Addresses', kinds: ['address'], side: 'namespace', system: 'CloudStack'},
  {id: 'rules', title: 'Rules', kinds: ['rule', 'forward'], side: 'namespace', system: 'CloudStack'},
  {id: 'nodes', title: 'Nodes', kinds: ['node'], side: 'pool', system: 'Kubernetes'},
  {id: 'vms', title: 'VMs', kinds: ['vm'], side: 'pool', system: 'CloudStack'},
  {id: 'networks', title: 'Networks', kinds: ['network'], side: 'network', system: 'CloudStack'},
];

// A column with more boxes than this is folded into groups, and what still does not fit is behind a button.
export const most = 60;

const columnOf = new Map(columns.flatMap((c, i) => c.kinds.map((k) => [k, i])));
const rank = new Map(severity.map((h, i) => [h, i]));
const rankOf = (health) => rank.get(health) ?? 0;

export const columnIndex = (object) => columnOf.get(object.kind) ?? -1;
export const worst = (healths) => healths.reduce((a, b) => (rankOf(b) < rankOf(a) ? b : a), 'ok');

// leaves reports whether the controller would delete the object of a box.
export const leaves = (box) => Boolean(box.object?.why?.some((why) => why.startsWith('planned: delete')));

// textsOf returns the two lines of a box. spread says that Services of several namespaces are beside each other.
export function textsOf(store, view, spread, b) {
  if (b.type === 'object') return [b.object.name, labelOf(store, view, spread, b.object)];
  const wrong = severity.filter((h) => b.wrong[h]).map((h) => `${b.wrong[h]} ${healthName(h)}`).join(', ') || 'all ok';
  return b.type === 'more' ? [`${b.count} more`, wrong] : [b.group || 'no group', `${b.count}: ${wrong}`];
}

// labelOf is the second line of an object's box: why it is not well, or else what it is.
function labelOf(store, view, spread, o) {
  const reason = ['error', 'warning'].includes(o.health) && inPlainWords(o.why?.[0] ?? '')[0];
  if (reason) return reason;
  const of = view.focus && store.objects.get(view.focus);
  const owner = `${of?.group}/${of?.name}`;
  if (of?.kind === 'service' && o.label?.startsWith(owner)) { // whose a rule is need not be said in the chain of its Service
    return o.label.slice(owner.length).trim() || o.facts?.find((f) => f.name === 'Algorithm')?.value || '';
  }
  return (o.kind === 'service' && spread && o.label ? `${o.group} · ` : '') + (o.label || o.why?.[0] || '');
}

// groups returns the group of each object: its own, or that of what leads to it in another column of the same side.
export function groups(store) {
  const out = new Map();
  for (const [i, column] of columns.entries()) {
    for (const o of store.objects.values()) {
      if (columnIndex(o) !== i) continue;
      let group = o.group;
      if (!group) {
        const from = (store.in.get(o.id) || []).find((l) => {
          const other = store.objects.get(l.from);
          return other && columnIndex(other) >= 0 && columns[columnIndex(other)].side === column.side && out.get(l.from);
        });
        group = from ? out.get(from.from) : '';
      }
      out.set(o.id, group);
    }
  }
  return out;
}

// matching returns the IDs of the objects that the search and the filter leave, or null for all of them: what matches,
// and what is connected with it on the same side of the map. byGroup has the IDs of the objects of each model.GroupID.
function matching(store, view, byGroup) {
  if (view.focus) view = {query: '', only: new Set([view.focus])}; // the chain of the chosen object, whatever else is searched
  const words = view.query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0 && !view.wrong && !view.health && !view.namespace && !view.only) return null;
  const found = new Set();
  for (const o of store.objects.values()) {
    if (view.only && !view.only.has(o.id)) continue;
    if (view.wrong && (o.health === 'ok' || o.health === 'foreign')) continue;
    if (view.health && o.health !== view.health) continue;
    if (view.namespace && (o.kind !== 'service' || o.group !== view.namespace)) continue;
    if (words.length > 0) {
      const text = [o.name, o.group, o.kind, o.label, o.id, ...(o.facts || []).filter((f) => searched.test(f.name)).map((f) => f.value)].join(' ').toLowerCase();
      if (!words.every((w) => text.includes(w))) continue;
    }
    found.add(o.id);
  }
  const out = new Set(found);
  // What was asked for is shown with all that it needs to work, from the Service to the network.
  const whole = view.wrong || view.health || view.only;
  // Of filters by health, a rule that leads to all nodes would show them all.
  const groups = view.only ? byGroup : new Map();
  for (const id of found) {
    walk(store, id, 'in', 'from', out, whole, groups);
    walk(store, id, 'out', 'to', out, whole, groups);
  }
  return {ids: out, found: found.size};
}

// searched are the facts that name an object: not messages, which have the words of everything.
const searched = /^(id|Rule|UID|VM id|CloudStack id|Provider ID|Address(es.*)?|Ports|Public port|Node port|Service|Network)$/i;

// walk adds what leads to an object, or where it leads to: the whole chain, or on its own side of the map alone. groups has the
// IDs of the objects of a model.GroupID that the chain goes through.
function walk(store, start, map, end, out, whole, groups) {
  const side = columns[columnIndex(store.objects.get(start))]?.side;
  const todo = [start];
  const seen = new Set(todo);
  while (todo.length > 0) {
    for (const l of store[map].get(todo.pop()) || []) {
      for (const id of groups.get(l[end]) ?? [l[end]]) {
        const o = store.objects.get(id);
        if (!o || seen.has(id) || !whole && columns[columnIndex(o)]?.side !== side) continue;
        seen.add(id);
        out.add(id);
        todo.push(id);
      }
    }
  }
}

// picture returns what the map draws: boxes by column, the box of each object, and the links between boxes.
// view: {query, wrong, health, namespace, only, focus, open: Set of group keys, limits: Map of column to number, room: most boxes of a
// column without a limit, selected: ID}
export function picture(store, view) {
  const groupOf = groups(store);
  const members = columns.map(() => []);
  const byGroup = new Map();
  const drawn = [...store.objects.values()].filter((o) => columnIndex(o) >= 0);
  for (const o of drawn) {
    const key = `group/${o.kind}/${groupOf.get(o.id)}`;
    if (!byGroup.has(key)) byGroup.set(key, []);
    byGroup.get(key).push(o.id);
  }
  const match = matching(store, view, byGroup);
  for (const o of drawn) if (!match || match.ids.has(o.id)) members[columnIndex(o)].push(o);
  const boxOf = new Map();
  // The columns of a side are folded together, so that a group is in one line.
  const tall = new Set(columns.filter((c, i) => members[i].length > most).map((c) => c.side));
  const out = columns.map((column, i) => {
    const boxes = fold(column, members[i], groupOf, view, tall.has(column.side));
    for (const b of boxes) for (const o of b.members || []) boxOf.set(o.id, b.id);
    return {...column, count: members[i].length, boxes};
  });
  // A kind that the page has no object of has no column; one whose objects are all filtered out keeps it, but not beside a chain.
  const kinds = new Set(drawn.map((o) => o.kind));
  const shown = kinds.size === 0 ? out : out.filter((c) => c.kinds.some((k) => kinds.has(k)) && (!view.focus && !view.only || c.boxes.length > 0));
  return {columns: shown, boxOf, links: join(store, shown, boxOf, byGroup), found: match?.found, groupOf};
}

const collator = new Intl.Collator('en', {numeric: true});
const byName = (a, b) => (a === b ? 0 : collator.compare(a, b));

function fold(column, members, groupOf, view, tall) {
  const single = (o) => ({id: o.id, type: 'object', object: o, group: groupOf.get(o.id), members: [o], health: o.health});
  const named = (a, b) => byName(groupOf.get(a.id), groupOf.get(b.id)) || byName(a.name, b.name);
  members.sort(named);
  if (!tall) return cut(column, members.map(single), view);
  const byGroup = Map.groupBy(members, (o) => groupOf.get(o.id));
  const out = [];
  for (const [group, list] of byGroup) {
    if (list.length === 1) {
      out.push(single(list[0]));
      continue;
    }
    const key = `${column.side}:${group}`;
    const open = view.open.has(key);
    out.push({
      id: `fold/${column.id}/${group}`, type: 'group', kind: list[0].kind, key, group, open, count: list.length,
      members: open ? [] : list, health: worst(list.map((o) => o.health)), wrong: count(list),
    });
    if (open) out.push(...list.map(single));
  }
  return cut(column, out, view);
}

function count(list) {
  const out = {};
  for (const o of list) if (o.health !== 'ok') out[o.health] = (out[o.health] || 0) + 1;
  return out;
}

// cut keeps as many boxes as there is room for: groups that are open and the selected object, then the worst.
function cut(column, boxes, view) {
  const limit = view.limits.get(column.id) ?? view.room;
  if (boxes.length <= limit) return boxes;
  const urgency = (b) => (b.id === view.selected || b.open ? -2 : b.type === 'object' && b.members.length && view.open.has(`${column.side}:${b.group}`) ? -1 : 0);
  const order = boxes.map((b, i) => ({b, i})).sort((x, y) =>
    urgency(x.b) - urgency(y.b) || rankOf(x.b.health) - rankOf(y.b.health) || x.i - y.i);
  const kept = new Set(order.slice(0, limit).map((x) => x.b));
  const left = order.slice(limit).map((x) => x.b);
  const out = boxes.filter((b) => kept.has(b));
  const rest = left.flatMap((b) => b.members);
  out.push({id: `more/${column.id}`, type: 'more', column: column.id, kind: column.kinds[0], count: left.length, members: rest, health: worst(rest.map((o) => o.health)), wrong: count(rest)});
  return out;
}

// join returns the links between boxes, each once, from the left column to the right one.
function join(store, drawn, boxOf, byGroup) {
  const at = new Map(drawn.flatMap((c, i) => c.boxes.map((b) => [b.id, i])));
  const known = new Map();
  // A link may lead to all objects of a kind in a group: model.GroupID.
  const ends = (id) => {
    let boxes = known.get(id);
    if (!boxes) {
      boxes = [...new Set((byGroup.get(id) || [id]).map((o) => boxOf.get(o)).filter(Boolean))];
      known.set(id, boxes);
    }
    return boxes;
  };
  const out = new Map();
  for (const l of store.links) {
    for (const f of ends(l.from)) {
      for (const t of ends(l.to)) {
        let [a, b] = [f, t];
        if (at.get(a) === at.get(b)) continue;
        if (at.get(a) > at.get(b)) [a, b] = [b, a];
        const key = a + '\n' + b;
        const joined = out.get(key);
        if (joined) joined.health = worst([joined.health, l.health || 'ok']);
        else out.set(key, {from: a, to: b, columns: at.get(a) + '-' + at.get(b), health: l.health || 'ok'});
      }
    }
  }
  return [...out.values()];
}

// chain says how a Service is reached: {addresses, ports, nodes, of} with the names of its addresses and rules, and the number of nodes
// that these lead to, of all in their groups. nodes is null where the links to nodes are not known.
export function chain(store, id) {
  const next = (ids, ...kinds) => [...new Set(ids.flatMap((i) => (store.out.get(i) || []).map((l) => l.to)))].filter((i) => kinds.includes(store.objects.get(i)?.kind));
  const addresses = next([id], 'address');
  const owner = (o) => o.facts?.find((f) => f.name === 'Service')?.value;
  const rules = next(addresses, 'rule', 'forward').filter((i) => {
    const o = store.objects.get(i); // others may have rules on the same address
    return !['orphan', 'foreign', 'planned'].includes(o.health) && 'service/' + (owner(o) ?? id.slice(8)) === id;
  });
  const nodes = new Set(next(rules, 'node'));
  for (const vm of next(rules, 'vm')) for (const l of store.in.get(vm) || []) if (store.objects.get(l.from)?.kind === 'node') nodes.add(l.from);
  const all = [...store.objects.values()].filter((o) => o.kind === 'node');
  for (const l of rules.flatMap((i) => store.out.get(i) || [])) {
    const group = /^group\/node\/(.*)$/s.exec(l.to);
    if (group) for (const o of all) if ((o.group || '') === group[1]) nodes.add(o.id);
  }
  const groups = new Set([...nodes].map((i) => store.objects.get(i).group));
  const names = (ids) => ids.map((i) => store.objects.get(i).name);
  return {
    addresses: names(addresses), ports: names(rules).sort(collator.compare), nodes: nodes.size || rules.length === 0 ? nodes.size : null,
    of: all.filter((o) => groups.has(o.group)).length,
  };
}

// wayText is a chain in one line: "203.0.113.11 → 443 → 2 of 3 nodes".
export function wayText({addresses, ports, nodes, of}) {
  const reached = nodes === null || ports.length === 0 ? '' : nodes === of ? `all ${of} nodes` : `${nodes} of ${of} nodes`;
  return [addresses.join(', '), ports.map((p) => p.replace(/ →.*/, '')).join(', '), reached].filter(Boolean).join(' → ');
}

// path returns the IDs of the boxes that lead to a box or that it leads to.
export function path(links, id) {
  const out = new Set([id]);
  for (const [from, to] of [['from', 'to'], ['to', 'from']]) {
    const next = Map.groupBy(links, (l) => l[from]);
    const todo = [id];
    const seen = new Set(todo);
    while (todo.length > 0) {
      for (const l of next.get(todo.pop()) || []) {
        if (seen.has(l[to])) continue;
        seen.add(l[to]);
        out.add(l[to]);
        todo.push(l[to]);
      }
    }
  }
  return out;
}
