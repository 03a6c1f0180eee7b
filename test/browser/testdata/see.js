// Helpers of what is looked for in a page; the scripts beside this one run in the page after it.
const problems = [];
const see = (what, ok) => { if (!ok) problems.push(`not seen: ${what}`); };
const texts = (selector) => [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility()).map((e) => (e.innerText ?? e.textContent).replace(/\s+/g, ' ').trim());
const cause = (part) => see(`the cause ${part}`, texts('.cause').some((t) => t.includes(part)));
const source = (part) => see(`${part} on the strip`, texts('#sources li').some((t) => t.includes(part)));
// cut names the boxes whose words do not fit.
const cut = () => [...document.querySelectorAll('.box :is(.name, .label)')].filter((n) => n.scrollWidth > n.clientWidth + 1 || n.scrollHeight > n.clientHeight + 1).map((n) => n.textContent);
const until = async (what, holds) => {
  for (let i = 0; i < 500; i++) {
    if (holds()) return;
    await pause(20);
  }
  see(what, false);
};
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

