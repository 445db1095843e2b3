package gitread

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"talon/host/gitrepo"
	"talon/internal/testkit"
)

// TestTakenDown takes objects of a repository down, one at a time, and asks each question about it. An
// answer does not show the object, and other answers stay as they are.
func TestTakenDown(t *testing.T) {
	barred := map[string]string{}
	options := gitrepo.DefaultOptions
	options.Barred = func() map[string]string { return barred }
	s := newSiteWith(t, options)
	repo, dir := s.repo(alice, "tool"), t.TempDir()
	git := func(args ...string) string { return testkit.Git(t, dir, args...) }
	git("init", "-q", "-b", "main")
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	commit := func(message string) string {
		git("add", "-A")
		git("commit", "-q", "-m", message)
		return git("rev-parse", "HEAD")
	}
	write("README", "words for all\n")
	clean := commit("clean")
	write("in/secret", "words of a secret\n")
	secret := commit("a secret")
	write("in/secret", "words that say less\n")
	main := commit("say less")
	git("tag", "-a", "-m", "a tag", "v1")
	git("push", "-q", repo.Dir(), "main", "v1", secret+":refs/heads/old")

	blob, folder, root, tag := git("rev-parse", secret+":in/secret"), git("rev-parse", secret+":in"), git("rev-parse", secret+"^{tree}"), git("rev-parse", "v1")
	stream := func(of *Stream, err error) error {
		if err != nil {
			return err
		}
		defer of.End()
		_, err = of.WriteTo(io.Discard)
		return err
	}
	at := func(r *Repository, commit string, path ...string) error {
		tree, err := r.RootTree(Target{Commit: commit})
		if err == nil {
			_, err = r.At(tree, path)
		}
		return err
	}
	resolve := func(r *Repository, name string) error { _, _, err := r.Resolve([]string{name}); return err }
	change := func(r *Repository, id string) (*Commit, error) { return r.Commit(id) }
	questions := []struct {
		name string
		ask  func(r *Repository) error
		by   []string // the objects that the answer shows
	}{
		{"a branch", func(r *Repository) error { return resolve(r, "main") }, nil},
		{"an old branch", func(r *Repository) error { return resolve(r, "old") }, []string{secret}},
		{"a tag", func(r *Repository) error { return resolve(r, "v1") }, []string{tag}},
		{"a file", func(r *Repository) error { return at(r, secret, "in", "secret") }, []string{secret, root, folder, blob}},
		{"a folder", func(r *Repository) error { return at(r, secret, "in") }, []string{secret, root, folder}},
		{"another file", func(r *Repository) error { return at(r, secret, "README") }, []string{secret, root}},
		{"a later file", func(r *Repository) error { return at(r, main, "in", "secret") }, nil},
		{"a tree", func(r *Repository) error { _, err := r.Tree(folder); return err }, []string{folder}},
		{"a blob", func(r *Repository) error { _, err := r.Blob(blob, 100); return err }, []string{blob}},
		{"a stream", func(r *Repository) error { return stream(r.BlobStream(blob)) }, []string{blob}},
		{"the diff that adds", func(r *Repository) error { _, err := r.Diff(clean, secret); return err }, []string{secret, root, folder, blob}},
		{"the diff that removes", func(r *Repository) error { _, err := r.Diff(secret, main); return err }, []string{secret, root, folder, blob}},
		{"the diff of all", func(r *Repository) error { _, err := r.Diff(clean, main); return err }, nil},
		{"a patch", func(r *Repository) error {
			c, err := change(r, main)
			if err != nil {
				return err
			}
			return stream(r.PatchStream(c, true))
		}, []string{secret, root, folder, blob}},
		{"an archive", func(r *Repository) error {
			f, err := r.Archive(secret, "zip", "x")
			if err != nil {
				return err
			}
			return f.Close()
		}, []string{secret, root, folder, blob}},
		{"a later archive", func(r *Repository) error {
			f, err := r.Archive(main, "zip", "x")
			if err != nil {
				return err
			}
			return f.Close()
		}, nil},
		{"a log", func(r *Repository) error { _, _, err := r.Log(main, 0, 10); return err }, nil},
		{"a path log", func(r *Repository) error { _, _, err := r.PathLog(main, []string{"in", "secret"}, 0, 10); return err }, nil},
		{"last changes", func(r *Repository) error { _, err := r.LastChanges(main, []string{"in"}); return err }, nil},
		{"a blame", func(r *Repository) error { _, err := r.Blame(main, []string{"in", "secret"}); return err }, nil},
	}
	for _, down := range []string{"", blob, folder, root, secret, tag} {
		barred = map[string]string{}
		if down != "" {
			barred[down] = "banned by the operator: secret"
		}
		for range 2 { // the second answer may come from memory
			r := s.open(repo)
			for _, q := range questions {
				want := down != "" && slices.Contains(q.by, down)
				taken := (*TakenDown)(nil)
				if err := q.ask(r); errors.As(err, &taken) != want || !want && err != nil || want && taken.ID != down {
					t.Errorf("%.7s is down: %s: %v, want a refusal: %v", down, q.name, err, want)
				}
			}
			matches, _, err := r.Grep(secret, "secret")
			if hidden := slices.Contains([]string{blob, folder, root}, down); (down == secret) != (err != nil) || err == nil && (len(matches) == 0) != hidden {
				t.Errorf("%.7s is down: a search finds %v, %v", down, matches, err)
			}
			c, err := r.Commit(secret)
			if err != nil || strings.Contains(c.Message, "a secret") == (down == secret) || (c.Author.Name == "") != (down == secret) || len(c.Parents) != 1 || c.Tree != root {
				t.Errorf("%.7s is down: the commit is %+v, %v", down, c, err)
			}
			if message, err := r.Tag(tag); err != nil || strings.Contains(message.Message, "a tag") == (down == tag) {
				t.Errorf("%.7s is down: the tag is %+v, %v", down, message, err)
			}
		}
	}
}
