/* Lets a tick through when the last answer to its question has come: an answer that comes after the next question has
   been put is dropped, so a page that is made slowly would never be shown. */
(function () {
  var clientside = (window.dash_clientside = window.dash_clientside || {});
  var functions = (clientside.tpuprof = clientside.tpuprof || {});
  var original = window.fetch;
  var underway = [];
  // What the page needs to take an answer in, once all of it has come (ms).
  var TAKE_IN_MS = 200;

  function leave(body) {
    window.setTimeout(function () {
      var at = underway.indexOf(body);
      if (at >= 0) underway.splice(at, 1);
    }, TAKE_IN_MS);
  }

  window.fetch = function (target, options) {
    var waiting = original.call(window, target, options);
    var body = options && options.body;
    if (typeof body !== "string") return waiting;
    underway.push(body);
    waiting
      .then(function (response) {
        return response.clone().text();
      })
      .then(
        function () {
          leave(body);
        },
        function () {
          leave(body);
        }
      );
    return waiting;
  };

  functions.askAgain = function (_ticks, id) {
    var listens = '"id":' + JSON.stringify(id);
    var busy = underway.some(function (body) {
      return body.indexOf(listens) >= 0;
    });
    return busy ? clientside.no_update : Date.now();
  };
})();
