// Sorts tables by the column that is pressed, filters long ones, copies text, and unfolds the tasks
// of a battery for print. Without scripts the page is the same.
for (const table of document.querySelectorAll('table')) {
  const body = table.tBodies[0];
  if (body.rows.length < 2) continue;
  const original = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement('button');
    button.append(...head.childNodes);
    head.append(button);
    button.title = 'sort';
    button.addEventListener('click', () => sort(head, column));
  });
  function sort(pressed, column) {
    const next = {none: 'ascending', ascending: 'descending', descending: 'none'};
    const order = next[pressed.getAttribute('aria-sort') || 'none'];
    for (const head of heads) head.removeAttribute('aria-sort');
    if (order != 'none') pressed.setAttribute('aria-sort', order);
    const rows = [...original];
    if (order != 'none') rows.sort((a, b) => compare(a.cells[column], b.cells[column], order));
    body.append(...rows);
  }
}
for (const table of document.querySelectorAll('table')) {
  if (table.tBodies[0].rows.length < 8) continue;
  const filter = document.createElement('input');
  filter.type = 'search';
  filter.placeholder = 'show rows with …';
  filter.addEventListener('input', () => {
    const wanted = filter.value.toLowerCase();
    for (const row of table.tBodies[0].rows)
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  table.parentElement.before(filter);
}
addEventListener('beforeprint', () => {
  for (const task of document.querySelectorAll('details.task')) task.open = true;
});
for (const block of document.querySelectorAll('pre.copied')) {
  const button = document.createElement('button');
  const text = block.textContent;
  button.textContent = 'copy';
  button.addEventListener('click', () => copy(text, block).then(
    () => { button.textContent = 'copied'; },
    () => { button.textContent = 'press Ctrl-C'; }));
  block.append(button);
}
async function copy(text, block) {
  try {
    await navigator.clipboard.writeText(text);
  } catch (refused) {  // a page from a file may not: the text is selected instead
    getSelection().selectAllChildren(block.firstElementChild);
    if (!document.execCommand('copy')) throw refused;
  }
}
function compare(a, b, order) {
  const sign = order == 'ascending' ? 1 : -1;
  if (!a.classList.contains('number') || !b.classList.contains('number'))
    return sign * a.textContent.localeCompare(b.textContent, 'en', {numeric: true});
  const [x, y] = [a, b].map(cell => parseFloat(cell.textContent.replace('−', '-')));
  if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y);  // what is not available stands last
  return sign * (x - y);
}
