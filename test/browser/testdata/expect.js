// What a page that shows a recorded state must show, on each screen.
const states = {
  healthy() {
    source('Kubernetes answered');
    source('CloudStack answered');
    source('Addresses 61 of 64');
    see('the controller', texts('#sources li').some((t) => /^Controller \S+, 2 of 2 ready, Pod …-\w{5} leads, lease \d+ s old$/.test(t)));
    see('no cause', texts('.cause').length === 0);
  },
  creating() { see('a Service that is being made', document.querySelector('.h-pending')); },
  'rule gone'() {
    cause('shop/web');
    cause('CloudStack differs from the Service');
  },
  'no leader'() {
    source('nobody leads for');
    cause('Nobody leads');
  },
  'VM gone'() {
    cause('w3');
    cause('no VM in CloudStack is this node');
    see('no Service blamed for it', !texts('.cause').some((t) => t.includes('Service')));
  },
  exhausted() {
    cause('8 Services');
    source('Addresses 64 of 64');
    cause('The limit of public addresses of account k8s is reached. Raise the limit');
    see('when they are tried again', /Next try \d\d:\d\d:\d\d\.$/.test(texts('.cause')[0]));
    see('one line for all of them', texts('.cause').length === 1);
  },
  'CloudStack fails'() {
    source('CloudStack fails, last answer');
    cause('530');
  },
  'CloudStack hangs'() {
    source('CloudStack fails, last answer');
    cause('did not answer within');
  },
  'API server gone'() {
    source('Kubernetes fails, last answer');
    source('leader unknown for');
    cause('did not answer within');
    see('nothing said of the leader', !texts('.cause').some((t) => t.includes('Nobody leads')));
  },
};

async function check(state, size) {
  states[state]();
  if (size === 'phone') {
    see('a card per Service', document.querySelectorAll('.card').length >= 60);
    see('how a Service is reached', texts('.card .way').some((t) => /^198\.18\.\d+\.\d+ → 443.* → (all 3|2 of 3|all 2|\d of \d) nodes$/.test(t)));
    see('no map', !document.getElementById('map-area').checkVisibility());
  } else {
    see('the groups of 6 namespaces', document.querySelectorAll('.column:first-of-type .box.group').length === 6);
    see('solid groups that have a ghost among others', [...document.querySelectorAll('.box.group')].every((b) => getComputedStyle(b).borderTopStyle === 'solid'));
    see('one bundle of rules', document.querySelectorAll('.knot text').length === 1);
    const stale = /CloudStack/.test(state) ? 'address' : /API/.test(state) ? 'service' : null;
    see('hatches on what is old alone', [...document.querySelectorAll('.box')].every((b) => !b.classList.contains('stale') || stale));
    see('hatches of all that is old', [...document.querySelectorAll('.box.stale')].every((b) => getComputedStyle(b).backgroundImage.includes('gradient')));
    if (stale) see(`hatched ${stale}es`, [...document.querySelectorAll(`.box[data-kind=${stale}]`)].every((b) => b.classList.contains('stale')));
  }
  if (size === 'wall') {
    const root = document.documentElement;
    see('letters for a wall', parseFloat(getComputedStyle(root).fontSize) > 24);
    see('the whole map', document.getElementById('map-canvas').getBoundingClientRect().bottom <= innerHeight);
    see('no controls', !document.getElementById('map-search').checkVisibility());
  }
  if (size === 'desk' && state !== 'creating') {
    // A Service alone, with what belongs to it.
    const store = (id) => { location.hash = '#map/' + encodeURIComponent(id); };
    const wrong = {'rule gone': 'service/shop/web', exhausted: 'service/media/events-2', 'VM gone': 'node/w3'}[state];
    if (wrong) {
      store(wrong);
      await until('why in its box', () => document.querySelector('.box.selected:is(.h-error, .h-warning) .label')?.textContent);
      see(`all words of ${cut()}`, cut().length === 0);
    }
    store('service/shop/api');
    await until('the chain of one Service', () => document.querySelector('#details h2')?.textContent === 'api');
    see('the chain of one Service', document.querySelectorAll('.box[data-kind=service]').length === 1 && document.querySelectorAll('.box[data-kind=address]').length === 1);
    see('its way in one line', /^198\.18\.\d+\.\d+ → 80, 443 → /.test(texts('#details .way')[0] ?? ''));
    if (state === 'VM gone') see('that a node is missing', /^2( of |\/)3$/.test(texts('.knot text')[0] ?? ''));
    see('all of it on the screen', [...document.querySelectorAll('.box')].every((b) => b.getBoundingClientRect().bottom < innerHeight));
    document.querySelector('#details .head button').click();
    await pause(200);
    see('all again', document.querySelectorAll('.column:first-of-type .box.group').length === 6);
    // The drawing is SVG without scripts, and has every box.
    let file = null;
    const create = URL.createObjectURL;
    URL.createObjectURL = (blob) => { file = blob; return create(blob); };
    HTMLAnchorElement.prototype.click = () => {};
    document.getElementById('map-save').click();
    const drawing = await file.text();
    see('a drawing', drawing.startsWith('<svg') && !/<script|onload|foreignObject|href=/.test(drawing));
    see('all boxes in the drawing', (drawing.match(/<g><title>/g) ?? []).length === document.querySelectorAll('.box').length);
    // The time line has lanes.
    location.hash = '#timeline';
    await until('lanes', () => texts('.lanes text').includes('Events'));
    const entries = texts('#timeline tbody tr');
    see('each entry once', new Set(entries).size === entries.length);
    // Kubernetes and CloudStack have the same addresses of each node that has a VM.
    location.hash = '#nodes';
    await until('the nodes', () => texts('#nodes tbody tr').length > 0);
    see('no address that differs, but of a VM that is gone', document.querySelectorAll('#nodes .differs').length === (state === 'VM gone' ? 1 : 0));
    // "Nothing to do" is said only where all Services are well.
    location.hash = '#plan';
    await until('the plans', () => texts('#plan p').length > 0);
    see('nothing to do where all is well alone', texts('#plan p').some((t) => t.startsWith('Nothing to do')) === (document.querySelectorAll('#plan section').length === 0));
    if (state === 'exhausted') see('one heading for the plans of all that wait for the limit', texts('#plan h3').join() === '8 Services' && texts('#plan .waiting > li').length === 8);
    location.hash = '#map';
    await pause(100);
  }
  return problems;
}
