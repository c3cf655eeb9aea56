(function () {
var root = document.documentElement;
root.className = "scripted";
try {
var theme = localStorage.getItem("npudiag-theme");
if (theme === "dark" || theme === "light") root.dataset.theme = theme;
} catch (e) { /* storage is off: follow the system */ }
})();
