"use strict";
(() => {
	const button = document.getElementById("sign"), status = document.getElementById("status");
	const page = location.pathname + location.search;
	const send = async event => {
		const answer = await fetch("/auth/", {method: "POST", headers: {"Content-Type": "application/json"}, body: event});
		if (answer.ok) { location.replace(page); return; }
		status.textContent = await answer.text();
	};
	const attempt = make => async () => {
		try { await send(await make()); } catch (error) { status.textContent = "Signing in failed: " + error.message; }
	};
	document.getElementById("command").textContent += " " + location.origin + page;
	const link = /^#signin=([A-Za-z0-9_-]+)$/.exec(location.hash);
	if (link) {
		history.replaceState(null, "", page);
		attempt(async () => atob(link[1].replaceAll("-", "+").replaceAll("_", "/")))();
	}
	setTimeout(() => {
		if (!window.nostr) return;
		button.disabled = false;
		button.addEventListener("click", attempt(async () => JSON.stringify(await window.nostr.signEvent({
			kind: 27235, created_at: Math.floor(Date.now() / 1000), content: "",
			tags: [["u", location.origin + "/auth/"], ["method", "POST"]],
		}))));
	}, 300);
})();
