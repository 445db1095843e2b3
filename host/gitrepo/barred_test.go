package gitrepo

import (
	"errors"
	"strings"
	"testing"

	"talon/host"
)

// TestFetchBarred: a fetch does not bring an object that the operator has barred, of either format, and
// Reaches finds it where a ref reaches it.
func TestFetchBarred(t *testing.T) {
	for _, format := range []Format{SHA1, SHA256} {
		t.Run(format.String(), func(t *testing.T) {
			root := newRoot(t)
			r := newRepo(t, root, alice, "project", format)
			dir, first, second := work(t, format)
			barred := []string{strings.Repeat("0f", 20), strings.Repeat("0f", 32), first}
			root.git.options.Barred = func() []string { return barred }
			url := served(t, dir)
			refused := (*Refused)(nil)
			if _, err := fetch(t, r, url, second); !errors.As(err, &refused) || !strings.Contains(err.Error(), first+" was taken down") {
				t.Fatalf("a fetch of a barred object: %v", err)
			}
			if has, err := r.Has(t.Context(), first); err != nil || has[0] {
				t.Errorf("the barred object is here: %v", err)
			}
			clean(t, root)
			barred = barred[:2]
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
