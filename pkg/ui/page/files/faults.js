// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// The simulator's side: faults to switch on, and the clock. csccm ui sends no faults, and has no such view.
import {announce, el, rows, setAttribute, setText} from './dom.js';

async function post(address, value) {
  const answer = await fetch(address, {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(value)});
  if (!answer.ok) throw new Error(answer.status === 404 ? 'not available here' : (await answer.text()).slice(0, 200) || answer.statusText);
}

export function createFaults(store) {
  const failed = el('p', {role: 'alert'});
  const switches = el('ul', {class: 'faults'});
  const speed = el('select', {name: 'speed'}, ...[['1', 'as in life'], ['0.5', 'half as fast'], ['0.1', 'ten times slower']].map(([value, text]) => el('option', {value}, text)));
  const clock = el('p', {class: 'tools'}, el('label', {}, 'Time passes ', speed));
  document.getElementById('faults').append(el('p', {}, 'Failures that the simulator plays until they are switched off.'), failed, switches, el('h3', {}, 'Clock'), clock);

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
    rows(switches, store.faults, {
      key: (f) => f.name,
      make: () => el('li', {}, el('button', {type: 'button', role: 'switch'}), el('span')),
      fill: (item, f) => {
        const [button] = item.children;
        setText(button, f.title || f.name);
        setAttribute(button, 'aria-checked', String(f.enabled));
        setText(item.lastChild, f.enabled ? 'on' : 'off');
        button.onclick = () => send(`${f.title || f.name} ${f.enabled ? 'off' : 'on'}`, 'api/faults/' + encodeURIComponent(f.name), {enabled: !f.enabled});
      },
    });
    clock.hidden = !store.speed;
    // Another tab, or the simulator's own API, may have set a speed that the list lacks.
    const now = String(store.speed);
    if (store.speed && ![...speed.options].some((o) => o.value === now)) speed.append(el('option', {value: now}, `${now} times as fast`));
    speed.value = now;
  }
  return {draw, parts: ['faults', 'speed']};
}
