/* Says when the dashboard no longer answers, no longer knows this page's token, was restarted, or failed. */
(function () {
  var own = window.tpuprof;
  var ASK_EVERY_MS = 5000;
  var original = window.fetch;
  var instance = null;

  function isOwn(target) {
    var address = typeof target === "string" ? target : target.url;
    return new URL(address, window.location.href).origin === window.location.origin;
  }

  function answered(response) {
    own.banner("lost", null);
    if (response.status === 401 || response.status === 403) {
      own.banner(
        "token",
        "This page may no longer ask the dashboard. Open the address that tpuprof dashboard printed when it started."
      );
    } else {
      own.banner("token", null);
    }
    if (response.status >= 500) {
      own.banner("failed", "The dashboard failed to answer. Reload the page; its terminal says what went wrong.", true);
    }
  }

  function lost() {
    own.banner(
      "lost",
      "The dashboard does not answer: it has ended, or the connection is gone. " +
        "Start it again with tpuprof dashboard; this page goes on when it answers."
    );
  }

  window.fetch = function (target, options) {
    var asked = original.call(window, target, options);
    if (!isOwn(target)) return asked;
    return asked.then(
      function (response) {
        answered(response);
        return response;
      },
      function (error) {
        if (!error || error.name !== "AbortError") lost();
        throw error;
      }
    );
  };

  function ask() {
    var held = document.getElementById("themed");
    if (!held || document.hidden) return;
    window
      .fetch(held.getAttribute("data-alive"), { cache: "no-store" })
      .then(function (response) {
        return response.ok ? response.json() : {};
      })
      .then(
        function (said) {
          if (instance && said.instance && said.instance !== instance) {
            own.banner("restarted", "The dashboard was restarted. Reload the page to see its runs.");
          }
          instance = instance || said.instance;
        },
        function () {}
      );
  }

  window.setInterval(ask, ASK_EVERY_MS);
  document.addEventListener("visibilitychange", ask);
  window.addEventListener("offline", lost);
  window.addEventListener("online", ask);
})();
