package shell

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestJoin(t *testing.T) {
	words := []string{"lab", "", "a b", "it's", "relays.*.rate=10,50", "$HOME", "`id`", `back\slash`, "~", "a\nb", "é", "#x", `"`, "--x=y"}
	out, err := exec.Command("sh", "-c", Join(append([]string{"printf", `%s\0`}, words...)...)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, words) {
		t.Errorf("a shell reads %q, want %q", got, words)
	}
	if got, want := Join("talon", "lab", "run", "small", "--out", "a b"), "talon lab run small --out 'a b'"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
