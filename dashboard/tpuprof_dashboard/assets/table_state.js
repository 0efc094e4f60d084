/* Keeps a table's order, filters and page in the address, as `t.TABLE`, and restores them from there. */
(function () {
  /* Tables whose state has been restored: what they say before that is not what anybody chose. */
  var restored = new WeakSet();
  var functions = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});

  function key(api) {
    return "t." + api.getGridOption("context").table;
  }

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
    if (!restored.has(params.api) || params.api.isDestroyed()) return null;
    var query = new URLSearchParams(window.location.search);
    var state = stateOf(params.api);
    if (query.get(key(params.api)) === state) return null;
    if (state === null) query.delete(key(params.api));
    else query.set(key(params.api), state);
    window.history.replaceState({}, "", "?" + query.toString());
    window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
    return null;
  };

  function restore(api) {
    var state;
    if (restored.has(api)) return;
    try {
      state = JSON.parse(new URLSearchParams(window.location.search).get(key(api)) || "null");
    } catch (error) {
      state = null; /* no address of ours */
    }
    state = state && typeof state === "object" ? state : {};
    if (Array.isArray(state.s)) {
      api.applyColumnState({
        state: state.s.map(function (each, place) {
          return { colId: String(each[0]), sort: each[1] === "asc" ? "asc" : "desc", sortIndex: place };
        }),
        defaultState: { sort: null },
      });
    }
    if (state.f && typeof state.f === "object") api.setFilterModel(state.f);
    if (Number.isInteger(state.p)) api.paginationGoToPage(state.p);
    restored.add(api);
  }

  var clientside = (window.dash_clientside = window.dash_clientside || {});
  clientside.tpuprofTables = {
    /* Called with the ids of the page's tables whenever they change. */
    restore: function (ids) {
      ids.forEach(function (id) {
        window.dash_ag_grid.getApiAsync(id).then(restore, function () {
          /* the page was left before the table stood */
        });
      });
      return window.dash_clientside.no_update;
    },
  };
})();
