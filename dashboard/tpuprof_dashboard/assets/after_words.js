/* Hands a chart to the page once its words have been painted: the first chart of a browser loads and runs megabytes
   of script, which holds up all painting for about a second. */
(function () {
  var clientside = (window.dash_clientside = window.dash_clientside || {});
  var functions = (clientside.tpuprof = clientside.tpuprof || {});
  functions.wordsFirst = function (chart) {
    // A frame is painted after its callbacks have run, so the second one begins when the first has been painted. A tab
    // in the background paints none: a timer stands in.
    return new Promise(function (resolve) {
      function draw() {
        resolve(chart);
      }
      window.setTimeout(draw, 500);
      window.requestAnimationFrame(function () {
        window.requestAnimationFrame(draw);
      });
    });
  };
})();
