// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// The simulator's side: faults to switch on, and the clock. csccm ui sends no faults, and has no such view.
import {announce, el, plural, rows, setAttribute, setText} from './dom.js';

// post asks the simulator for something, and throws why it did not do it.
export async function post(address, value) {
  const answer = await fetch(address, {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(value)});
  if (!answer.ok) throw new Error(answer.status === 404 ? 'not available here' : (await answer.text()).slice(0, 200) || answer.statusText);
}

export function createFaults(store) {
  const failed = el('p', {role: 'alert'});
  const groups = el('div', {class: 'groups'});
  const known = el('datalist', {id: 'commands'});
  const command = el('input', {type: 'text', name: 'command', list: 'commands', autocomplete: 'off', spellcheck: 'false', placeholder: 'all commands'});
  const speed = el('select', {name: 'speed'}, ...[['1', 'as in life'], ['0.5', 'half as fast'], ['0.1', 'ten times slower']].map(([value, text]) => el('option', {value}, text)));
  const clock = el('p', {class: 'tools'}, el('label', {}, 'Time passes ', speed));
  document.getElementById('faults').append(el('p', {}, 'Failures that the simulator plays until they are switched off.'), failed,
    el('p', {class: 'tools'}, el('label', {}, 'What is switched on next hits ', command), el('span', {}, 'a name, or a pattern such as list*'), known), groups, el('h3', {}, 'Clock'), clock);

  async function send(what, address, value) {
    setText(failed, '');
    try {
      await post(address, value);
      announce(what);
    } catch (error) {
      setText(failed, `${what}: ${error.message}`);
      draw();
    }
  }
  speed.addEventListener('change', () => send('Clock changed', 'api/clock', {speed: Number(speed.value)}));

  function draw() {
    document.getElementById('nav-faults').hidden = store.faults.length === 0;
    const names = [...new Set([...store.calls.map((c) => c.command), ...store.timeline.filter((e) => e.kind === 'call').map((e) => e.reason)])].sort();
    rows(known, names, {key: (n) => n, make: () => el('option'), fill: (o, n) => setAttribute(o, 'value', n)});
    rows(groups, [...Map.groupBy(store.faults, (f) => f.group ?? '')], {
      key: ([name]) => name,
      make: () => el('section', {}, el('h3'), el('ul', {class: 'faults'})),
      fill: (part, [name, list]) => {
        part.firstChild.hidden = name === '';
        setText(part.firstChild, name);
        rows(part.lastChild, list, {
          key: (f) => f.name,
          make: () => el('li', {}, el('button', {type: 'button', role: 'switch'}), el('span')),
          fill: (item, f) => {
            const [button] = item.children;
            setText(button, f.title || f.name);
            setAttribute(button, 'aria-checked', String(f.enabled));
            setText(item.lastChild, f.enabled ? ['on', f.command && `hits ${f.command}`, f.hits && `${plural(f.hits, 'hit')} so far`].filter(Boolean).join(', ') : 'off');
            button.onclick = () => send(`${f.title || f.name} ${f.enabled ? 'off' : 'on'}`, 'api/faults/' + encodeURIComponent(f.name), {enabled: !f.enabled, ...(!f.enabled && command.value ? {command: command.value} : {})});
          },
        });
      },
    });
    clock.hidden = !store.speed;
    // Another tab, or the simulator's own API, may have set a speed that the list lacks.
    const now = String(store.speed);
    if (store.speed && ![...speed.options].some((o) => o.value === now)) speed.append(el('option', {value: now}, `${now} times as fast`));
    speed.value = now;
  }
  return {draw, parts: ['faults', 'speed', 'calls']};
}
