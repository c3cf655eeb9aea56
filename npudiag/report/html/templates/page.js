(function () {
"use strict";
var root = document.documentElement;
var said = document.getElementById("said");
var all = function (selector, from) { return Array.prototype.slice.call((from || document).querySelectorAll(selector)); };
var by = function (id) { return document.getElementById(id); };
var zh = function () { return root.lang === "zh"; };
var on = function (id, event, action) {
var element = by(id);
if (element) element.addEventListener(event, action);
return element;
};

/* Theme and language */

function dark() {
return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
function switchTheme() {
root.dataset.theme = dark() ? "light" : "dark";
try { localStorage.setItem("npudiag-theme", root.dataset.theme); } catch (e) { /* not kept */ }
}
var others = null;
function put(element, text) {
element.textContent = /^H[13]$/.test(element.parentNode.tagName) ? "" : text;
if (element.textContent || !text) return;
text.split(/(\S{28,})/).forEach(function (part, i) {
var child = i % 2 ? document.createElement("code") : document.createTextNode(part);
if (i % 2) { child.className = "tok"; child.textContent = part; }
element.appendChild(child);
});
}
var hidden = /[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\u{e0000}-\u{e007f}]/gu;
function visible(text) {
text = text.replace(hidden, function (c) {
var code = c.codePointAt(0).toString(16);
return code.length < 3 ? "\\x" + code.padStart(2, "0") : "\\u" + code.padStart(4, "0");
});
return text.length <= 2000 ? text : text.slice(0, 1999) + "…";
}
function at(value, steps) {
steps.forEach(function (step) { value = value === null || value === undefined ? value : value[step]; });
return typeof value === "string" ? value : "";
}
function spoken(result, place, lang) {
var steps = place.split("."), finding = result.findings[+steps.shift()];
return visible((lang === "zh" && at((finding.i18n || {}).zh, steps)) || at(finding, steps));
}
var waiting = null;
function translated() {
if (!waiting) waiting = Promise.all([unpacked("words").then(JSON.parse), document.querySelector("[data-f]") ? read() : null]);
return waiting;
}
function switchLang() {
return translated().then(function (both) {
var list = others || both[0], mine = [];
root.lang = zh() ? "en" : "zh";
all("[data-t]").forEach(function (element) {
mine[element.dataset.t] = element.textContent;
put(element, list[element.dataset.t]);
});
all("[data-f]").forEach(function (element) { put(element, spoken(both[1], element.dataset.f, root.lang)); });
others = mine;
name();
remember();
});
}
on("theme", "click", switchTheme);
on("lang", "click", switchLang);

/* Copying */

var copiers = all("button.copy").filter(function (button) {
var source = button.parentNode.querySelector("code, pre");
if (!source) { button.remove(); return false; }
button.addEventListener("click", function () { copied(button, source.innerText.replace(/\n$/, "")); });
return true;
});
all("button.deep").forEach(function (button) {
button.addEventListener("click", function () {
copied(button, location.href.split("#")[0] + "#" + button.dataset.link);
});
});
function copied(button, text) {
copy(text).then(function () {
button.classList.add("done");
said.textContent = said.dataset[zh() ? "copiedZh" : "copiedEn"];
setTimeout(function () { button.classList.remove("done"); said.textContent = ""; }, 1600);
});
}
function name() {
var verb = said.dataset[zh() ? "copyZh" : "copyEn"];
copiers.forEach(function (button) {
var source = button.parentNode.querySelector("code, pre");
button.setAttribute("aria-label", verb + " " + source.textContent.slice(0, 80));
});
document.title = document.querySelector("title").dataset[root.lang] || document.title;
count();
}
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

/* The document inside the page */

var reading = null;
/* The document stands behind this script, so it is there only once the page is read to its end. */
var whole = new Promise(function (done) {
if (document.readyState === "loading") addEventListener("DOMContentLoaded", done); else done();
});
function unpacked(id) {
return whole.then(function () {
var island = by(id);
if (!island || island.type !== "text/plain") return island ? island.textContent : "{}";
var bytes = Uint8Array.from(atob(island.textContent), function (c) { return c.charCodeAt(0); });
return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
});
}
function read() {
if (!reading) reading = unpacked("result").then(JSON.parse);
return reading;
}
on("save", "click", function () {
unpacked("result").then(function (json) {
var link = document.createElement("a");
link.href = URL.createObjectURL(new Blob([JSON.stringify(JSON.parse(json), null, 1) + "\n"], {type: "application/json"}));
link.download = "result.json";
link.click();
setTimeout(function () { URL.revokeObjectURL(link.href); }, 1000);
});
});

/* Search and filters; the address keeps them */

var findings = all("details.finding");
var items = all("details.finding, ul.lines > li");
var field = by("filter"), category = by("category"), rank = by("rank"), counter = by("count");
var boxes = all("input[name=severity]");
var anchor = "";
function holds(ranges, wanted) {
return !!ranges && ranges.split(",").some(function (part) {
var ends = part.split("-");
return wanted >= +ends[0] && wanted <= +ends[ends.length - 1];
});
}
function view() {
return {
q: field ? field.value.trim().toLowerCase() : "",
s: boxes.filter(function (box) { return box.checked; }).map(function (box) { return box.value; }),
c: category ? category.value : "",
r: rank ? rank.value : ""
};
}
function active(now) { return !!(now.q || now.s.length || now.c || now.r !== ""); }
var shown = items.length;
function apply() {
if (!field) return;
var now = view(), filtering = active(now);
var fits = items.map(function (item) {
return (!now.s.length || now.s.indexOf(item.dataset.s) >= 0) && (!now.c || item.dataset.c === now.c) &&
(now.r === "" || holds(item.dataset.r, +now.r)) && (!now.q || item.textContent.toLowerCase().indexOf(now.q) >= 0);
});
shown = 0;
items.forEach(function (item, i) {
var inside = fits[i] || items.some(function (other, k) { return fits[k] && k !== i && item.contains(other); });
item.hidden = !inside;
if (fits[i]) shown += 1;
if (fits[i] && filtering && item.parentElement) reveal(item.parentElement);
});
by("none").hidden = shown > 0;
by("clear").hidden = !filtering;
count();
}
function count() {
if (!counter) return;
counter.textContent = field && active(view()) ?
counter.dataset[zh() ? "zh" : "en"].replace("{n}", shown).replace("{total}", items.length) : "";
}
function remember() {
var now = view(), parts = [];
if (anchor) parts.push(anchor);
if (now.q) parts.push("q=" + encodeURIComponent(field.value));
if (now.s.length) parts.push("s=" + now.s.join(","));
if (now.c) parts.push("c=" + encodeURIComponent(now.c));
if (now.r !== "") parts.push("r=" + now.r);
if (root.lang !== first) parts.push("lang=" + root.lang);
history.replaceState(null, "", "#" + parts.join("&"));
}
var first = root.lang;
function reveal(element) {
for (var e = element; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
}
function decoded(text) { try { return decodeURIComponent(text); } catch (e) { return text; } }
function follow() {
var values = {};
anchor = "";
location.hash.slice(1).split("&").forEach(function (part) {
var at = part.indexOf("=");
if (at < 0) anchor = decoded(part); else values[part.slice(0, at)] = decoded(part.slice(at + 1));
});
if (Object.keys(values).length) {
if (field) field.value = values.q || "";
boxes.forEach(function (box) { box.checked = (values.s || "").split(",").indexOf(box.value) >= 0; });
if (category) category.value = values.c || "";
if (rank) rank.value = values.r || "";
if (/^(en|zh)$/.test(values.lang) && values.lang !== root.lang) switchLang();
apply();
}
var element = anchor && by(anchor);
if (element) {
if (element.closest("[hidden]")) clear();
reveal(element);
element.scrollIntoView();
}
}
addEventListener("hashchange", follow);
function changed() { anchor = ""; apply(); remember(); }
if (field) field.addEventListener("input", changed);
if (category) category.addEventListener("change", changed);
if (rank) rank.addEventListener("input", changed);
boxes.forEach(function (box) { box.addEventListener("change", changed); });
function clear() {
if (field) field.value = "";
boxes.forEach(function (box) { box.checked = false; });
if (category) category.value = "";
if (rank) rank.value = "";
changed();
}
on("clear", "click", function () { clear(); if (field) field.focus(); });
var tools = document.querySelector(".tools");
if (tools && matchMedia("(max-width: 62rem)").matches) tools.open = false;

var unfold = on("unfold", "click", openAll);
function openAll() {
var open = unfold ? !unfold.firstElementChild.hidden : true;
all("main details").forEach(function (item) { item.open = open; });
if (!unfold) return;
unfold.firstElementChild.hidden = open;
unfold.lastElementChild.hidden = !open;
}

/* Keys */

var keys = by("keys");
function help() { if (keys.open) keys.close(); else keys.showModal(); }
on("help", "click", help);
on("shut", "click", function () { keys.close(); });
function move(by) {
var there = findings.filter(function (item) {
return !item.hidden && !(item.parentElement && item.parentElement.closest("details:not([open]), [hidden]"));
});
var now = there.findIndex(function (item) { return item.querySelector("summary") === document.activeElement; });
var next = there[by > 0 ? Math.min(now + 1, there.length - 1) : Math.max(now - 1, 0)];
if (next) { next.querySelector("summary").focus(); anchor = next.id; remember(); }
}
function fold() {
var item = document.activeElement && document.activeElement.closest("details");
if (item) item.open = !item.open;
}
addEventListener("keydown", function (event) {
var typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) && event.target.type !== "checkbox";
if (event.key === "Escape" && !keys.open) { clear(); if (typing) event.target.blur(); return; }
if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
if (event.key === "/" && field) {
event.preventDefault();
reveal(field);
field.focus();
return;
}
var action = {j: function () { move(1); }, k: function () { move(-1); }, o: fold, e: openAll, t: switchTheme, l: switchLang, "?": help}[event.key];
if (action) action();
});

/* Printing opens what is folded */

var folded = [];
addEventListener("beforeprint", function () {
folded = all("main details:not([open])");
folded.forEach(function (item) { item.open = true; });
});
addEventListener("afterprint", function () {
folded.forEach(function (item) { item.open = false; });
});

/* Values under the pointer */

var tip = document.createElement("div");
tip.className = "tip";
tip.setAttribute("role", "status");
tip.hidden = true;
document.body.appendChild(tip);
function round(value) {
if (value === null || value === undefined) return "-";
var size = Math.abs(value);
return size >= 1000 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(4));
}
function clock(chart, seconds, unit) {
var time = moment(chart.start, seconds);
return time ? time.toISOString().slice(11, unit === "minute" ? 16 : 19) : round(seconds);
}
function moment(text, seconds) {
var start = /^(\d+)-(\d+)-(\d+)T(\d+):(\d+):?(\d+)?/.exec(text || "");
if (!start) return null;
var time = new Date(Date.UTC(+start[1], start[2] - 1, +start[3], +start[4], +start[5], +(start[6] || 0)) + seconds * 1000);
return isNaN(time) ? null : time;
}
function row(body, name, value, css) {
var line = document.createElement("p");
if (css) { var swatch = document.createElement("i"); swatch.className = css; line.appendChild(swatch); }
line.appendChild(document.createTextNode(name + " "));
var strong = document.createElement("b");
strong.textContent = value;
line.appendChild(strong);
body.appendChild(line);
}
function word(element) { return element.textContent.trim(); }
function place(x, y) {
tip.hidden = false;
var width = tip.offsetWidth, left = x + 16 + width > innerWidth ? x - 16 - width : x + 16;
tip.style.left = Math.max(4, left) + "px";
tip.style.top = Math.max(4, Math.min(y + 12, innerHeight - tip.offsetHeight - 4)) + "px";
}
/* The job over time: the clock under the pointer, and the lines of that moment by level */
var story = document.querySelector("#timeline[data-start]");
if (story) story.addEventListener("pointermove", function (event) {
var lane = story.querySelector(".la"), box = lane && lane.getBoundingClientRect();
var part = box ? (event.clientX - box.left) / box.width : -1;
if (part < 0 || part > 1 || !event.target.closest(".la")) { tip.hidden = true; return; }
var x = event.clientX, y = event.clientY;
read().then(function (result) {
var now = moment(story.dataset.start, part * story.dataset.seconds);
if (!now) return;
tip.textContent = "";
row(tip, now.toISOString().slice(0, 10), now.toISOString().slice(11, 19));
((result.coverage || {}).timeline || []).forEach(function (bucket) {
var start = moment(bucket.minute, 0);
if (start && now >= start && now - start < story.dataset.minutes * 60000) Object.keys(bucket.counts).forEach(function (level) { row(tip, visible(level), round(bucket.counts[level])); });
});
place(x, y);
});
});
if (story) story.addEventListener("pointerleave", function () { tip.hidden = true; });
all("figure[data-chart]").forEach(function (figure) {
var plot = figure.querySelector(".plot"), plates = all(".pl", figure);
if (!plates.length) return;
var at = 0, line = 0, chart = null;
plot.tabIndex = 0;
var hairs = plates.map(function (plate) {
var hair = document.createElement("div");
hair.className = figure.classList.contains("k-grid") ? "hair cell" : "hair";
hair.hidden = true;
plate.appendChild(hair);
return hair;
});
function lines() {
if (chart.kind !== "grid") {
var panels = all(".panel", figure);
tip.textContent = "";
row(tip, word(figure.querySelector(".axis-name")), chart.x_name === "second" ? clock(chart, chart.x[at]) : String(chart.x[at]));
chart.panels.forEach(function (panel, i) {
var title = panels[i] ? word(panels[i].querySelector(".pn b")) : panel.name;
var values = panel.curves.map(function (curve) { return [curve.name, curve.values[at]]; });
if (values.length > 1 && chart.kind === "curves") {
values = values.filter(function (v) { return v[1] !== null; });
values.sort(function (a, b) { return b[1] - a[1]; });
if (values.length > 4) values = values.slice(0, 2).concat([["…", null]], values.slice(-2));
}
var entries = panels[i] ? all(".legend > span", panels[i]) : [];
values.forEach(function (value, k) {
var label = values.length === 1 ? title : chart.kind === "bars" && entries[k] ? word(entries[k]) : title + " " + value[0];
row(tip, label, value[0] === "…" ? "" : round(value[1]) + (panel.unit ? " " + panel.unit : ""), chart.kind === "bars" && entries[k] ? entries[k].querySelector("i").className : "");
});
});
return;
}
var grid = chart.grid;
var names = word(figure.querySelector(".pn .muted")).split("×");
tip.textContent = "";
row(tip, (names[0] || "").trim(), String(grid.rows[line]));
row(tip, (names[1] || "").trim(), grid.column_name === "minute" ? clock(chart, grid.columns[at] * 60, "minute") : String(grid.columns[at]));
var cell = chart.cells[line * grid.columns.length + at];
var value = grid.low + cell / 254 * (grid.high - grid.low);
if (grid.unit === "log10") row(tip, "≈", cell === 255 ? "0" : round(Math.pow(10, value) - 1));
else row(tip, "≈", cell === 255 ? "-" : round(value) + " " + grid.unit);
}
function show(x, y) {
lines();
tip.hidden = false;
var count = chart.kind === "grid" ? chart.grid.columns.length : chart.x.length;
var low = +figure.dataset.low, high = +figure.dataset.high;
var part = chart.kind === "curves" ? (high > low ? (chart.x[at] - low) / (high - low) : 0.5) : (at + 0.5) / count;
hairs.forEach(function (hair) {
hair.hidden = false;
if (chart.kind === "grid") {
var rows = chart.grid.rows.length;
hair.style.left = 100 * at / count + "%";
hair.style.width = 100 / count + "%";
hair.style.top = 100 * line / rows + "%";
hair.style.height = 100 / rows + "%";
} else hair.style.left = 100 * part + "%";
});
if (x === undefined) {
var box = hairs[0].getBoundingClientRect();
x = box.left; y = box.top + 24;
}
place(x, y);
}
function hide() { tip.hidden = true; hairs.forEach(function (hair) { hair.hidden = true; }); }
function ready(then) {
if (chart) { then(); return; }
read().then(function (result) {
chart = result.charts[+figure.dataset.chart];
if (chart.grid) chart.cells = Uint8Array.from(atob(chart.grid.cells), function (c) { return c.charCodeAt(0); });
then();
});
}
function brightest(row) {
var group = +figure.dataset.group || 1, first = Math.floor(row / group) * group, best = first, sign = chart.name === "links" ? -1 : 1;
for (var i = first; i < Math.min(first + group, chart.grid.rows.length); i++) {
var value = chart.cells[i * chart.grid.columns.length + at], held = chart.cells[best * chart.grid.columns.length + at];
if (value !== 255 && (held === 255 || sign * value > sign * held)) best = i;
}
return best;
}
function nearest(value) {
var best = 0;
for (var i = 1; i < chart.x.length; i++) if (Math.abs(chart.x[i] - value) < Math.abs(chart.x[best] - value)) best = i;
return best;
}
plates.forEach(function (plate) {
plate.addEventListener("pointermove", function (event) {
var box = plate.getBoundingClientRect();
var part = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
var down = Math.min(0.9999, Math.max(0, (event.clientY - box.top) / box.height));
var x = event.clientX, y = event.clientY;
ready(function () {
var low = +figure.dataset.low, high = +figure.dataset.high;
var count = chart.kind === "grid" ? chart.grid.columns.length : chart.x.length;
at = chart.kind === "curves" ? nearest(low + part * (high - low)) : Math.min(count - 1, Math.floor(part * count));
if (chart.grid) line = brightest(Math.floor(down * chart.grid.rows.length));
show(x, y);
});
});
plate.addEventListener("pointerleave", hide);
});
plot.addEventListener("blur", hide);
plot.addEventListener("keydown", function (event) {
var step = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[event.key];
if (event.key === "Escape") { hide(); return; }
if (!step) return;
event.preventDefault();
ready(function () {
var count = chart.kind === "grid" ? chart.grid.columns.length : chart.x.length;
at = Math.min(count - 1, Math.max(0, at + step[0]));
if (chart.grid) line = Math.min(chart.grid.rows.length - 1, Math.max(0, line + step[1]));
show();
});
});
});

name();
if (location.hash) follow();
/* So that the first switch of the language does not wait. */
translated();
})();
