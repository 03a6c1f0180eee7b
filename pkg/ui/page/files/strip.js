// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// The strip below the title: each source with the age of its last answer, the controller, and what is wrong by cause.
import {ago, badge, el, healthName, plural, rows, setAttribute, setBadge, setText, severity} from './dom.js';

const get = (id) => document.getElementById(id);

// createStrip draws the strip; filter shows the objects of a health on the map, search those of a text.
export function createStrip(store, {filter, only}) {
  const list = get('sources');

  function items() {
    const out = store.sources.map((s) => ({
      key: s.name, state: s.state,
      text: s.state === 'ok' ? `${s.name}: answered ${ago(s.answered)} ago`
        : s.state === 'connecting' ? `${s.name}: no answer yet` : `${s.name} fails${s.answered ? `, last answer ${ago(s.answered)} ago` : ''}`,
      title: [s.reason, s.remedy].filter(Boolean).join('\n'),
    }));
    const c = store.controller;
    if (c) {
      const late = c.leader && c.leaseSeconds && (Date.now() - new Date(c.renewed).getTime()) / 1000 > c.leaseSeconds;
      const leads = !c.leader || late ? `nobody leads${c.leader ? ` since ${ago(c.renewed)}` : ''}` : `${c.leader.split('_')[0]} leads, lease renewed ${ago(c.renewed)} ago`;
      out.push({
        key: 'controller', state: !c.leader || late ? 'failing' : c.replicas > c.ready ? 'connecting' : 'ok', title: c.leader || '',
        text: `Controller: ${c.replicas ? `${c.ready} of ${c.replicas} ready, ` : ''}${leads}`,
      });
    }
    return out;
  }

  function draw() {
    ages();
    legend();
    causes();
  }

  // ages are drawn again each second.
  function ages() {
    rows(list, items(), {key: (i) => i.key, make: () => el('li'), fill: (li, i) => {
      setAttribute(li, 'data-state', i.state);
      setAttribute(li, 'title', i.title || null);
      setText(li, i.text);
    }});
  }

  function legend() {
    const counts = new Map();
    for (const o of store.objects.values()) counts.set(o.health, (counts.get(o.health) || 0) + 1);
    rows(get('legend'), severity.toReversed().filter((h) => counts.has(h)).map((h) => [h, counts.get(h)]), {
      key: ([h]) => h, make: () => el('li', {}, el('button', {type: 'button', 'aria-pressed': 'false'}, badge('ok'), ' ', el('span'))),
      fill: (li, [h, n]) => {
        const [button] = li.children;
        setBadge(button.firstChild, h);
        setText(button.lastChild, String(n));
        button.onclick = () => filter(button.getAttribute('aria-pressed') === 'true' ? '' : h);
        setAttribute(button, 'data-health-filter', h);
      },
    });
  }

  // causes names each reason once, with the number of the Services that it keeps from being served.
  function causes() {
    const found = new Map();
    const note = (o, text, remedy) => {
      const key = o.health + '\n' + text;
      if (!found.has(key)) found.set(key, {key, health: o.health, text, remedy, ids: [], names: []});
      found.get(key).ids.push(o.id);
      found.get(key).names.push(`${o.group}/${o.name}`);
    };
    const refused = new Map(store.plans.filter((p) => p.refusal).map((p) => [p.service, p]));
    for (const o of store.objects.values()) {
      if (o.kind !== 'service' || !['error', 'warning'].includes(o.health)) continue;
      const p = refused.get(o.id);
      note(o, p?.refusal || o.why?.[0] || healthName(o.health), p?.remedy || '');
    }
    const list = [...found.values()].sort((a, b) => severity.indexOf(a.health) - severity.indexOf(b.health) || b.ids.length - a.ids.length);
    rows(get('causes'), list.slice(0, 5), {key: (c) => c.key, make: () => el('p', {class: 'cause'}, badge('ok'), ' ', el('button', {type: 'button'}), ' ', el('span'), ' ', el('span', {class: 'remedy'})), fill: (p, c) => {
      const [sign, button, text, remedy] = p.children;
      setBadge(sign, c.health);
      setText(button, c.ids.length === 1 ? c.names[0] : plural(c.ids.length, 'Service'));
      button.onclick = () => only(c.ids);
      setText(text, c.text);
      setText(remedy, c.remedy);
    }});
  }

  setInterval(() => { if (!document.hidden) ages(); }, 1000);
  return {draw, parts: ['objects', 'sources', 'controller', 'plans']};
}
