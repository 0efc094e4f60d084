/* Messages that stand until they are no longer true or are closed: no answer, a token that no longer opens, an upload
   that was refused. They are made here, because the server cannot say that it is gone. */
(function () {
  var own = (window.tpuprof = window.tpuprof || {});

  function region() {
    var held = document.getElementById("tpu-banners");
    if (held) return held;
    held = document.createElement("section");
    held.id = "tpu-banners";
    held.setAttribute("aria-label", "Messages");
    document.body.appendChild(held);
    return held;
  }

  function closeButton(key) {
    var close = document.createElement("button");
    close.type = "button";
    close.textContent = "Close";
    close.addEventListener("click", function () {
      own.banner(key, null);
    });
    return close;
  }

  /* Shows one message for each `key`; a null text takes it away. What is shown already is changed in place. */
  own.banner = function (key, text, closable) {
    var id = "tpu-banner-" + key;
    var shown = document.getElementById(id);
    if (!text) {
      if (shown) shown.remove();
      return;
    }
    if (!shown) {
      shown = document.createElement("div");
      shown.id = id;
      shown.className = "tpu-banner";
      shown.setAttribute("role", "alert");
      shown.appendChild(document.createElement("span"));
      region().appendChild(shown);
    }
    var button = shown.querySelector("button");
    if (closable && !button) shown.appendChild(closeButton(key));
    if (!closable && button) button.remove();
    if (shown.firstChild.textContent !== text) shown.firstChild.textContent = text;
  };
})();
