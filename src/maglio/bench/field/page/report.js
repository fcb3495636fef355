// Tables are sorted by the button in a heading: first descending where there are numbers, then the
// other way round. Rows without a number stay last.

"use strict";

for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  table.tHead.addEventListener("click", (event) => {
    const heading = event.target.closest("th");
    if (!event.target.closest("button") || !heading) return;
    const isNumber = heading.classList.contains("number");
    const before = heading.getAttribute("aria-sort");
    const first = isNumber ? "descending" : "ascending";
    const other = isNumber ? "ascending" : "descending";
    const order = before === first ? other : first;
    for (const each of heading.parentNode.children) each.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const rows = [...body.rows].map((row) => ({ row, cell: row.cells[heading.cellIndex] }));
    rows.sort((a, b) => (isNumber ? byNumber(a.cell, b.cell, sign) : sign * byText(a.cell, b.cell)));
    body.append(...rows.map(({ row }) => row));
  });
}

function byNumber(a, b, sign) {
  const [left, right] = [a, b].map((cell) => parseFloat(cell.dataset.number));
  if (Number.isNaN(left) || Number.isNaN(right)) return Number.isNaN(left) - Number.isNaN(right);
  return sign * (left - right);
}

function byText(a, b) {
  return a.textContent.localeCompare(b.textContent, "en", { numeric: true });
}
