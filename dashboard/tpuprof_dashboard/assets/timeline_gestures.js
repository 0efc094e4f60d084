/* Moves the timeline as trace viewers do: W and S zoom, A and D go to a side, Ctrl and the wheel zoom at the pointer.
   Browsers report a pinch on a touchpad as Ctrl and the wheel, so it zooms too. The wheel alone scrolls the page. */
(function () {
  var BUTTONS = { w: "move-in", s: "move-out", a: "move-left", d: "move-right" };
  // How much one unit of the wheel zooms (a notch of a usual mouse is 100 or 120), and how long a gesture may pause (ms)
  // before the server is asked for the window's detail.
  var ZOOM_PER_UNIT = 0.002;
  var PAUSE_MS = 150;
  var wanted = null;
  var timer = null;

  function chart() {
    return document.querySelector("#timeline .js-plotly-plot");
  }

  function types(element) {
    return element && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName));
  }

  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.altKey || event.metaKey || types(event.target) || !chart()) return;
    var button = document.getElementById(BUTTONS[event.key.toLowerCase()] || "");
    if (!button) return;
    event.preventDefault();
    button.click();
  });

  function apply() {
    var plot = chart();
    timer = null;
    if (plot && wanted) window.Plotly.relayout(plot, { "xaxis.range[0]": wanted[0], "xaxis.range[1]": wanted[1] });
    wanted = null;
  }

  function zoom(event) {
    var plot = chart();
    if (!event.ctrlKey || !plot || !plot.contains(event.target) || !window.Plotly) return;
    event.preventDefault();
    var axis = plot._fullLayout.xaxis;
    var range = wanted || axis.range;
    var left = plot.getBoundingClientRect().left + axis._offset;
    var share = Math.min(Math.max((event.clientX - left) / axis._length, 0), 1);
    var at = range[0] + share * (range[1] - range[0]);
    var factor = Math.exp(event.deltaY * ZOOM_PER_UNIT);
    wanted = [Math.max(at - (at - range[0]) * factor, 0), at + (range[1] - at) * factor];
    clearTimeout(timer);
    timer = setTimeout(apply, PAUSE_MS);
  }

  document.addEventListener("wheel", zoom, { passive: false, capture: true });
})();
