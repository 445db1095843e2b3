package testkit

import "testing"

func TestCommit(t *testing.T) {
	one, other := NewRepository(t), NewRepository(t)
	if a, b := Commit(t, one, "text"), Commit(t, other, "text"); a != b || len(a) != 40 {
		t.Errorf("the same commit is %s and then %s", a, b)
	}
	if out, err := TryGit(t.Context(), one, "rev-parse", "nothing"); err == nil || out == "" {
		t.Errorf("git says %q, %v about what is not there", out, err)
	}
	if id := Commit(t, NewRepository(t, "--object-format=sha256"), "text"); len(id) != 64 {
		t.Errorf("%s is no id of SHA-256", id)
	}
}
