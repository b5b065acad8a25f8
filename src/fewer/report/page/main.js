// Unpack the data and fill the sections.

// Fade the navigation where there is more of it than fits.
function watchNavigation(nav) {
  const look = () => {
    nav.classList.toggle("before", nav.scrollLeft > 4);
    nav.classList.toggle("more", nav.scrollLeft + nav.clientWidth < nav.scrollWidth - 4);
  };
  nav.addEventListener("scroll", look, { passive: true });
  window.addEventListener("resize", look);
  look();
}

async function main() {
  theme.start();
  watchNavigation(document.querySelector("nav"));
  const run = new Run(await unpack(document.getElementById("data").textContent));
  document.getElementById("data").remove();
  const explorerNode = document.getElementById("explorer");
  let explorer = null;
  if (run.value.sets.length) explorer = new Explorer(run, explorerNode);
  else replace(explorerNode, empty("This run keeps no N-best lists, so there is nothing to rank anew."));
  showChanges(run, document.getElementById("changer"), explorer);
  showGallery(run, document.getElementById("gallery"), explorer);
  showPerplexities(run, document.getElementById("scatter"));
  showCurves(run, document.getElementById("curves"));
  showAttention(run, document.getElementById("attender"));
  document.documentElement.dataset.ready = "yes";
}

main().catch((error) => {
  console.error(error);
  for (const node of document.querySelectorAll(".pending")) {
    replace(node, empty("This part needs a newer browser (Chrome 123, Firefox 120, Safari 17.5 or later)."));
  }
  document.documentElement.dataset.ready = "failed";
});
