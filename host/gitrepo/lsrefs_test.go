package gitrepo

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"talon/host"
)

// lsRefs is a request for a list of refs.
func lsRefs(format Format, arguments ...string) string {
	text := AppendPkt(nil, "command=ls-refs\n")
	text = AppendPkt(text, "agent=git/2.39.5")
	text = AppendPkt(text, "object-format="+format.String())
	text = append(text, "0001"...)
	for _, argument := range arguments {
		text = AppendPkt(text, argument, "\n")
	}
	return string(append(text, "0000"...))
}

// gitAnswers returns what git answers to a request.
func gitAnswers(t testing.TB, r *Repo, request string) string {
	t.Helper()
	p, err := r.Upload(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	p.feed([]byte(request))
	out, err := io.ReadAll(p.Out)
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // it fails where the request is wrong
	return string(out)
}

// TestListRefs compares lists of refs with those of git, in several states of a repository.
func TestListRefs(t *testing.T) {
	for _, format := range []Format{SHA1, SHA256} {
		root := newRoot(t)
		r := newRepo(t, root, alice, "x", format)
		compare := func(state string) {
			t.Helper()
			if _, err := r.Refs(t.Context()); err != nil { // it learns what tags are of
				t.Fatal(err)
			}
			for _, arguments := range [][]string{
				nil, {"peel"}, {"symrefs"}, {"unborn"}, {"peel", "symrefs", "unborn"}, {"symrefs", "unborn", "ref-prefix HEAD"},
				{"peel", "symrefs", "ref-prefix refs/heads/", "ref-prefix refs/tags/"}, {"ref-prefix refs/heads/ma"}, {"ref-prefix absent"},
				{"peel", "ref-prefix HEAD", "ref-prefix refs/tags/v1", "ref-prefix refs/"}, {"ref-prefix "},
			} {
				request := lsRefs(format, arguments...)
				want := gitAnswers(t, r, request)
				got, ok, err := r.ListRefs(t.Context(), request)
				if err != nil || !ok || string(got) != want {
					t.Errorf("%s, %s, %q: %q, %t, %v; git says %q", format, state, arguments, got, ok, err, want)
				}
			}
		}
		compare("empty")
		dir, first, second := work(t, format)
		git(t, dir, "push", "-q", r.Dir(), "--all")
		git(t, dir, "push", "-q", r.Dir(), "--tags")
		compare("loose refs")
		locked(t, r, func() {
			if err := r.PackRefs(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
		compare("packed refs")
		locked(t, r, func() {
			if err := r.UpdateRefs(t.Context(), []host.RefUpdate{{Ref: "refs/heads/other", New: first}, {Ref: "refs/nostr/x", New: second}}); err != nil {
				t.Fatal(err)
			}
		})
		compare("both")
		locked(t, r, func() {
			if err := r.SetHEAD(t.Context(), "refs/heads/absent"); err != nil {
				t.Fatal(err)
			}
		})
		compare("HEAD is unborn")
	}
}

// TestUnusualListsAreGits shows which requests git answers.
func TestUnusualListsAreGits(t *testing.T) {
	r := newRepo(t, newRoot(t), alice, "x", SHA1)
	good := lsRefs(SHA1, "peel")
	var many []string
	for i := range maxRefPrefixes + 1 {
		many = append(many, fmt.Sprint("ref-prefix refs/heads/", i))
	}
	for _, request := range []string{
		"", "0000", "0001", good + "0000", good[:len(good)-4], good[:30], "zzzz" + good, strings.Replace(good, "0001", "00010001", 1),
		lsRefs(SHA256), lsRefs(SHA1, "color"), lsRefs(SHA1, "ref-prefix"), lsRefs(SHA1, many...), strings.Replace(good, "ls-refs", "fetches", 1),
	} {
		if text, ok, err := r.ListRefs(t.Context(), request); ok || err != nil {
			t.Errorf("%.60q is answered with %q, %v", request, text, err)
		}
	}
	if _, ok, err := r.ListRefs(t.Context(), good); !ok || err != nil {
		t.Errorf("%q: %t, %v", good, ok, err)
	}
}

func FuzzRefsRequest(f *testing.F) {
	f.Add(lsRefs(SHA1, "peel", "symrefs", "ref-prefix refs/"))
	f.Add("00020003ffff")
	f.Fuzz(func(t *testing.T, text string) {
		if q, ok := parseRefsRequest(text, SHA1); ok && (len(q.prefixes) > maxRefPrefixes || !strings.HasSuffix(text, "0000")) {
			t.Errorf("%q is %+v", text, q)
		}
	})
}
