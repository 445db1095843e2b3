package gitrepo

import (
	"fmt"
	"testing"
)

// BenchmarkLookups are what the host asks of a repository around each push.
func BenchmarkLookups(b *testing.B) {
	root := newRoot(b)
	r := newRepo(b, root, alice, "x", SHA1)
	dir, _, second := work(b, SHA1)
	git(b, dir, "push", "-q", r.Dir(), "main", "v1")
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"Refs", func() error { _, err := r.Refs(b.Context()); return err }},
		{"Refs by git", func() error { _, err := r.askRefs(b.Context()); return err }},
		{"Ref", func() error { _, _, err := r.Ref(b.Context(), "refs/heads/main"); return err }},
		{"Has", func() error { _, err := r.Has(b.Context(), second); return err }},
		{"Connected", func() error { _, err := r.Connected(b.Context(), second); return err }},
		{"SetHEAD", func() error { return r.SetHEAD(b.Context(), "refs/heads/main") }},
		{"Greet", func() error { _, _, err := r.AdvertiseRefs(b.Context(), ReceivePack, 0, false); return err }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if err := c.do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	n := 0
	b.Run("Init", func(b *testing.B) {
		for b.Loop() {
			n++
			newRepo(b, root, alice, fmt.Sprint("new", n), SHA1)
		}
	})
}
