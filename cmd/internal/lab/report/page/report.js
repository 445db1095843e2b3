"use strict";
// What Go has counted, uPlot draws. Texts reach the page as text, never as markup.
(() => {
	const data = JSON.parse(document.getElementById("data").textContent);
	const dark = matchMedia("(prefers-color-scheme: dark)");
	const color = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
	const of = i => color("c" + i % 8);
	const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [1, 4], [12, 4], [6, 2, 2, 2]];
	const font = "12px system-ui, sans-serif";

	// Numbers as the tables have them.
	const short = (x, n) => String(+x.toFixed(n));
	const scaled = (x, base, units) => {
		let i = 0;
		while (Math.abs(x) >= base && i < units.length - 1) { x /= base; i++; }
		return (short(x, i == 0 || Math.abs(x) >= 100 ? 0 : Math.abs(x) >= 10 ? 1 : 2) + " " + units[i]).trim();
	};
	const bytes = x => scaled(x, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
	const span = s => s == 0 ? "0" : s < 1 ? short(s * 1000, 0) + " ms" : s < 120 ? short(s, 1) + " s" : s < 7200 && s != 3600 ? short(s / 60, 1) + " min" : s < 172800 ? short(s / 3600, 1) + " h" : short(s / 86400, 1) + " d";
	const share = x => (x < 1 && x > 0.9999 ? ">99.99" : short(100 * x, 2)) + " %";
	const formats = { bytes, s: span, share, count: x => scaled(x, 1000, ["", "k", "M", "G", "T"]) };

	const minute = 60, hour = 3600, day = 86400;
	const steps = [0.001, 0.01, 0.1, 1, 2, 5, 10, 15, 30, minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute, hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour, day, 2 * day, 5 * day, 7 * day, 14 * day, 30 * day, 90 * day, 365 * day];
	const powers = Array.from({ length: 50 }, (_, i) => 2 ** i);

	const axis = (values, more) => ({
		stroke: () => color("dim"), font, labelFont: font, labelGap: 0,
		grid: { stroke: () => color("line"), width: 1 }, ticks: { show: false }, border: { show: false }, gap: 6,
		values: (u, splits) => splits.map(x => x == null ? "" : values(x)), ...more,
	});
	const flat = { size: 30 }; // an axis at the bottom has one line of text
	const timeAxis = more => axis(span, { incrs: steps, space: 70, ...flat, ...more });
	const byteAxis = more => axis(bytes, { incrs: powers, ...more });
	// A logarithmic axis has a line for each power, of ten or as clocks and memories count.
	const within = (fine, coarse) => ({ filter: (u, splits) => splits, splits: (u, i, lo, hi) => (hi / lo < 1500 ? fine : coarse).filter(x => x >= lo && x <= hi) });
	const logTimeAxis = more => axis(span, { ...within([...[0.001, 0.01, 0.1, 1].flatMap(x => [x, 2 * x, 5 * x]), 10, 20, 40, ...[minute, hour].flatMap(x => [x, 2 * x, 5 * x, 10 * x, 20 * x]), 2 * day, 5 * day, 10 * day, 20 * day, 50 * day],
		[0.001, 0.01, 0.1, 1, 10, 2 * minute, 20 * minute, 4 * hour, 2 * day, 20 * day, 200 * day]), ...more });
	const logByteAxis = more => axis(bytes, { ...within(powers, powers.filter((_, i) => i % 3 == 0)), ...more });

	const all = []; // functions that draw one plot each
	const plot = (box, make) => {
		let u;
		const draw = () => {
			if (u) u.destroy();
			const made = make();
			if (!made) return;
			u = new uPlot({ width: box.clientWidth, height: made.height || Math.max(220, Math.min(300, box.clientWidth * 0.6)), cursor: { points: { size: 7 }, drag: { x: true, y: false } }, legend: { live: true }, ...made.opts }, made.data, box);
		};
		all.push(draw);
		draw();
		new ResizeObserver(() => { if (u && Math.abs(u.width - box.clientWidth) > 1) u.setSize({ width: box.clientWidth, height: u.height }); }).observe(box);
		return draw;
	};
	dark.addEventListener("change", () => all.forEach(draw => draw()));

	const labelled = (i, label, value, more) => ({
		label, stroke: () => of(i), width: 2, dash: dashes[i % 8], points: { show: false }, spanGaps: true,
		value: (u, x) => x == null ? "" : value(x), ...more,
	});
	const faded = (i, alpha) => { const c = of(i); return "rgba(" + [1, 3, 5].map(k => parseInt(c.slice(k, k + 2), 16)) + "," + alpha + ")"; };

	// Curves with the band of the seeds around them.
	const curves = (box, world, list, value, yAxis, range) => {
		const shown = list.map((c, i) => ({ c, i })).filter(x => x.c.t && x.c.t.length > 1);
		if (!shown.length) return;
		plot(box, () => {
			const series = [{ label: "after", value: (u, x) => x == null ? "" : span(x) }], bands = [];
			for (const { i } of shown) {
				const n = series.length;
				const edge = { class: "aside", stroke: "transparent", width: 0, points: { show: false }, spanGaps: true };
				series.push(labelled(i, world.variants[i], value), { ...edge, label: "low" }, { ...edge, label: "high" });
				bands.push({ series: [n + 2, n + 1], fill: () => faded(i, 0.13) });
			}
			return {
				data: uPlot.join(shown.map(({ c }) => [c.t, c.middle, c.low, c.high])),
				opts: {
					scales: { x: { time: false }, y: { range } }, axes: [timeAxis(), yAxis], series, bands,
					hooks: { setSeries: [(u, n, o) => { if (o.show != null && n % 3 == 1) for (const k of [n + 1, n + 2]) if (u.series[k].show != o.show) u.setSeries(k, { show: o.show }); }] },
				},
			};
		});
	};

	const draws = {
		completeness: (box, w) => {
			// A curve near 100 % is read between its own ends.
			const least = Math.min(...w.completeness.flatMap(c => (c.low || []).slice(Math.ceil((c.low || []).length / 10))));
			const from = least > 0.9 ? Math.min(0.995, least - (1 - least) * 0.15) : 0;
			curves(box, w, w.completeness, share, axis(share, { size: 64 }), () => [from, 1 + (1 - from) * 0.03]);
		},
		bytes: (box, w) => curves(box, w, w.bytes, bytes, byteAxis({ size: 70 }), (u, lo, hi) => [0, (hi || 1) * 1.04]),
		arrivals: (box, w) => {
			const a = w.arrivals;
			if (!a.within.length) return;
			const x = a.within.map(s => Math.max(s, 0.001));
			const one = x.length == 1;
			plot(box, () => ({
				data: [one ? [x[0] / 2, x[0]] : x, ...a.shares.map(s => one ? [0, s[0]] : s)],
				opts: {
					scales: { x: { time: false, distr: 3 }, y: { range: [0, 1.03] } },
					axes: [logTimeAxis(flat), axis(share, { size: 56 })],
					series: [{ label: "within", value: (u, s) => s == null ? "" : span(s) }, ...w.variants.map((name, i) => labelled(i, name, share, { paths: uPlot.paths.stepped({ align: 1 }) }))],
				},
			}));
		},
		pareto: (box, w) => {
			const points = w.pareto.flatMap((p, i) => p.seeds.map(s => ({ i, x: s[0], y: s[1], seed: true })).concat(p.seeds.length ? [{ i, x: p.bytes, y: p.p99 }] : []));
			if (!points.length) { box.closest("figure").hidden = true; return; }
			points.sort((a, b) => a.x - b.x);
			const xs = points.map(p => p.x), ys = points.map(p => p.y);
			const wide = list => Math.min(...list) > 0 && Math.max(...list) / Math.min(...list) > 12;
			const logX = wide(xs), logY = wide(ys);
			const room = log => (u, lo, hi) => log ? [lo / 1.5, hi * 1.5] : [Math.max(0, lo - (hi - lo || hi || 1) * 0.12), hi + (hi - lo || hi || 1) * 0.12];
			plot(box, () => ({
				data: [xs, ...w.variants.flatMap((_, i) => [true, undefined].map(seed => points.map(p => p.i == i && p.seed === seed ? p.y : null)))],
				opts: {
					legend: { show: false }, cursor: { drag: { x: false, y: false }, points: { size: 7 } },
					scales: { x: { time: false, distr: logX ? 3 : 1, range: room(logX) }, y: { distr: logY ? 3 : 1, range: room(logY) } },
					axes: [logX ? logByteAxis(flat) : byteAxis({ space: 80, ...flat }), logY ? logTimeAxis({ size: 64 }) : axis(span, { size: 64, incrs: steps })],
					series: [{}, ...w.variants.flatMap((name, i) => [
						{ label: "seed", paths: () => null, points: { show: true, size: 4, width: 0, fill: () => faded(i, 0.35), stroke: "transparent" } },
						{ label: name, paths: () => null, points: { show: true, size: 13, width: 2, fill: () => of(i), stroke: () => color("card") } },
					])],
					hooks: {
						draw: [u => {
							const c = u.ctx, r = devicePixelRatio;
							c.save();
							c.font = "600 " + 12 * r + "px system-ui, sans-serif";
							c.textBaseline = "middle";
							const used = [];
							w.pareto.forEach((p, i) => {
								if (!p.seeds.length) return;
								const x = u.valToPos(p.bytes, "x", true), right = x < u.bbox.left + u.bbox.width * 0.62;
								let y = u.valToPos(p.p99, "y", true);
								const name = w.variants[i].length > 28 ? w.variants[i].slice(0, 27) + "…" : w.variants[i];
								const from = right ? x : x - c.measureText(name).width, to = from + c.measureText(name).width;
								while (used.some(t => Math.abs(t.y - y) < 14 * r && t.from < to && from < t.to)) y -= 14 * r;
								used.push({ y, from, to });
								c.textAlign = right ? "left" : "right";
								c.lineWidth = 3 * r;
								c.strokeStyle = color("card");
								c.fillStyle = of(i);
								c.strokeText(name, x + (right ? 11 : -11) * r, y);
								c.fillText(name, x + (right ? 11 : -11) * r, y);
							});
							c.restore();
						}],
					},
				},
			}));
		},
		sweep: (box, _, index) => {
			const s = data.sweep, m = s.measures[index], value = formats[m.unit] || (x => short(x, 2));
			plot(box, () => ({
				height: 220, data: [s.values, ...m.means],
				opts: {
					scales: { x: { time: false }, y: { range: (u, lo, hi) => m.unit == "share" ? [Math.max(0, Math.min(0.995, lo - (1 - lo) * 0.2)), 1.0003] : [0, (hi || 1) * 1.06] } },
					axes: [axis(x => short(x, 3), flat), axis(value, { size: 68, incrs: m.unit == "bytes" ? powers : m.unit == "s" ? steps : undefined })],
					series: [{ label: s.key }, ...s.variants.map((name, i) => labelled(i, name, value, { points: { show: true, size: 6 } }))],
				},
			}));
		},
	};

	// The load of each relay over time: a darker cell is more, on one scale for all variants.
	const heat = (root, w) => {
		const h = w.heat, box = root.querySelector(".plot"), tabs = root.querySelector(".tabs"), read = root.querySelector(".read");
		if (!h) { root.hidden = true; return; }
		const n = h.relays.length, loads = h.loads.flat(2).filter(x => x > 0), most = Math.max(2, ...loads), least = Math.min(most / 2, ...loads), columns = Math.max(...h.loads.flat().map(r => r.length));
		const hint = "A stronger cell is more, from " + bytes(least) + " to " + bytes(most) + " in " + span(h.every) + ".";
		let chosen = 0;
		const name = (text, width) => text.length > width ? text.slice(0, width - 1) + "…" : text;
		const draw = plot(box, () => {
			const narrow = box.clientWidth < 560, width = narrow ? 11 : 30, longest = Math.min(width, Math.max(...h.relays.map(r => r.length)));
			return {
				height: Math.max(150, n * (narrow ? 13 : 16) + 40),
				data: [Array.from({ length: columns + 1 }, (_, i) => i * h.every), Array(columns + 1).fill(null)],
				opts: {
					legend: { show: false }, cursor: { points: { show: false }, drag: { x: false, y: false } },
					scales: { x: { time: false, range: [0, columns * h.every] }, y: { range: [0, n], dir: -1 } },
					axes: [timeAxis({ grid: { show: false } }), axis(y => name(h.relays[Math.floor(y)] || "", width), { size: 16 + 6.6 * longest, splits: () => h.relays.map((_, i) => i + 0.5), grid: { show: false }, font: "11px system-ui, sans-serif", space: 1 })],
					series: [{}, { paths: () => null, points: { show: false } }],
					hooks: {
						draw: [u => {
							const c = u.ctx;
							c.save();
							c.fillStyle = color("link");
							h.loads[chosen].forEach((row, y) => {
								const top = u.valToPos(y, "y", true), high = u.valToPos(y + 1, "y", true) - top;
								row.forEach((load, k) => {
									if (!load) return;
									c.globalAlpha = 0.07 + 0.93 * Math.log(load / least) / Math.log(most / least);
									const left = Math.round(u.valToPos(k * h.every, "x", true));
									c.fillRect(left, Math.round(top) + 1, Math.round(u.valToPos((k + 1) * h.every, "x", true)) - left, Math.round(high) - 1);
								});
							});
							c.restore();
						}],
						setCursor: [u => {
							const k = Math.floor(u.posToVal(u.cursor.left, "x") / h.every), y = Math.floor(u.posToVal(u.cursor.top, "y"));
							const load = (h.loads[chosen][y] || [])[k];
							read.textContent = u.cursor.left < 0 || load == null ? hint : h.relays[y] + ", " + span(k * h.every) + " to " + span((k + 1) * h.every) + ": " + bytes(load);
						}],
					},
				},
			};
		});
		read.textContent = hint;
		w.variants.forEach((text, i) => {
			const b = document.createElement("button");
			b.type = "button";
			b.textContent = text;
			b.setAttribute("aria-pressed", i == 0);
			b.addEventListener("click", () => {
				chosen = i;
				for (const other of tabs.children) other.setAttribute("aria-pressed", other == b);
				draw();
			});
			tabs.append(b);
		});
	};

	const drawAll = () => {
		for (const box of document.querySelectorAll(".plot[data-plot=sweep]")) draws.sweep(box, null, +box.dataset.index);
		document.querySelectorAll(".world").forEach(section => {
			const world = data.worlds[+section.dataset.world];
			for (const box of section.querySelectorAll(".plot[data-plot]")) draws[box.dataset.plot](box, world);
			for (const box of section.querySelectorAll(".heat")) heat(box, world);
		});
	};

	// A link to a sequence opens it.
	const open = () => { const e = document.getElementById(decodeURIComponent(location.hash.slice(1))); if (e && e.tagName == "DETAILS") { e.open = true; e.scrollIntoView(); } };
	addEventListener("hashchange", open);
	drawAll();
	open();
})();
