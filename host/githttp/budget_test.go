package githttp

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"talon/host/gitrepo"
)

func TestBudget(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	b := NewBudget(60, func() time.Time { return now })
	one, neighbour, other := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("192.0.2.1")
	wait := func(addr netip.Addr, want time.Duration) {
		t.Helper()
		if got := b.Wait(addr); got.Round(time.Second) != want {
			t.Errorf("%s waits %v, want %v", addr, got, want)
		}
	}
	wait(one, 0)
	b.Charge(one, 59)
	wait(one, 0)
	b.Charge(one, 61) // what began while something was left
	wait(one, 66*time.Minute)
	wait(neighbour, 66*time.Minute)
	wait(other, 0)
	now = now.Add(65 * time.Minute)
	wait(one, 0)
	b.Charge(one, 5)
	wait(one, 6*time.Minute)
	now = now.Add(-24 * time.Hour) // a clock that goes back gives nothing, and takes nothing
	wait(one, 6*time.Minute)

	for _, addr := range []netip.Addr{{}, netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")} {
		b.Charge(addr, 1e9)
		wait(addr, 0)
	}
	none := NewBudget(0, time.Now)
	none.Charge(one, 1e9)
	if none.Wait(one) != 0 {
		t.Error("a budget without a bound has one")
	}
	b.Charge(one, 1000)
	for i := range 3 * maxNetworks {
		b.Charge(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 1)
	}
	if len(b.used) > maxNetworks {
		t.Errorf("%d networks are remembered", len(b.used))
	}
	if b.Wait(one) == 0 {
		t.Error("who has used the most is forgotten")
	}
}

// A git that works for ever ends when its processor time is up, and its address has none
// for the next push; others have.
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
