package web

import (
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/internal/testkit"
	"talon/sdk/grasp"
)

// The first page of a repository has its files, its README and its licence.
func TestOverview(t *testing.T) {
	w := newWorld(t)
	dir := workTree(t, map[string]string{
		"README.md": "# My nest\n\nSee [the docs](docs/build.md#how), ![a picture](img/a.png), [up](../../../etc/passwd), [top](/LICENSE),\n" +
			"![far](https://x.example/a.png), [script](javascript:alert(1)) and [how](#how).\n\n## How\n\nBy nostr:" + npub("owl") + "\n\n<script>alert(1)</script>\n",
		"LICENSE": "MIT License\n\nPermission is hereby granted, free of charge, to any person obtaining a copy\n", "docs/build.md": "text", "src/main.c": "int main;\n",
	})
	w.serveCodeOf("nest", dir)
	w.publish(event("crow", grasp.KindState, now+5, "", host.Tag{"d", "nest"}, host.Tag{"refs/heads/main", commit(0)}))
	w.publish(event("owl", grasp.KindState, now+4, "", host.Tag{"d", "nest"}, host.Tag{"refs/heads/main", commit(0)}), event("owl", 0, now, `{"name":"Owl"}`))
	d := w.get("/"+npub("owl")+"/nest").status(t, 200)
	d.tame(t)
	d.has(t, "Files on main", "The files", "docs", "src", "LICENSE", "README.md", "My nest", "Licence MIT", "State signed 21 Sep 2026, 14:13 UTC, by Owl", "Issues 0")
	d.hasNot(t, "alert(1)")
	base := "/" + npub("owl") + "/nest"
	for _, href := range []string{base + "/tree/main", base + "/blob/main/docs/build.md#how", base + "/blob/main/etc/passwd", base + "/blob/main/LICENSE", "https://x.example/a.png", "#readme-how"} {
		if !slices.Contains(d.hrefs(), href) {
			t.Errorf("no link to %s in %v", href, d.hrefs())
		}
	}
	if !slices.ContainsFunc(d.elements, func(e element) bool { return e.name == "img" && e.attr["src"] == base+"/raw/main/img/a.png" }) {
		t.Error("an image of the repository is not shown")
	}
	if strings.Count(d.Body.String(), "<img") != 1 {
		t.Error("an image of another server is shown")
	}
}

// READMEs of all forms are shown or refused, and never run.
func TestReadmes(t *testing.T) {
	for name, content := range map[string]string{
		"README": "plain <b>text</b>\n", "readme.txt": "a\x00b\x1b[31m\u202e", "README.rst": "Title\n=====\n", "README.md": strings.Repeat("[a](", 16_000), "Readme.MD": strings.Repeat("x", 300<<10),
	} {
		w := newWorld(t)
		w.serveCodeOf("nest", workTree(t, map[string]string{name: content}))
		d := w.get("/"+npub("owl")+"/nest").status(t, 200)
		d.tame(t)
		d.has(t, name)
		if len(content) > 256<<10 {
			d.has(t, "It is too large for this page")
		}
	}
	w := newWorld(t)
	dir := workTree(t, map[string]string{"file": "x"})
	testkit.Git(t, dir, "branch", "-m", "other")
	w.serveCodeOf("nest", dir)
	w.get("/"+npub("owl")+"/nest").status(t, 200).hasNot(t, "Files on")
}

// Every text of a repository stays a text on its first page.
func TestHostileOverview(t *testing.T) {
	for _, evil := range hostile {
		if strings.ContainsAny(evil, "\x00\n/") || len(evil) > 200 || strings.TrimSpace(evil) == "" {
			continue
		}
		w := newWorld(t)
		w.serveCodeOf("nest", workTree(t, map[string]string{evil: "x", "README.md": evil, "LICENSE": evil}))
		w.get("/"+npub("owl")+"/nest").status(t, 200).tame(t)
	}
}
