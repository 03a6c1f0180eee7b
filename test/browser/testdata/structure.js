// Where things are, not how they look: fonts differ between machines.
async function check(narrow) {
  const rect = (n) => (typeof n === 'string' ? document.querySelector(n) : n).getBoundingClientRect();
  const below = (upper, lower) => see(`${upper} above ${lower}`, rect(upper).bottom <= rect(lower).top + 1);
  below('header', 'main');
  below('#map .tools', '#legend');
  below('#legend', narrow ? '#map-cards' : '#map-area');
  const details = rect('#details');
  if (narrow) {
    see('the details at the bottom of the screen', details.left <= 1 && details.width >= innerWidth - 1 && details.top >= innerHeight * 0.3 && details.bottom <= innerHeight + 1);
    return problems;
  }
  see('the map beside the details', rect('#map-area').right <= details.left);
  // Columns from left to right; boxes of one column below each other, and within their column.
  const columns = [...document.querySelectorAll('.column')].filter((c) => c.checkVisibility());
  columns.forEach((c, i) => {
    see('column ' + c.innerText.split('\n')[0], i === 0 || rect(columns[i - 1]).right < rect(c).left);
    const boxes = [...c.querySelectorAll('.box')];
    boxes.forEach((b, j) => {
      see('no overlap at ' + b.innerText, j === 0 || rect(boxes[j - 1]).bottom < rect(b).top);
      see('within its column: ' + b.innerText, rect(b).left >= rect(c).left - 1 && rect(b).right <= rect(c).right + 1);
    });
  });
  const canvas = rect('#map-canvas');
  const lines = rect('#map-canvas svg g');
  see('links', lines.width > 0 && lines.bottom <= canvas.bottom + 1 && lines.right <= canvas.right + 1);
  return problems;
}
