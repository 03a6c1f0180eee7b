// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// The details of one object.
import {chain, wayText} from './graph.js';
import {post} from './faults.js';
import {ago, announce, badge, el, inPlainWords, list, named, objectLink, replace, setText, time} from './dom.js';

const kinds = {
  service: 'Service', address: 'Address', rule: 'Load balancer rule', forward: 'Port forwarding rule',
  node: 'Node', vm: 'VM', network: 'Network',
};
const shownRelations = 50;
const shownEntries = 20;
const annotation = 'Annotation ';

// createDetails returns the panel; close and only are called by its buttons.
export function createDetails(store, close, only) {
  const panel = document.getElementById('details');
  let shownID = null;

  // age says that what is shown is old: its source does not answer.
  function age(o) {
    const source = store.sources.find((s) => s.state !== 'ok' && s.kinds.includes(o.kind));
    if (!source) return null;
    return el('p', {class: 'missing'}, `${source.name} does not answer. This is what was known ${source.answered ? ago(source.answered) + ' ago' : 'before'}.`);
  }

  function facts(title, list) {
    return list?.length ? [el('h3', {}, title), el('dl', {}, ...pairs(list))] : null;
  }

  const pairs = (list) => list.flatMap((f) => [el('dt', {}, f.name.replace(annotation, '')), el('dd', {}, ...value(f.value))]);

  // value is a fact as text; a moment with its age.
  const value = (text) => (/^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(text) ? [time(text, store.at), Date.parse(text) > Date.now() ? ` (in ${ago(Date.now(), Date.parse(text))})` : ` (${ago(text)} ago)`] : [text]);

  function annotations(o) {
    const list = o.facts?.filter((f) => f.name.startsWith(annotation));
    return list?.length ? el('details', {}, el('summary', {'data-focus': 'annotations'}, `Annotations (${list.length})`), el('dl', {}, ...pairs(list))) : null;
  }

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
    return p ? [el('h3', {}, 'Plan'), planBody(store, p)] : null;
  }

  function entries(id) {
    const found = store.timeline.filter((e) => e.object === id);
    if (found.length === 0) return null;
    return [el('h3', {}, 'Events'), el('ul', {class: 'entries'}, ...found.slice(0, shownEntries).map((e) => el('li', {class: e.warning ? 'warning' : ''},
      time(e.at, store.at), ' ', el('strong', {}, (e.warning ? '! ' : '') + e.reason), e.count > 1 ? ` (${e.count} times)` : '', e.message ? ` ${named(store, e.message)}` : '')))];
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
      const shown = {o, states: store.sources.map((s) => s.state), in: store.in.get(id), out: store.out.get(id), plan: store.plans.find((p) => p.service === id), events: store.timeline.filter((e) => e.object === id)};
      const [top, opened] = [panel.scrollTop, panel.querySelector('details')?.open];
      const focused = panel.contains(document.activeElement) && document.activeElement.dataset.focus;
      replace(panel, shown, () => [
        head(o.name),
        el('p', {}, badge(o.health), el('span', {class: 'kind', 'data-kind': o.kind}), ` ${kinds[o.kind] ?? o.kind}`, o.group ? ` in ${o.group}` : ''),
        o.kind === 'service' && wayText(chain(store, id)) ? el('p', {class: 'way'}, wayText(chain(store, id))) : o.label ? el('p', {}, o.label) : null,
        el('p', {class: 'acts'}, ['node', 'vm', 'network'].includes(o.kind) ? el('button', {type: 'button', 'data-focus': 'only', onclick: () => only(id)}, 'Show only what it serves') : null,
          el('button', {type: 'button', 'data-focus': 'link', onclick: (event) => copy(event.currentTarget, location.origin + location.pathname + '#map/' + encodeURIComponent(id))}, 'Copy link')),
        o.deeds?.length ? el('p', {class: 'acts'}, ...o.deeds.map((d) => deed(o, d))) : null,
        o.why?.length ? [el('h3', {}, 'Why'), list(o.why.map((w) => inPlainWords(w, '').filter(Boolean).join(' ')), {class: 'why'})] : null,
        age(o),
        facts('Facts', o.facts?.filter((f) => !f.name.startsWith(annotation))),
        plan(id),
        relations('Comes from', store.in.get(id), 'from'),
        relations('Leads to', store.out.get(id), 'to'),
        entries(id),
        annotations(o),
        o.commands?.length ? [el('h3', {}, 'In a terminal'), ...o.commands.map(command)] : null,
      ].flat(2));
      if (shownID === id) {
        panel.scrollTop = top;
        if (opened) panel.querySelector('details')?.setAttribute('open', '');
      } else panel.scrollTop = 0;
      shownID = id;
      if (focused) panel.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
    },
    focus: () => panel.querySelector('h2')?.focus(),
  };

  function head(name) {
    return el('div', {class: 'head'}, el('h2', {id: 'details-heading', tabindex: '-1', 'data-focus': 'heading'}, name),
      el('button', {type: 'button', 'data-focus': 'close', onclick: close}, 'Close'));
  }

  // deed is a button of the simulator's page, which does to the object what somebody else in the cloud might.
  function deed(o, d) {
    return el('button', {type: 'button', class: 'deed', 'data-focus': 'deed-' + d.name, onclick: async () => {
      try {
        await post('api/deeds/' + encodeURIComponent(d.name), {object: o.id});
        announce(`${d.title}: asked for`);
      } catch (error) {
        panel.querySelector('.acts').after(el('p', {role: 'alert'}, `${d.title}: ${error.message}`));
      }
    }}, d.title);
  }
}

// command is a line for a terminal, with a button that copies it.
function command(text, i) {
  return el('div', {class: 'command'}, el('code', {tabindex: '0'}, text),
    el('button', {type: 'button', 'data-focus': 'copy-' + i, 'aria-label': 'Copy: ' + text, onclick: (event) => copy(event.currentTarget, text)}, 'Copy'));
}

// showStory shows what the reader of a lesson is to see.
export function showStory(story) {
  const panel = document.getElementById('story');
  panel.hidden = !story;
  replace(panel, story, () => story && [
    el('h2', {id: 'story-heading'}, story.title), ...(story.text || []).map((text) => el('p', {}, text)),
    story.look?.length ? el('h3', {}, 'Seen') : null, story.look?.length ? el('ul', {class: 'seen'}, ...story.look.map((text) => el('li', {}, text))) : null,
    story.try?.length ? el('h3', {}, 'Try in a second terminal') : null, ...(story.try || []).map(command),
  ]);
}

async function copy(button, text) {
  const before = button.textContent;
  let said = 'Copied';
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    said = 'Select the text: the browser does not allow copying';
  }
  announce(said);
  setText(button, said);
  setTimeout(() => setText(button, before), 2000);
}

// planBody shows what the controller would do for one Service.
export function planBody(store, p) {
  if (p.refusal) return el('div', {class: 'refusal'}, el('p', {}, badge('error'), ' ' + p.refusal), p.remedy ? el('p', {}, p.remedy) : null);
  return el('ul', {class: 'plan'}, ...(p.actions || []).map((a) => el('li', {class: {'+': 'adds', '-': 'removes'}[a.sign] ?? 'changes'},
    el('span', {class: 'sign', role: 'img', 'aria-label': {'+': 'add', '-': 'remove', '~': 'change'}[a.sign] ?? a.sign}, a.sign), ' ', named(store, a.label))));
}
