// Light or dark: as the system has it, until the button says otherwise.

const darkSystem = matchMedia("(prefers-color-scheme: dark)");

function show() {
  document.documentElement.dataset.theme = localStorage.getItem("theme") ?? (darkSystem.matches ? "dark" : "light");
}

export function followTheme(button) {
  darkSystem.addEventListener("change", show);
  button.addEventListener("click", () => {
    localStorage.setItem("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    show();
  });
  show();
}
