"use strict";
/* Sorting and filtering of tables; the state is in the address (#sort=gpu_days&down=1&filter=isf), so that
   it can be sent and comes back. Without this script every table is still whole. */
(function () {
  var table = document.getElementById("runs");
  if (!table) return;
  var body = table.tBodies[0], heads = table.tHead.rows[0].cells;
  var filter = document.getElementById("filter"), shown = document.getElementById("shown");
  var state = { sort: "", down: "", filter: "" };
  location.hash.slice(1).split("&").forEach(function (pair) {
    var cut = pair.indexOf("=");
    if (cut > 0) state[pair.slice(0, cut)] = decodeURIComponent(pair.slice(cut + 1));
  });
  if (state.theme) document.documentElement.setAttribute("data-theme", state.theme);

  function value(row, column) {
    var cell = row.cells[column], number = cell.getAttribute("data-v");
    return number === null ? cell.textContent.trim().toLowerCase() : number === "" ? Infinity : +number;
  }
  function apply() {
    var rows = Array.prototype.slice.call(body.rows), words = state.filter.toLowerCase().split(/\s+/);
    for (var c = 0; c < heads.length; c++) {
      heads[c].removeAttribute("aria-sort");
      if (heads[c].getAttribute("data-key") !== state.sort) continue;
      heads[c].setAttribute("aria-sort", state.down ? "descending" : "ascending");
      var column = c, sign = state.down ? -1 : 1;
      rows.sort(function (a, b) {
        var x = value(a, column), y = value(b, column);
        return x < y ? -sign : x > y ? sign : 0;
      });
    }
    var count = 0;
    rows.forEach(function (row) {
      var text = row.textContent.toLowerCase();
      row.hidden = !words.every(function (word) { return text.indexOf(word) >= 0; });
      if (!row.hidden) count++;
      body.appendChild(row);
    });
    shown.textContent = count + " of " + rows.length + " runs";
    var parts = [];
    for (var key in state) if (state[key]) parts.push(key + "=" + encodeURIComponent(state[key]));
    try { history.replaceState(null, "", parts.length ? "#" + parts.join("&") : location.pathname); } catch (e) {}
  }
  for (var c = 0; c < heads.length; c++) heads[c].querySelector("button").addEventListener("click", function () {
    var key = this.parentNode.getAttribute("data-key");
    state.down = state.sort === key && !state.down ? "1" : "";
    state.sort = key;
    apply();
  });
  filter.value = state.filter;
  filter.addEventListener("input", function () { state.filter = this.value; apply(); });
  apply();
})();
