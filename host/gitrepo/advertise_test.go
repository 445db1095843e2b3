package gitrepo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// withoutAgent takes the name of the program out of the first words of a push, and the
// lengths of lines.
func withoutAgent(t *testing.T, said []byte) (text []byte) {
	t.Helper()
	for len(said) > 4 {
		n, err := strconv.ParseUint(string(said[:4]), 16, 16)
		if err != nil || int(n) > len(said) {
			t.Fatalf("%q is no pkt-line", said)
		}
		line, agent, found := bytes.Cut(said[4:n], []byte(" agent="))
		if text = append(text, line...); found {
			text = append(text, agent[bytes.IndexByte(agent, '\n'):]...)
		}
		said = said[n:]
	}
	return append(text, said...)
}

// TestGreetIsWhatGitSays: the greeting that is made without git equals git's, to the byte,
// except for capabilities that a push does not have here.
func TestGreetIsWhatGitSays(t *testing.T) {
	root := newRoot(t)
	for _, format := range []Format{SHA1, SHA256} {
		x, y := newRepo(t, root, alice, "x"+format.String(), format), newRepo(t, root, alice, "y"+format.String(), format)
		dir, _, _ := work(t, format)
		same := func(r *Repo, what string) {
			t.Helper()
			for _, c := range []struct {
				s    Service
				v    Protocol
				want bool
			}{{UploadPack, 0, false}, {UploadPack, 1, false}, {UploadPack, 2, true}, {ReceivePack, 0, true}, {ReceivePack, 1, true}} {
				got, ok, err := r.AdvertiseRefs(t.Context(), c.s, c.v, false)
				if (what == "empty" || what == "another") && c.s == UploadPack && c.v < 2 {
					continue // see TestGreetEmpty
				}
				if ok != c.want || err != nil {
					t.Errorf("%s: %s in version %d: %t, %v", what, c.s, c.v, ok, err)
				}
				if !ok {
					continue
				}
				p, err := r.serve(t.Context(), c.v, c.s.String(), "--stateless-rpc", "--http-backend-info-refs", ".")
				if err != nil {
					t.Fatal(err)
				}
				want, err := io.ReadAll(p.Out)
				if err := errors.Join(err, p.Wait()); err != nil {
					t.Fatal(err)
				}
				if c.s == ReceivePack {
					want, got = withoutAgent(t, want), withoutAgent(t, got)
					want = bytes.Replace(want, []byte(" report-status-v2"), nil, 1)
				}
				if string(got) != string(want) {
					t.Errorf("%s: %s in version %d is\n%q\ngit says\n%q", what, c.s, c.v, got, want)
				}
			}
		}
		same(x, "empty")
		git(t, dir, "push", "-q", x.Dir(), "main", "v1", "main~:refs/heads/a/b", "main:refs/heads/a-b", "main:refs/nostr/"+strings.Repeat("ab", 32))
		same(x, "with refs")
		git(t, x.Dir(), "pack-refs", "--all")
		git(t, dir, "push", "-q", x.Dir(), "+main~:main", fmt.Sprint("main:refs/tags/", strings.Repeat("x", 240)))
		same(x, "with packed refs")
		same(y, "another")
		// Shared objects have refs of their own once they are collected: no .have lines.
		if err := root.Collect(t.Context(), "x"+format.String(), format, 0); err != nil {
			t.Fatal(err)
		}
		same(x, "collected")
	}
	if _, _, err := root.Repo(mustName(t, bob, "x")).AdvertiseRefs(t.Context(), UploadPack, 2, false); !errors.Is(err, ErrNotFound) {
		t.Errorf("no repository: %v", err)
	}
	plain := filepath.Join(t.TempDir(), "plain.git")
	git(t, ".", "init", "-q", "--bare", plain)
	folder, err := OpenFolder(root.git, filepath.Dir(plain))
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	r, err := folder.Find([]string{"plain"})
	if err != nil {
		t.Fatal(err)
	}
	if text, ok, err := r.AdvertiseRefs(t.Context(), UploadPack, 0, false); !ok || err != nil || !strings.Contains(string(text), " allow-tip-sha1-in-want ") {
		t.Errorf("a fetch from it: %q, %t, %v", text, ok, err)
	}
	if _, ok, err := r.AdvertiseRefs(t.Context(), UploadPack, 2, false); ok || err != nil {
		t.Errorf("a repository with a configuration of its own: %t, %v", ok, err)
	}
	if text, ok, err := r.AdvertiseRefs(t.Context(), ReceivePack, 0, false); !ok || err != nil || !strings.Contains(string(text), "object-format=sha1") {
		t.Errorf("a push to it: %q, %t, %v", text, ok, err)
	}
}

// An empty repository says what a fetch can be, in the words that git has once there are
// refs, and which branch HEAD names.
func TestGreetEmpty(t *testing.T) {
	options := DefaultOptions
	options.DefaultBranch = "trunk/x"
	g, err := Find(t.Context(), "git", options)
	if err != nil {
		t.Fatal(err)
	}
	root, err := Open(g, filepath.Join(t.TempDir(), "git"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Close)
	for _, format := range []Format{SHA1, SHA256} {
		r := newRepo(t, root, alice, format.String(), format)
		if refs, err := r.Refs(t.Context()); err != nil || refs.HEAD != "refs/heads/trunk/x" {
			t.Errorf("HEAD names %q, %v", refs.HEAD, err)
		}
		greet := func(v Protocol) []string {
			t.Helper()
			text, ok, err := r.AdvertiseRefs(t.Context(), UploadPack, v, false)
			if !ok || err != nil {
				t.Fatalf("version %d: %q, %t, %v", v, text, ok, err)
			}
			line := strings.TrimPrefix(string(text), "000eversion 1\n")
			ref, can, _ := strings.Cut(line[4:], "\x00")
			if want := zeros(format) + " capabilities^{}"; ref != want || !strings.HasSuffix(line, "\n0000") || (v == 1) != (len(line) < len(text)) {
				t.Errorf("version %d begins with %q", v, text)
			}
			return words(can[:strings.IndexByte(can, '\n')])
		}
		empty, one := greet(0), greet(1)
		dir, _, _ := work(t, format)
		git(t, dir, "push", "-q", r.Dir(), "main:refs/heads/trunk/x")
		p, err := r.Advertise(t.Context(), UploadPack, 0)
		if err != nil {
			t.Fatal(err)
		}
		out, err := io.ReadAll(p.Out)
		if err := errors.Join(err, p.Wait()); err != nil {
			t.Fatal(err)
		}
		_, can, _ := strings.Cut(string(out), "\x00")
		want := words(can[:strings.IndexByte(can, '\n')])
		if !slices.Equal(empty, want) || !slices.Equal(one, want) || !slices.Contains(want, "symref=HEAD:refs/heads/trunk/x") {
			t.Errorf("an empty repository says\n%q\n%q\none with a branch says\n%q", empty, one, want)
		}
	}
	for _, wrong := range []string{"a..b", "a b", "/a", "a.lock"} {
		options.DefaultBranch = wrong
		if _, err := Find(t.Context(), "git", options); err == nil {
			t.Errorf("a default branch %q is taken", wrong)
		}
	}
}

// words are the capabilities of a line in order, without the name of the program.
func words(can string) []string {
	list := strings.Fields(can)
	slices.Sort(list)
	return slices.DeleteFunc(list, func(word string) bool { return strings.HasPrefix(word, "agent=") })
}
