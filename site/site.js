// The search over all pages, and the buttons that copy code. A page is whole without them.
"use strict";
const root = document.currentScript.dataset.root;

for (const pre of document.querySelectorAll("pre")) {
	const button = document.createElement("button");
	button.textContent = "Copy";
	button.addEventListener("click", async () => {
		try {
			await navigator.clipboard.writeText(pre.querySelector("code").textContent);
			button.textContent = "Copied";
		} catch {
			getSelection().selectAllChildren(pre.querySelector("code")); // ready for the reader to copy
			button.textContent = "Selected";
		}
		setTimeout(() => { button.textContent = "Copy"; }, 2000);
	});
	pre.prepend(button);
}
for (const box of document.querySelectorAll(".scroll, pre > code")) {
	if (box.scrollWidth > box.clientWidth) box.tabIndex = 0; // so that arrow keys scroll it
}

const search = document.querySelector("search");
const input = search.querySelector("input");
const results = document.querySelector("#results");
search.hidden = false;

// The index is a script, since a page that is opened from a file may not fetch files.
let loading;
const load = () => loading ??= new Promise((done, failed) => {
	const script = document.createElement("script");
	script.src = root + "index.js";
	script.onload = done;
	script.onerror = failed;
	document.head.append(script);
});

// rank returns how well a section fits all words, or 0 if it lacks one.
function rank([, , title, heading, text], words) {
	let sum = 0;
	for (const word of words) {
		const has = s => s.toLowerCase().includes(word);
		const points = (has(heading) ? 10 : 0) + (has(title) ? 4 : 0) + Math.min(3, text.toLowerCase().split(word).length - 1);
		if (points === 0) return 0;
		sum += points;
	}
	return sum;
}

// marked appends text to an element, and marks the words in it.
function marked(element, text, words) {
	const any = new RegExp(`(${words.map(w => w.replace(/[^\p{L}\p{N}]/gu, "\\$&")).join("|")})`, "gi");
	text.split(any).forEach((part, i) => {
		if (i % 2 === 0) return element.append(part);
		const mark = document.createElement("mark");
		mark.textContent = part;
		element.append(mark);
	});
	return element;
}

function show(sections, words) {
	const found = sections.map(s => [rank(s, words), s]).filter(([points]) => points > 0).sort((a, b) => b[0] - a[0]);
	const count = document.createElement("p");
	count.role = "status";
	count.textContent = found.length === 1 ? "1 section" : `${found.length} sections`;
	results.replaceChildren(count, ...found.slice(0, 20).map(([, [file, anchor, title, heading, text]]) => {
		const link = document.createElement("a");
		link.href = `${root}${file}#${anchor}`;
		const name = document.createElement("b");
		marked(name, title === heading ? title : `${title}: ${heading}`, words);
		const at = Math.max(0, text.toLowerCase().indexOf(words[0]) - 50);
		const part = (at > 0 ? "…" : "") + text.slice(at, at + 160) + (text.length > at + 160 ? "…" : "");
		link.append(name, marked(document.createElement("span"), part, words));
		return link;
	}));
	results.hidden = false;
}

async function find() {
	const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
	if (words.length === 0) {
		results.hidden = true;
		return;
	}
	await load();
	show(index, words);
}

input.addEventListener("input", find);
input.addEventListener("focus", load);
document.addEventListener("keydown", event => {
	const links = [input, ...results.querySelectorAll("a")];
	const at = links.indexOf(document.activeElement);
	const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
	if (event.key === "/" && document.activeElement.tagName !== "INPUT") {
		event.preventDefault();
		input.focus();
	} else if (event.key === "Escape" && at >= 0) {
		results.hidden = true;
		input.focus();
	} else if (event.key === "Enter" && at === 0 && links.length > 1) {
		links[1].click();
	} else if (step && at >= 0 && !results.hidden && links[at + step]) {
		event.preventDefault();
		links[at + step].focus();
	}
});
document.addEventListener("click", event => { if (!search.contains(event.target)) results.hidden = true; });
results.addEventListener("click", event => { if (event.target.closest("a")) results.hidden = true; });

// A search has an address, too: ?q=retry+after
const query = new URLSearchParams(location.search).get("q");
if (query) {
	input.value = query;
	find();
}
