/* Cells of tables that lead elsewhere in this page. React escapes what they hold; only queries are followed. */
(function () {
  var components = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});
  var functions = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});

  function leads(value) {
    return typeof value === "string" && value.charAt(0) === "?";
  }

  function follow(value) {
    window.history.pushState({}, "", value);
    window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
    window.scrollTo(0, 0);
  }

  components.Go = function (props) {
    if (!leads(props.value)) return null;
    function clicked(event) {
      event.preventDefault();
      follow(props.value);
    }
    return React.createElement("a", { href: props.value, onClick: clicked, tabIndex: -1 }, props.title || "show");
  };

  /* The table's own keys move between cells; Enter on one that leads elsewhere goes there. */
  functions.tpuFollow = function (params) {
    if (params.event.key === "Enter" && params.colDef.cellRenderer === "Go" && leads(params.value)) {
      follow(params.value);
    }
    return null;
  };
})();
