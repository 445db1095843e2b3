package gitrepo

import (
	"errors"
	"strings"
	"testing"

	"talon/host"
	"talon/host/bound"
)

// TestFetchBarred: a fetch does not bring an object that the operator has barred, of either format, and
// Reaches finds it where a ref reaches it.
func TestFetchBarred(t *testing.T) {
	for _, format := range []Format{SHA1, SHA256} {
		t.Run(format.String(), func(t *testing.T) {
			root := newRoot(t)
			r := newRepo(t, root, alice, "project", format)
			dir, first, second := work(t, format)
			barred := map[string]string{strings.Repeat("0f", 20): "", strings.Repeat("0f", 32): "", first: "banned by the operator: secret"}
			root.git.options.Barred = func() map[string]string { return barred }
			url := served(t, dir)
			refused := (*Refused)(nil)
			if _, err := fetch(t, r, url, second); !errors.As(err, &refused) || !strings.Contains(err.Error(), first+" was banned by the operator: secret") {
				t.Fatalf("a fetch of a barred object: %v", err)
			}
			if has, err := r.Has(t.Context(), first); err != nil || has[0] {
				t.Errorf("the barred object is here: %v", err)
			}
			clean(t, root)
			delete(barred, first)
			if _, err := fetch(t, r, url, second); err != nil {
				t.Fatal(err)
			}
			for _, want := range []bool{false, true} {
				for _, id := range []string{first, second} {
					if reaches, err := r.Reaches(t.Context(), id); err != nil || reaches != want {
						t.Errorf("reaches %s: %v, %v, want %v", id, reaches, err, want)
					}
				}
				locked(t, r, func() {
					if err := r.UpdateRefs(t.Context(), []host.RefUpdate{{Ref: "refs/heads/main", New: second}}); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// TestWantBarred: a fetch does not get what reaches an object that was taken down, and gets the rest.
func TestWantBarred(t *testing.T) {
	root := newRoot(t)
	r := newRepo(t, root, alice, "project", SHA1)
	dir, first, second := work(t, SHA1)
	git(t, dir, "push", "-q", r.Dir(), "main", "v1")
	blob, tag := git(t, dir, "rev-parse", "main:file"), git(t, dir, "rev-parse", "v1")
	barred := map[string]string{}
	root.git.options.Barred = func() map[string]string { return barred }
	walk := func(want string) error {
		t.Helper()
		wants, err := r.Wants(t.Context(), strings.NewReader(string(AppendPkt(nil, "want "+want+"\n"))))
		if err != nil {
			return err
		}
		if !wants.Open() {
			return nil
		}
		task, err := root.Scheduler().Reserve(t.Context(), ClassFetch, bound.Holder{})
		if err != nil {
			t.Fatal(err)
		}
		defer task.End()
		if err := task.Start(); err != nil {
			t.Fatal(err)
		}
		_, err = wants.Walk(task)
		return err
	}
	for _, tt := range []struct {
		barred string
		want   map[string]bool // whether a fetch gets it
	}{
		{"", map[string]bool{first: true, second: true, tag: true, blob: true}},
		{strings.Repeat("0f", 20), map[string]bool{first: true, second: true, tag: true, blob: true}},
		{blob, map[string]bool{first: true, second: false, tag: true, blob: false}},
		{second, map[string]bool{first: true, second: false, tag: true, blob: true}},
		{first, map[string]bool{first: false, second: false, tag: false, blob: true}},
		{tag, map[string]bool{first: true, second: true, tag: false, blob: true}},
	} {
		barred = map[string]string{tt.barred: "hidden by the operator"}
		for id, want := range tt.want {
			for range 2 { // the second answer is remembered
				down := (*TakenDown)(nil)
				if err := walk(id); want && err != nil || !want && (!errors.As(err, &down) || down.ID != tt.barred || !strings.HasSuffix(err.Error(), "was hidden by the operator")) {
					t.Errorf("%s is down: a fetch of %s gets %v, want it: %v", tt.barred, id, err, want)
				}
			}
		}
	}
}
