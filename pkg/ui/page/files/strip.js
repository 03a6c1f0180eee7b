// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// The strip below the title: each source with the age of its last answer, the controller, and what is wrong by cause.
import {ago, badge, el, healthClass, healthName, inPlainWords, named, plural, rows, setAttribute, setBadge, setText, severity, time} from './dom.js';

const get = (id) => document.getElementById(id);

// short is a leader's host name; of a Pod of a Deployment its own part, as the title has all of it.
const short = (leader) => leader.split('_')[0].replace(/^.*-[0-9a-f]{8,10}(-[a-z0-9]{5})$/, 'Pod …$1');

// createStrip draws the strip; filter shows the objects of a health on the map, search those of a text.
export function createStrip(store, {filter, only}) {
  const list = get('sources');

  // blind reports whether Kubernetes does not answer: its leases are as old as its last answer.
  const blind = () => store.sources.some((s) => s.name === 'Kubernetes' && s.state === 'failing');

  // nobodyLeads reports whether the controller has no leader that renews its lease in time.
  function nobodyLeads() {
    const c = store.controller;
    return Boolean(c) && !blind() && (!c.leader || c.leaseSeconds > 0 && (Date.now() - new Date(c.renewed).getTime()) / 1000 > c.leaseSeconds);
  }

  function items() {
    const out = store.sources.map((s) => ({
      key: s.name, state: s.state,
      text: s.state === 'ok' ? `answered ${ago(s.answered)} ago`
        : s.state === 'connecting' ? 'no answer yet' : `fails${s.answered ? `, last answer ${ago(s.answered)} ago` : ''}`,
      title: [s.reason, s.remedy].filter(Boolean).join('\n'),
    }));
    for (const s of store.sources.filter((x) => x.maxAddresses > 0)) {
      out.push({key: 'Addresses', state: s.addresses < s.maxAddresses ? 'ok' : 'failing', text: `${s.addresses} of ${s.maxAddresses}`, title: 'Public addresses that the account has, and may have'});
    }
    const c = store.controller;
    if (c) {
      const late = nobodyLeads();
      const leads = blind() ? `leader unknown for ${ago(c.renewed)}` : late ? `nobody leads${c.leader ? ` for ${ago(c.renewed)}` : ''}` : `${short(c.leader)} leads, lease ${ago(c.renewed)} old`;
      out.push({
        key: 'Controller', state: late ? 'failing' : blind() || c.replicas > c.ready ? 'connecting' : 'ok', title: c.leader || '',
        text: [c.version, c.replicas && `${c.ready} of ${c.replicas} ready`, leads].filter(Boolean).join(', '),
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
    rows(list, items(), {key: (i) => i.key, make: () => el('li', {}, el('strong'), ' ', el('span')), fill: (li, i) => {
      setAttribute(li, 'data-state', i.state);
      setAttribute(li, 'title', i.title || null);
      setText(li.firstChild, i.key);
      setText(li.lastChild, i.text);
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

  // causes names each reason once, with the number of the Services that it keeps from being served, and of the Nodes.
  function causes() {
    const found = new Map();
    const note = (o, text, remedy) => {
      [text, remedy] = inPlainWords(text, remedy);
      const key = `${o.kind}\n${o.health}\n${text}`;
      if (!found.has(key)) found.set(key, {key, kind: o.kind, health: o.health, text, remedy, ids: [], names: [], next: Infinity});
      const cause = found.get(key);
      cause.ids.push(o.id);
      cause.names.push(o.kind === 'node' ? o.name : `${o.group}/${o.name}`);
      const next = Date.parse(o.facts?.find((f) => f.name === 'Next try')?.value);
      if (next > Date.now()) cause.next = Math.min(cause.next, next);
    };
    const plans = new Map(store.plans.map((p) => [p.service, p]));
    for (const o of store.objects.values()) {
      if (!['service', 'node'].includes(o.kind) || !['error', 'warning'].includes(o.health)) continue;
      const p = plans.get(o.id);
      const next = p?.actions?.[0];
      note(o, p?.refusal || (o.kind === 'node' ? o.why?.slice(0, 2).join('; ') : o.why?.[0]) || healthName(o.health), p?.remedy || (next ? `Planned: ${next.sign} ${named(store, next.label)}` : ''));
    }
    // An outage is the first cause of all: what is shown is as old as its source's last answer.
    const down = store.sources.filter((s) => s.state === 'failing').map((s) => {
      const [text, remedy] = inPlainWords(s.reason || 'does not answer', s.remedy || '');
      return {
        key: 'source ' + s.name, health: 'error', names: [s.name], ids: [...store.objects.values()].filter((o) => s.kinds.includes(o.kind)).map((o) => o.id),
        text: `${text.replace(new RegExp(`^${s.name} `), '')}. What is hatched is as it was last read.`, remedy,
      };
    });
    soon = Math.min(Infinity, ...[...found.values()].map((c) => c.next));
    if (nobodyLeads()) down.push({key: 'leader', health: 'error', names: ['Controller'], ids: [], text: 'Nobody leads: what changes in the cluster reaches CloudStack when somebody does.', remedy: 'See the Pods of the controller and their logs.'});
    const list = [...found.values()].sort((a, b) => severity.indexOf(a.health) - severity.indexOf(b.health) || b.ids.length - a.ids.length);
    rows(get('causes'), [...down, ...list].slice(0, 6), {key: (c) => c.key, make: () => el('p', {class: 'cause'}, badge('ok'), ' ', el('button', {type: 'button'}), ' ', el('span'), ' ', el('span', {class: 'remedy'})), fill: (p, c) => {
      const [sign, button, text, remedy] = p.children;
      setAttribute(p, 'class', 'cause ' + healthClass(c.health));
      setBadge(sign, c.health);
      setText(button, c.names.length === 1 ? c.names[0] : plural(c.ids.length, c.kind === 'node' ? 'Node' : 'Service'));
      button.onclick = () => (c.ids.length ? only(c.ids) : location.assign('#timeline'));
      setText(text, c.text);
      setText(remedy, [c.remedy, c.next < Infinity ? `Next try ${time(c.next, store.at).textContent}.` : ''].filter(Boolean).join(' '));
    }});
  }

  let late = false;
  let soon = Infinity; // the next try that a cause names
  setInterval(() => {
    if (document.hidden) return;
    ages();
    if (late !== nobodyLeads() || soon < Date.now()) causes();
    late = nobodyLeads();
  }, 1000);
  return {draw, parts: ['objects', 'sources', 'controller', 'plans']};
}
