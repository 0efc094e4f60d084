/* Opens a file of the user's: chosen with the button in the header, or dropped anywhere on the page. It goes to the
   dashboard as it is, a piece at a time. */
(function () {
  var own = window.tpuprof;
  var clientside = (window.dash_clientside = window.dash_clientside || {});

  function button() {
    return document.getElementById("upload");
  }

  function refused(text) {
    own.banner("upload", "Not opened: " + text, true);
  }

  function show(name) {
    own.banner("upload", null);
    var query = new URLSearchParams();
    var theme = new URLSearchParams(window.location.search).get("theme");
    if (theme) query.set("theme", theme);
    query.set("run", name);
    window.history.pushState({}, "", "?" + query.toString());
    window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
    clientside.set_props("uploaded", { data: name });
  }

  function send(file) {
    var most = Number(button().getAttribute("data-most"));
    if (file.size > most) {
      refused(
        file.name + " has " + Math.ceil(file.size / 1048576) + " MiB, and an upload may have " + most / 1048576 +
          ". Start the dashboard with its path: tpuprof dashboard PATH"
      );
      return;
    }
    own.banner("upload", "Uploading " + file.name + " …");
    window
      .fetch(button().getAttribute("data-to") + "?name=" + encodeURIComponent(file.name), { method: "POST", body: file })
      .then(function (response) {
        return response.json().then(
          function (said) {
            if (said.run) show(said.run);
            else refused(said.error || "the dashboard refused it.");
          },
          function () {
            refused("the dashboard refused it (status " + response.status + ").");
          }
        );
      })
      .catch(function () {
        refused("the connection ended. A folder cannot be uploaded; one file can.");
      });
  }

  function choose() {
    var input = document.createElement("input");
    input.type = "file";
    input.addEventListener("change", function () {
      if (input.files.length) send(input.files[0]);
    });
    input.click();
  }

  function holdsFiles(event) {
    return event.dataTransfer && Array.prototype.indexOf.call(event.dataTransfer.types, "Files") >= 0;
  }

  document.addEventListener("click", function (event) {
    if (event.target.closest && event.target.closest("#upload")) choose();
  });
  document.addEventListener("dragover", function (event) {
    if (holdsFiles(event)) event.preventDefault();
  });
  document.addEventListener("drop", function (event) {
    if (!holdsFiles(event) || !button()) return;
    event.preventDefault();
    if (event.dataTransfer.files.length) send(event.dataTransfer.files[0]);
  });
})();
