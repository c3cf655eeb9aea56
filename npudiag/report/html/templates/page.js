(function () {
"use strict";
var root = document.documentElement;
var said = document.getElementById("said");
var all = function (selector) { return Array.prototype.slice.call(document.querySelectorAll(selector)); };
var on = function (id, event, action) {
var element = document.getElementById(id);
if (element) element.addEventListener(event, action);
return element;
};

function dark() {
return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
on("theme", "click", function () {
root.dataset.theme = dark() ? "light" : "dark";
try { localStorage.setItem("npudiag-theme", root.dataset.theme); } catch (e) { /* not kept */ }
});

on("lang", "click", function () {
root.lang = root.lang === "zh" ? "en" : "zh";
document.title = document.querySelector("title").dataset[root.lang];
name();
});

var copiers = all("button.copy").filter(function (button) {
var source = button.parentNode.querySelector("code, pre");
if (!source) { button.remove(); return false; }
button.addEventListener("click", function () {
copy(source.innerText.replace(/\n$/, "")).then(function () {
button.classList.add("done");
said.textContent = said.dataset[root.lang === "zh" ? "copiedZh" : "copiedEn"];
setTimeout(function () { button.classList.remove("done"); said.textContent = ""; }, 1600);
});
});
return true;
});
function name() {
var verb = said.dataset[root.lang === "zh" ? "copyZh" : "copyEn"];
copiers.forEach(function (button) {
var source = button.parentNode.querySelector("code, pre");
button.setAttribute("aria-label", verb + " " + source.textContent.slice(0, 80));
});
}
name();
function copy(text) {
if (navigator.clipboard && window.isSecureContext) {
return navigator.clipboard.writeText(text).catch(function () { return copyOld(text); });
}
return copyOld(text);
}
function copyOld(text) {
var area = document.createElement("textarea");
area.value = text;
area.className = "vh";
document.body.appendChild(area);
area.select();
document.execCommand("copy");
area.remove();
return Promise.resolve();
}

on("save", "click", function () {
var island = document.getElementById("result");
var text = Promise.resolve(island.textContent);
if (island.type === "text/plain") {
var bytes = Uint8Array.from(atob(island.textContent), function (c) { return c.charCodeAt(0); });
text = new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}
text.then(function (json) {
var link = document.createElement("a");
link.href = URL.createObjectURL(new Blob([JSON.stringify(JSON.parse(json), null, 1) + "\n"], {type: "application/json"}));
link.download = "result.json";
link.click();
setTimeout(function () { URL.revokeObjectURL(link.href); }, 1000);
});
});

function reveal(element) {
for (var e = element; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
}
function follow() {
var id = decodeURIComponent(location.hash.slice(1));
if (id.indexOf("q=") === 0) { search(id.slice(2)); return; }
var element = id && document.getElementById(id);
if (element) { reveal(element); element.scrollIntoView(); }
}
addEventListener("hashchange", follow);

var findings = all("details.finding");
var field = document.getElementById("filter");
function search(text) {
if (!field) return;
field.value = text;
var wanted = text.trim().toLowerCase();
var hits = 0;
all("details.finding, ul.lines > li").forEach(function (item) {
var hit = !wanted || item.textContent.toLowerCase().indexOf(wanted) >= 0;
item.hidden = !hit;
if (hit) hits += 1;
if (hit && wanted && item.parentElement) reveal(item.parentElement);
});
document.getElementById("none").hidden = hits > 0;
}
on("filter", "input", function () {
search(field.value);
history.replaceState(null, "", field.value ? "#q=" + encodeURIComponent(field.value) : "#");
});

var unfold = on("unfold", "click", function () {
var open = !unfold.firstElementChild.hidden;
all("main details").forEach(function (item) { item.open = open; });
unfold.firstElementChild.hidden = open;
unfold.lastElementChild.hidden = !open;
});

addEventListener("keydown", function (event) {
var typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
if (event.key === "Escape" && event.target === field) { search(""); field.blur(); return; }
if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
if (event.key === "/" && field) { event.preventDefault(); field.focus(); return; }
if (event.key !== "j" && event.key !== "k") return;
var shown = findings.filter(function (item) { return !item.hidden && !(item.parentElement && item.parentElement.closest("details:not([open])")); });
var now = shown.findIndex(function (item) { return item.querySelector("summary") === document.activeElement; });
var next = shown[event.key === "j" ? Math.min(now + 1, shown.length - 1) : Math.max(now - 1, 0)];
if (next) next.querySelector("summary").focus();
});

var folded = [];
addEventListener("beforeprint", function () {
folded = all("main details:not([open])");
folded.forEach(function (item) { item.open = true; });
});
addEventListener("afterprint", function () {
folded.forEach(function (item) { item.open = false; });
});

if (location.hash) follow();
})();
