package githttp

import (
	"strings"
	"testing"
	"time"

	"talon/host/gitrepo"
)

// TestProcessorTime shows that a git which works for ever ends when its processor time is up,
// and that its address has none left for the next push. Others have theirs.
func TestProcessorTime(t *testing.T) {
	options := gitrepo.DefaultOptions
	options.CPU = time.Nanosecond
	program := gitThat(t, "index-pack", "while :; do :; done")
	s := newSiteOf(t, program, options, func(l *Limits) { l.CPU, l.GitTime = 100*time.Millisecond, time.Hour })
	s.from("192.0.2.1")
	_, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	for i, says := range []string{"the push takes more work than its size allows", "pushes from your address have taken all the time"} {
		out, err := tryGit(t.Context(), dir, "push", url, "main")
		if err == nil || !strings.Contains(out, says) {
			t.Errorf("push %d: %v\n%s", i, err, out)
		}
	}
	s.from("198.51.100.1")
	if out, err := tryGit(t.Context(), dir, "push", url, "main"); err == nil || !strings.Contains(out, "more work than its size allows") {
		t.Errorf("a push of somebody else: %v\n%s", err, out)
	}
}
