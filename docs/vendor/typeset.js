// Typesets the formulas of a page with the copy of KaTeX that stands beside this file.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const display = element.tagName === "DIV";
    const formula = element.textContent.trim().replace(/^\\[[(]|\\[\])]$/g, "");
    katex.render(formula, element, { displayMode: display, throwOnError: false });
  }
});
