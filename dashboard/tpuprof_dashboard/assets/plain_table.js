/* Exports a table of the page as CSV: what its cells say, a row a line. */
(function () {
  function quoted(cell) {
    var text = (cell.innerText || cell.textContent || "").trim().replace(/\s+/g, " ");
    return /[",]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  }

  function save(name, text) {
    var link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
    link.download = name;
    document.body.appendChild(link);
    link.click();
    link.remove();
    setTimeout(function () {
      URL.revokeObjectURL(link.href);
    }, 10000);
  }

  document.addEventListener("click", function (event) {
    var button = event.target.closest && event.target.closest("[data-csv]");
    var held = button && document.getElementById("plain-" + button.getAttribute("data-csv"));
    if (!held) {
      return;
    }
    var rows = Array.prototype.map.call(held.querySelectorAll("tr"), function (row) {
      return Array.prototype.map.call(row.children, quoted).join(",");
    });
    save(button.getAttribute("data-csv") + ".csv", rows.join("\n") + "\n");
  });
})();
