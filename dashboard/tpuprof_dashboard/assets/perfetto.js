/* Hands the timeline's events to the Perfetto UI in a tab that the user opened, as Perfetto's documentation of deep
   links describes: ask until it answers, then post. The events travel from tab to tab and are not uploaded. */
(function () {
  var SITE = "https://ui.perfetto.dev";
  var ASK_EVERY_MS = 100;
  var ASK_FOR_MS = 60000;
  var tab = null;

  function bytesOf(text) {
    return Uint8Array.from(atob(text), function (letter) {
      return letter.charCodeAt(0);
    });
  }

  function post(buffer) {
    var to = tab;
    var asking = setInterval(function () {
      to.postMessage("PING", SITE);
    }, ASK_EVERY_MS);
    function stop() {
      clearInterval(asking);
      window.removeEventListener("message", heard);
    }
    function heard(event) {
      if (event.origin !== SITE || event.source !== to || event.data !== "PONG") return;
      stop();
      to.postMessage({ perfetto: { buffer: buffer, title: "tpuprof" } }, SITE, [buffer]);
    }
    window.addEventListener("message", heard);
    setTimeout(stop, ASK_FOR_MS);
  }

  var clientside = (window.dash_clientside = window.dash_clientside || {});
  var functions = (clientside.tpuprof = clientside.tpuprof || {});
  functions.askPerfetto = function (clicks) {
    if (!clicks) return clientside.no_update;
    tab = window.open(SITE);
    return tab ? clicks : clientside.no_update;
  };
  functions.handToPerfetto = function (data) {
    if (!data || !tab) return clientside.no_update;
    var plain = new Blob([bytesOf(data)]).stream().pipeThrough(new DecompressionStream("gzip"));
    new Response(plain).arrayBuffer().then(post);
    return "yes";
  };
})();
