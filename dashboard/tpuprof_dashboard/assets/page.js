/* What surrounds a page: its title, the run in its address, and the operating system's theme. */
(function () {
  var clientside = (window.dash_clientside = window.dash_clientside || {});
  var functions = (clientside.tpuprof = clientside.tpuprof || {});
  var dark = window.matchMedia("(prefers-color-scheme: dark)");

  functions.setTitle = function (title) {
    if (title) document.title = title;
    return clientside.no_update;
  };

  /* Puts a query into the address without a new entry in the history: "back" leads to the page before. */
  functions.goTo = function (search) {
    if (search && search !== window.location.search) {
      window.history.replaceState({}, "", search);
      window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
    }
    return clientside.no_update;
  };

  functions.osDark = function () {
    return dark.matches;
  };

  dark.addEventListener("change", function () {
    clientside.set_props("os-dark", { data: dark.matches });
  });
})();
