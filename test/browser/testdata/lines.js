// Lines are straight where they pass a column.
async function check() {
  const canvas = document.getElementById('map-canvas').getBoundingClientRect();
  const boxes = [...document.querySelectorAll('.box')].map((b) => ({id: b.dataset.id, r: b.getBoundingClientRect()}));
  for (const path of document.querySelectorAll('#map-canvas g path')) {
    for (const m of path.getAttribute('d').matchAll(/L([\d.]+),([\d.]+)/g)) {
      const [x, y] = [canvas.left + Number(m[1]) - 5, canvas.top + Number(m[2])];
      for (const {id, r} of boxes) see('no line behind ' + id, !(x > r.left && x < r.right && y > r.top && y < r.bottom));
    }
  }
  return problems;
}
