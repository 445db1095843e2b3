package web

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/gitread"
	"talon/internal/race"
	"talon/internal/testkit"
	"talon/sdk/grasp"
)

// TestChromium opens every kind of page in a real browser: nothing fails to load, nothing is wider
// than the screen, axe-core finds no violation, and no link is dead. With TALON_TEST_SCALE=1 it does
// so in two sizes and two themes. TALON_TEST_SHOTS names a folder for screenshots.
func TestChromium(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "chromium")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "playwright-core")); err != nil {
		t.Skip("needs npm ci in testdata/chromium")
	}
	if race.Detector {
		t.Skip("a test of pages, not of goroutines")
	}
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("needs chromium (Debian: apt install chromium)")
	}
	testkit.Inputs(t, dir)
	server, paths := pagesForBrowsers(t)
	if os.Getenv("TALON_TEST_SCALE") != "1" {
		// One of each kind that a change often touches: the others take half a minute.
		paths = slices.DeleteFunc(paths, func(path string) bool { return !slices.Contains(often, kindOf(path)) })
	}
	list, _ := json.Marshal(paths)
	node := exec.CommandContext(t.Context(), "node", "--test", "--test-reporter=spec", "pages.mjs")
	node.Dir = dir
	node.Env = append(os.Environ(), "PAGES_URL="+server, "PAGES_PATHS="+string(list), "CHROMIUM="+browser,
		"PAGES_ALL="+os.Getenv("TALON_TEST_SCALE"), "PAGES_SHOTS="+os.Getenv("TALON_TEST_SHOTS"))
	out, err := node.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%d pages\n%s", len(paths), out)
}

// often are the kinds of pages that the short run opens.
var often = []string{"repository", "issues"}

// kindOf returns what a path is the page of.
func kindOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) == 2 && !strings.HasSuffix(path, ".git"):
		return "repository"
	case len(parts) > 2:
		kind, query, _ := strings.Cut(parts[2], "?")
		return kind + query
	}
	return parts[0]
}

// pagesForBrowsers serves a repository with everything that pages can show, hostile texts included.
func pagesForBrowsers(t *testing.T) (url string, paths []string) {
	w := newWorld(t)
	reader, err := gitread.Open(gitread.Options{Scheduler: testScheduler, Archives: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if w.Handler, err = New(w.Handler.cfg, Deps{Facts: w, Git: w, Code: reader}); err != nil {
		t.Fatal(err)
	}
	dir := workTree(t, map[string]string{
		"README.md": "# The nest\n\nA [page](docs/build.md), a ![picture](img/a.svg), [how](#how-to) and " + strings.Repeat("long", 100) + ".\n\n" +
			"## How to\n\n- [x] twigs\n- [ ] moss\n\n| Wide | " + strings.Repeat("column | ", 20) + "\n|" + strings.Repeat("---|", 21) + "\n| a | " + strings.Repeat("b | ", 20) + "\n\n" +
			"```c\nint " + strings.Repeat("wide", 100) + ";\n```\n\n### Deeper\n\n> A quote by nostr:" + npub("owl") + "\n\n<details><summary>More</summary>text</details>\n\n##### Much deeper\n",
		"LICENSE": "Permission is hereby granted, free of charge, to any person obtaining a copy", "docs/build.md": "# Build\n", "img/a.svg": `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>`,
		"src/main.c": "/* a comment */\nint main(void) { return 0; }\n", "src/wide.txt": strings.Repeat("wide ", 500), "a & b <c>.txt": "x", "empty": "",
	})
	testkit.Git(t, dir, "tag", "v1.0")
	testkit.Git(t, dir, "branch", "feature/one")
	write(t, filepath.Join(dir, "src/main.c"), "/* another comment */\nint main(void) { return 1; }\n"+strings.Repeat("wide ", 100)+"\n")
	testkit.Git(t, dir, "commit", "-q", "-a", "-m", "Change the <b>file</b> \u202e "+strings.Repeat("long", 60)+"\n\nBy nostr:"+npub("owl")+". See https://example.org/"+strings.Repeat("long", 60))
	w.serveCodeOf("nest", dir)
	w.publish(event("owl", 0, now, `{"name":"Owl","about":"A bird.","website":"https://owl.example"}`))
	w.publish(event("owl", grasp.KindState, now+1, "", host.Tag{"d", "nest"}, host.Tag{"refs/heads/main", commit(0)}))
	var roots []*host.Event
	for i, s := range sections {
		at := now + int64(10*i)
		for _, text := range append([]string{"It is *cold*, says nostr:" + npub("owl") + "\n\n# A heading\n\n```\n" + strings.Repeat("wide ", 100) + "\n```"}, hostile...) {
			root := event("wren", s.kind, at, text, a("owl", "nest"), host.Tag{"c", commit(3)}, host.Tag{"t", "bug"}, host.Tag{"subject", line(text, 60)})
			w.publish(root)
			if text[0] == 'I' {
				roots = append(roots, root)
			}
		}
		root := roots[i]
		first := w.publish(comment("jay", at+1, "I agree.\n\n## Why\n\nhttps://x.example/"+strings.Repeat("long", 60), root, root))
		answer := first
		for n := range 8 {
			answer = w.publish(comment("owl", at+2+int64(n), "Because of the wind", root, answer))
		}
		for _, evil := range hostile {
			w.publish(comment("jay", at+20, evil, root, root))
		}
		w.publish(event("owl", kindReaction, at, "🪹", host.Tag{"e", first.ID.String()}), event("owl", kindLabel, at+3, "", host.Tag{"e", root.ID.String()}, host.Tag{"l", "winter", "#t"}))
		w.publish(event("owl", kindLabel, at+4, "", host.Tag{"e", root.ID.String()}, host.Tag{"l", "Much too cold", "#subject"}))
		w.publish(event("owl", grasp.KindClosed, at+5, "Fixed", rootTag(root)), event("wren", kindCoverNote, at+6, "See the wiki", host.Tag{"e", root.ID.String()}))
	}
	w.publish(event("wren", grasp.KindPRUpdate, now+90, "", host.Tag{"E", roots[1].ID.String()}, host.Tag{"c", commit(4)}))
	w.publish(event("wren", grasp.KindPatch, now+90, "Subject: Dry it\n\ndiff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-old\n+"+strings.Repeat("new ", 100)+"\n", a("owl", "nest"), rootTag(roots[2])))

	base := "/" + npub("owl") + "/nest"
	paths = []string{
		"/", "/search", "/search?q=cold", "/search?q=nonsense", "/" + npub("owl"), "/" + npub("stranger"), base, base + ".git", base + "/tree/main", base + "/tree/main/src",
		base + "/blob/main/src/main.c", base + "/blob/main/README.md", base + "/issues", base + "/pulls?state=all", base + "/patches?state=draft",
		base + "/log/main", base + "/log/main/src", base + "/refs", base + "/commit/" + strings.TrimSpace(testkit.Git(t, dir, "rev-parse", "main")),
		base + "/compare/feature/one...main", base + "/blame/main/src/main.c", base + "/grep/main?q=int", base + "/blob/main/README.md?source=1",
	}
	for i, s := range sections {
		paths = append(paths, base+"/"+s.Name+"/"+roots[i].ID.String())
	}
	server := httptest.NewServer(w.Handler)
	t.Cleanup(server.Close)
	return server.URL, paths
}
