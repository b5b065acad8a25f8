// Written for any browser: says so where the page's own script cannot even be read, which would leave "loading…" forever.
window.addEventListener("error", function () {
  var nodes = document.querySelectorAll(".pending");
  for (var i = 0; i < nodes.length; i++) {
    nodes[i].textContent = "This part needs a newer browser (Chrome 123, Firefox 120, Safari 17.5 or later).";
  }
});
