/* Exports tables as CSV: numbers in full, and texts of the trace such that no spreadsheet takes one for a formula. */
(function () {
  var clientside = (window.dash_clientside = window.dash_clientside || {});
  var functions = (clientside.tpuprof = clientside.tpuprof || {});
  var NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

  /* A text that begins as a formula gets an apostrophe before it, as spreadsheets do themselves. */
  function harmless(text) {
    return /^[\s]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/.test(text) && !NUMBER.test(text) ? "'" + text : text;
  }

  function quoted(value) {
    if (value === null || value === undefined) return "";
    var text = typeof value === "number" ? String(value) : harmless(String(value));
    return /[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  }

  function valueOf(cell) {
    var number = cell.querySelector("[data-csv-value]");
    if (number) return number.getAttribute("data-csv-value");
    return (cell.innerText || cell.textContent || "").trim().replace(/\s+/g, " ");
  }

  /* Rows of a table in the page. A column of numbers has its unit in the heading, or beside it where rows differ. */
  function plainRows(held) {
    var rows = Array.prototype.map.call(held.querySelectorAll("tr"), function (row) {
      return Array.prototype.slice.call(row.children);
    });
    var units = rows.map(function (row) {
      return row.map(function (cell) {
        var number = cell.querySelector("[data-csv-unit]");
        return number ? number.getAttribute("data-csv-unit") : "";
      });
    });
    var found = (rows[0] || []).map(function (_, column) {
      var all = units.map(function (row) {
        return row[column];
      });
      return all.filter(function (unit, at) {
        return unit && all.indexOf(unit) === at;
      });
    });
    return rows.map(function (row, at) {
      var cells = [];
      row.forEach(function (cell, column) {
        var heading = at === 0 && cell.tagName === "TH";
        var own = found[column] || [];
        cells.push(valueOf(cell) + (heading && own.length === 1 ? " (" + own[0] + ")" : ""));
        if (own.length > 1) cells.push(heading ? valueOf(cell) + " unit" : units[at][column]);
      });
      return cells;
    });
  }

  function save(name, rows) {
    var text = rows
      .map(function (row) {
        return row.map(quoted).join(",");
      })
      .join("\n");
    var link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text + "\n"], { type: "text/csv;charset=utf-8" }));
    link.download = name;
    document.body.appendChild(link);
    link.click();
    link.remove();
    setTimeout(function () {
      URL.revokeObjectURL(link.href);
    }, 10000);
  }

  /* A grid: all rows that pass its filters, in its order. */
  functions.exportCsv = function (clicks, id) {
    if (!clicks) return clientside.no_update;
    var api = window.dash_ag_grid.getApi(id);
    var columns = api.getAllDisplayedColumns().filter(function (column) {
      return column.getColDef().cellRenderer !== "Go";
    });
    var rows = [
      columns.map(function (column) {
        return column.getColDef().headerName;
      }),
    ];
    api.forEachNodeAfterFilterAndSort(function (node) {
      rows.push(
        columns.map(function (column) {
          return node.data[column.getColDef().field];
        })
      );
    });
    save(id.table + ".csv", rows);
    return clicks;
  };

  document.addEventListener("click", function (event) {
    var button = event.target.closest && event.target.closest("[data-csv]");
    var held = button && document.getElementById("plain-" + button.getAttribute("data-csv"));
    if (!held) return;
    save(button.getAttribute("data-csv") + ".csv", plainRows(held));
  });
})();
