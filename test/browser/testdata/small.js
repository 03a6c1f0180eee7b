// What made the page harder to use than it need be. It runs in the page of a sample.
async function check(size) {
  const get = (id) => document.getElementById(id);
  see('only the views that apply', JSON.stringify(texts('nav a').map((t) => t.replace(/\d+$/, ''))) === '["Map","Checks","Time line","Nodes"]');

  location.hash = '#nodes';
  await until('the nodes', () => !get('nodes').hidden);
  get('skip').click();
  await until('the skip link stays in the view', () => document.activeElement.id === 'view' && location.hash === '#nodes' && !get('nodes').hidden);
  const frame = document.querySelector('#nodes .table');
  see('no table wider than a phone', size !== 'phone' || frame.scrollWidth <= frame.clientWidth);

  location.hash = '#checks';
  await until('the checks', () => !get('checks').hidden);
  document.querySelector('#checks tbody td a').click();
  await until('a check leads to its object', () => document.querySelector('#details h2')?.textContent === 'node-0000');

  location.hash = '#map/' + encodeURIComponent('service/team-00/web-0001');
  await until('a Service', () => document.querySelector('#details h2')?.textContent === 'web-0001');
  const close = document.querySelector('#details .head button');
  see('“Close” in one line', close.getBoundingClientRect().height < 2.5 * parseFloat(getComputedStyle(close).fontSize));
  const copy = document.querySelector('#details .command button');
  copy.click();
  await until('that something was copied', () => /Copied|Select/.test(copy.textContent));
  await until('and the button again', () => copy.textContent === 'Copy');
  const link = document.querySelector('#details [data-focus=link]');
  link.click();
  await until('that a link was copied', () => /Copied|Select/.test(link.textContent));
  document.querySelector('#details .head button').click();

  const search = get('map-search');
  const seek = (text) => { search.value = text; search.dispatchEvent(new Event('input')); };
  seek('differs');
  await until('a search finds names, not words of messages', () => get('map-found').textContent.startsWith('0 of'));
  seek('web-0012');
  search.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true, cancelable: true}));
  await until('Enter opens what was found', () => document.querySelector('#details h2')?.textContent === 'web-0012');
  document.querySelector('#details .head button').click();
  seek('');
  await until('all objects again', () => /^\d+ objects$/.test(get('map-found').textContent));

  // The chapter of a lesson stands beside the map, which shows its two clusters apart.
  see('the chapter', texts('#story h2')[0] === '2. A Service' && texts('#story code')[0] === 'kubectl get nodes');
  if (size === 'desk') {
    see('both clusters', [...document.querySelectorAll('.sides li')].slice(0, 2).map((li) => li.textContent).join() === 'Cluster “team-00”,Cluster “pool-00”');
    const middle = document.querySelectorAll('.sides li')[1].getBoundingClientRect().top;
    const top = (kind) => [...document.querySelectorAll(`.box[data-kind=${kind}]`)].map((b) => b.getBoundingClientRect().top);
    see('one above the other', Math.max(...top('service')) < middle && Math.min(...top('node')) > middle);
  }

  // The lanes of the time line stop when they are read.
  location.hash = '#timeline';
  await until('the time line', () => texts('.lanes text').includes('Warnings'));
  const pauses = [...document.querySelectorAll('#timeline button')].find((b) => b.textContent === 'Pause');
  pauses.click();
  see('a pause', pauses.getAttribute('aria-pressed') === 'true' && pauses.textContent === 'Go on');

  // A browser has six connections for all tabs: one that nobody sees gives its own back, and one whose server has ended does not ask for ever.
  const opened = [];
  window.EventSource = class extends EventSource { constructor(url) { super(url); opened.push(this); } };
  const hide = (hidden) => {
    Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'));
  };
  hide(true);
  hide(false);
  see('a connection for a tab that is seen again', opened.length === 1);
  hide(true);
  see('none for a tab that nobody sees', opened[0]?.readyState === EventSource.CLOSED);
  hide(false);
  for (let i = 0; i <= 20; i++) opened.at(-1).onerror();
  see('the end of all tries', get('connection').textContent.includes('Is csccm ui still running?') && opened.at(-1).readyState === EventSource.CLOSED);
  get('connection').querySelector('button').click();
  await until('a connection after another try', () => get('connection').dataset.state === 'live');
  return problems;
}
