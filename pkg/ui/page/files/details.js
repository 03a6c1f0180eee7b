// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// The details of one object.
import {announce, badge, el, list, objectLink, replace, time} from './dom.js';

const kinds = {
  service: 'Service', address: 'Address', rule: 'Load balancer rule', forward: 'Port forwarding rule',
  node: 'Node', vm: 'VM', network: 'Network',
};
const shownRelations = 50;
const shownEntries = 20;

// createDetails returns the panel; close is called by its button.
export function createDetails(store, close) {
  const panel = document.getElementById('details');

  function relations(title, links, end) {
    if (!links?.length) return null;
    const items = links.slice(0, shownRelations).map((l) => {
      const id = l[end];
      const o = store.objects.get(id);
      const group = !o && /^group\/(\w+)\/(.*)$/s.exec(id);
      return el('li', {}, group ? `all of ${group[2] || 'no group'} (${kinds[group[1]] ?? group[1]})` : objectLink(id, o),
        o ? ` ${kinds[o.kind] ?? o.kind}` : null, l.label ? `, ${l.label}` : null);
    });
    if (links.length > shownRelations) items.push(el('li', {}, `and ${links.length - shownRelations} more`));
    return [el('h3', {}, title), el('ul', {class: 'relations'}, ...items)];
  }

  function plan(id) {
    const p = store.plans.find((x) => x.service === id);
    return p ? [el('h3', {}, 'Plan'), planBody(p)] : null;
  }

  function entries(id) {
    const found = store.timeline.filter((e) => e.object === id);
    if (found.length === 0) return null;
    return [el('h3', {}, 'Events'), el('ul', {class: 'entries'}, ...found.slice(0, shownEntries).map((e) => el('li', {class: e.warning ? 'warning' : ''},
      time(e.at, store.at), ' ', el('strong', {}, (e.warning ? '! ' : '') + e.reason), e.count > 1 ? ` (${e.count} times)` : '', e.message ? ` ${e.message}` : '')))];
  }

  return {
    show(id) {
      const o = store.objects.get(id);
      panel.hidden = !id;
      if (!id) return;
      if (!o) {
        replace(panel, [id, null], () => [head(id), el('p', {}, 'This object is gone.')]);
        return;
      }
      const shown = {o, in: store.in.get(id), out: store.out.get(id), plan: store.plans.find((p) => p.service === id), events: store.timeline.filter((e) => e.object === id)};
      const focused = panel.contains(document.activeElement) && document.activeElement.dataset.focus;
      replace(panel, shown, () => [
        head(o.name),
        el('p', {}, badge(o.health), ` ${kinds[o.kind] ?? o.kind}`, o.group ? ` in ${o.group}` : ''),
        o.label ? el('p', {}, o.label) : null,
        o.why?.length ? [el('h3', {}, 'Why'), list(o.why, {class: 'why'})] : null,
        o.facts?.length ? [el('h3', {}, 'Facts'), el('dl', {}, ...o.facts.flatMap((f) => [el('dt', {}, f.name), el('dd', {}, f.value)]))] : null,
        plan(id),
        relations('Comes from', store.in.get(id), 'from'),
        relations('Leads to', store.out.get(id), 'to'),
        entries(id),
        o.commands?.length ? [el('h3', {}, 'In a terminal'), ...o.commands.map(command)] : null,
      ].flat(2));
      if (focused) panel.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
    },
    focus: () => panel.querySelector('h2')?.focus(),
  };

  function head(name) {
    return el('div', {class: 'head'}, el('h2', {id: 'details-heading', tabindex: '-1', 'data-focus': 'heading'}, name),
      el('button', {type: 'button', 'data-focus': 'close', onclick: close}, 'Close'));
  }

  function command(text, i) {
    return el('div', {class: 'command'}, el('code', {tabindex: '0'}, text),
      el('button', {type: 'button', 'data-focus': 'copy-' + i, 'aria-label': 'Copy: ' + text, onclick: () => copy(text)}, 'Copy'));
  }
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    announce('Copied');
  } catch {
    announce('The browser does not allow copying; select the text instead');
  }
}

// planBody shows what the controller would do for one Service.
export function planBody(p) {
  if (p.refusal) return el('div', {class: 'refusal'}, el('p', {}, badge('error'), ' ' + p.refusal), p.remedy ? el('p', {}, p.remedy) : null);
  return el('ul', {class: 'plan'}, ...(p.actions || []).map((a) => el('li', {class: {'+': 'adds', '-': 'removes'}[a.sign] ?? 'changes'},
    el('span', {class: 'sign', role: 'img', 'aria-label': {'+': 'add', '-': 'remove', '~': 'change'}[a.sign] ?? a.sign}, a.sign), ' ', a.label)));
}
