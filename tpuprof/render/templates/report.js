/* Sorts and filters the tables of a report. It asks nothing of any server, and the report reads as well without it. */
(function () {
  "use strict";
  var FILTER_FROM_ROWS = 9;

  /* A number where the cell has one, else its text; null where the value is unknown. */
  function valueOf(cell) {
    if (!cell) return null;
    var number = cell.getAttribute("data-v");
    if (number !== null) return Number(number);
    return cell.classList.contains("n") ? null : cell.textContent.trim().toLowerCase();
  }

  function compare(one, other, down) {
    if (one === other) return 0;
    if (one === null || other === null) return one === null ? 1 : -1;
    return (one < other ? -1 : 1) * (down ? -1 : 1);
  }

  function sort(table, column, way) {
    var body = table.tBodies[0];
    var rows = Array.prototype.slice.call(body.rows);
    rows.sort(function (one, other) {
      var order = way === "none" ? 0 : compare(valueOf(one.cells[column]), valueOf(other.cells[column]), way === "descending");
      return order || Number(one.getAttribute("data-at")) - Number(other.getAttribute("data-at"));
    });
    rows.forEach(function (row) {
      body.appendChild(row);
    });
  }

  /* Numbers begin with the largest, names with the first; a third click gives the report's own order. */
  function next(heading) {
    var first = heading.classList.contains("n") ? "descending" : "ascending";
    var second = first === "descending" ? "ascending" : "descending";
    var now = heading.getAttribute("aria-sort");
    return now === first ? second : now === second ? "none" : first;
  }

  function makeSortable(table) {
    Array.prototype.forEach.call(table.tBodies[0].rows, function (row, at) {
      row.setAttribute("data-at", String(at));
    });
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (heading, column) {
      if (heading.tagName !== "TH") return;
      var button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.textContent = heading.textContent;
      heading.textContent = "";
      heading.appendChild(button);
      button.addEventListener("click", function () {
        var way = next(heading);
        Array.prototype.forEach.call(table.tHead.rows[0].cells, function (each) {
          each.removeAttribute("aria-sort");
        });
        if (way !== "none") heading.setAttribute("aria-sort", way);
        sort(table, column, way);
      });
    });
  }

  function makeFiltered(table, name) {
    var rows = Array.prototype.slice.call(table.tBodies[0].rows);
    var bar = document.createElement("div");
    var input = document.createElement("input");
    var count = document.createElement("span");
    bar.className = "filter";
    input.type = "search";
    input.placeholder = "Filter rows";
    input.setAttribute("aria-label", "Filter rows: " + name);
    count.setAttribute("role", "status");
    input.addEventListener("input", function () {
      var words = input.value.toLowerCase().split(/\s+/);
      var left = 0;
      rows.forEach(function (row) {
        var text = row.textContent.toLowerCase();
        row.hidden = !words.every(function (word) {
          return text.indexOf(word) >= 0;
        });
        left += row.hidden ? 0 : 1;
      });
      count.textContent = input.value ? left + " of " + rows.length + " rows" : "";
    });
    bar.appendChild(input);
    bar.appendChild(count);
    var held = table.parentNode;
    held.parentNode.insertBefore(bar, held);
  }

  Array.prototype.forEach.call(document.querySelectorAll(".scroll > table"), function (table) {
    if (!table.tHead || table.tBodies[0].rows.length < 2) return;
    makeSortable(table);
    if (table.tBodies[0].rows.length >= FILTER_FROM_ROWS) {
      makeFiltered(table, table.parentNode.getAttribute("aria-label") || "");
    }
  });
})();
