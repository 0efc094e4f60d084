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
    save(
      button.getAttribute("data-csv") + ".csv",
      Array.prototype.map.call(held.querySelectorAll("tr"), function (row) {
        return Array.prototype.map.call(row.children, valueOf);
      })
    );
  });
})();
