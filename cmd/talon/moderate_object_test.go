package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestModerateObject takes git objects down, one after the other, and looks through each door that may
// show one. The command names the repositories that reach it, no push brings it again, and a delete
// names the backups that may have it.
func TestModerateObject(t *testing.T) {
	t.Parallel()
	eachEngine(t, takedownSetup{scale: true}, (*takedown).objects)
}

func (w *takedown) objects() {
	st := w.st
	owner, other, work := st.who("owner"), st.who("other"), st.folder()
	write := func(message string, files map[string]string) string {
		w.Helper()
		for name, text := range files {
			path := filepath.Join(work.dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				w.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				w.Fatal(err)
			}
		}
		work.git("add", "-A")
		work.git("commit", "-q", "-m", w.Name()+" "+message)
		return work.git("rev-parse", "HEAD")
	}
	const words, message = "a leaked password", "the message of a leak"
	clean := write("clean", map[string]string{"other.md": "others may read this"})
	secret := write(message, map[string]string{"README.md": words, "in/README.md": words})
	blob, folder := work.git("rev-parse", secret+":in/README.md"), work.git("rev-parse", secret+":in")
	st.held(st.announcement(owner, "tool"))
	st.held(st.state(owner, "tool", "refs/heads/main", secret, "refs/heads/clean", clean))
	work.push(st.repo(owner, "tool"), secret+":refs/heads/main", clean+":refs/heads/clean")
	pull := st.stored(st.pull(other, secret, repoAddress(owner, "tool")))

	base := strings.TrimSuffix(repoPath(owner, "tool"), ".git")
	all := []string{blob, folder, secret}
	doors := map[string][]string{ // the objects that each shows
		"/raw/main/in/README.md": all, "/raw/main/README.md": {blob, secret}, "/blob/" + secret + "/README.md": {blob, secret}, "/blob/main/in/README.md": all, "/blame/main/in/README.md": all,
		"/tree/main/in": {folder, secret}, "/tree/main": {secret}, "/tree/clean": nil,
		"/archive/main.zip": all, "/archive/main.tar.gz": all, "/archive/clean.zip": nil,
		"/commit/" + secret: all, "/commit/" + secret + ".patch": all, "/commit/" + secret + ".diff": all, "/commit/" + clean: nil,
		"/compare/clean...main": all, "/log/main": {secret}, "/log/clean": nil, "/refs": nil, "/log.atom": nil, "/log.atom/main": {secret},
		"/raw/main/other.md": {secret}, "/raw/clean/other.md": nil, "/grep/main?q=leaked": {secret}, "/grep/clean?q=others": nil,
		"": nil, "/issues": nil, "/pulls/" + pull.ID: nil, "/pulls": nil,
	}
	texts := map[string]string{blob: words, secret: message} // that no door shows
	etags := map[string]string{}
	compare := func(what, down, reason string) {
		w.Helper()
		for node, st := range w.nodes() {
			at := what + node
			for path, shows := range doors {
				want := http.StatusOK
				for _, id := range shows {
					if id == down {
						want = http.StatusUnavailableForLegalReasons
					}
				}
				known := "" // a client that has the page asks whether it has changed
				if want != http.StatusOK {
					known = etags[path]
				}
				get := func() reply { return st.ask("GET", base+path, nil, "If-None-Match", known) }
				if node != "" {
					st.until(at+": "+path, func() bool { return get().status == want })
				}
				r := get()
				if r.status != want || want != http.StatusOK && !strings.Contains(r.body, reason) {
					w.Errorf("%s: %s has status %d, want %d with %q", at, path, r.status, want, reason)
				}
				if text := texts[down]; text != "" && strings.Contains(r.body, text) {
					w.Errorf("%s: %s shows %q", at, path, text)
				}
				if down == "" && r.status == 200 {
					etags[path] = r.header.Get("ETag")
				}
			}
			for name, id := range map[string]string{"a branch": secret, "a clean branch": clean, "a blob": blob} {
				request := pkt("want "+id+" no-progress\n") + "0000" + pkt("done\n")
				r := st.ask("POST", base+".git/git-upload-pack", []byte(request), "Content-Type", "application/x-git-upload-pack-request")
				refused := down != "" && (id == secret || id == down)
				if refused == strings.Contains(r.body, "PACK") || refused && !strings.Contains(r.body, "ERR the object "+down+" was "+reason) {
					w.Errorf("%s: a fetch of %s: %d %.200q", at, name, r.status, r.body)
				}
			}
		}
	}
	compare("before", "", "")
	for _, id := range all {
		if id != blob && os.Getenv("TALON_TEST_SCALE") == "" {
			continue // package gitread has the rules; the long tests try each door
		}
		const reason = "banned by the operator: leak"
		what := "ban of a " + work.git("cat-file", "-t", id)
		out := w.command("moderate", "ban", "object:"+id, "--reason", "leak")
		if !strings.Contains(out, owner.npub()+"/tool.git reaches the object") {
			w.Errorf("%s prints %s", what, out)
		}
		compare(what, id, reason)
		if id == blob {
			st = w.again()
			compare(what+", after a restart", id, reason)
			w.pushBarred(other, work, secret, "the object "+blob+" was "+reason)
			dir := filepath.Join(w.TempDir(), "clone")
			if out, err := gitAs(".", "clone", "-q", st.repo(owner, "tool"), dir); err == nil || !strings.Contains(out, "the object "+blob+" was "+reason) {
				w.Errorf("%s: a clone: %v %s", what, err, out)
			}
			mustGit(w.T, ".", "clone", "-q", "--single-branch", "-b", "clean", st.repo(owner, "tool"), dir)
		}
		w.command("moderate", "unban", "object:"+id)
	}
	compare("unban", "", "")
	work.push(st.repo(other, "copy"), secret+":refs/heads/main")
	w.deletesObject(owner, other, folder)
	w.command("delete", "object:"+blob, "--reason", "leak")
	compare("delete", blob, "removed by the operator: leak")
}

// pushBarred announces a copy of a repository, and cannot push to it.
func (w *takedown) pushBarred(owner person, work *folder, commit, reason string) {
	w.Helper()
	w.st.held(w.st.announcement(owner, "copy"))
	w.st.held(w.st.state(owner, "copy", "refs/heads/main", commit))
	work.cannotPush(reason, w.st.repo(owner, "copy"), commit+":refs/heads/main")
}

// deletesObject shows that deletes name the backups that may have what they remove.
func (w *takedown) deletesObject(owner, other person, object string) {
	backup := filepath.Join(w.TempDir(), "backup")
	if w.other != nil {
		return // the backup of PostgreSQL is not Talon's
	}
	w.command("backup", "--to", backup)
	out := w.command("delete", other.npub()+"/copy")
	if !strings.Contains(out, "the backup "+backup) {
		w.Errorf("the delete prints %s", out)
	}
	if err := os.RemoveAll(backup); err != nil {
		w.Fatal(err)
	}
	if out := w.command("delete", "object:"+object, "--dry-run"); !strings.Contains(out, owner.npub()+"/tool.git reaches the object") || strings.Contains(out, "the backup ") {
		w.Errorf("the dry run prints %s", out)
	}
}
