/* A trace may be dropped anywhere on the page: it is handed to the upload in the header, which would else be missed
   by a few pixels and the browser would leave the page for the file. */
(function () {
  function holdsFiles(event) {
    return event.dataTransfer && Array.prototype.indexOf.call(event.dataTransfer.types, "Files") >= 0;
  }

  document.addEventListener("dragover", function (event) {
    if (holdsFiles(event)) event.preventDefault();
  });

  document.addEventListener("drop", function (event) {
    var upload = document.getElementById("upload");
    if (!holdsFiles(event) || !upload || upload.contains(event.target)) return;
    event.preventDefault();
    var input = upload.querySelector("input[type=file]");
    input.files = event.dataTransfer.files;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  });
})();
