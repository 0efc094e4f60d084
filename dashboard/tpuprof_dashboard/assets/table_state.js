/* Keeps a table's order, filters and page in the address, as `t.TABLE`; the server restores them from there. */
(function () {
  var functions = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});

  function stateOf(api) {
    var state = {};
    var sorted = api
      .getColumnState()
      .filter(function (column) {
        return column.sort;
      })
      .sort(function (one, other) {
        return one.sortIndex - other.sortIndex;
      })
      .map(function (column) {
        return [column.colId, column.sort];
      });
    var filters = api.getFilterModel();
    var page = api.paginationGetCurrentPage();
    if (sorted.length) state.s = sorted;
    if (filters && Object.keys(filters).length) state.f = filters;
    if (page > 0) state.p = page;
    return Object.keys(state).length ? JSON.stringify(state) : null;
  }

  functions.tpuKeep = function (params) {
    if (params.api.isDestroyed()) return null;
    var query = new URLSearchParams(window.location.search);
    var key = "t." + params.context.table;
    var state = stateOf(params.api);
    if (query.get(key) === state) return null;
    if (state === null) query.delete(key);
    else query.set(key, state);
    window.history.replaceState({}, "", "?" + query.toString());
    window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
    return null;
  };
})();
