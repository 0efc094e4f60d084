/* Cells of tables that lead elsewhere in this page. React escapes what they hold; only queries are followed. */
var dagcomponentfuncs = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});

dagcomponentfuncs.Go = function (props) {
  var value = props.value;
  if (typeof value !== "string" || value.charAt(0) !== "?") {
    return null;
  }
  function follow(event) {
    event.preventDefault();
    window.history.pushState({}, "", value);
    window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
    window.scrollTo(0, 0);
  }
  return React.createElement("a", { href: value, onClick: follow }, props.title || "show");
};
