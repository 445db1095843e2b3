package counter

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"talon/host"
)

// judge refuses events of kind 7.
type judge struct{}

func (judge) Submit(_ context.Context, it *host.Item) error {
	v := host.Verdict{Code: host.Stored}
	if it.Event.Kind == 7 {
		v = host.Verdict{Code: host.Rejected, Reason: "blocked: " + strings.Repeat("é", 100)}
	}
	it.Done(v, nil)
	return nil
}

// TestCounter: a wave leaves one line, a quiet minute none, and addresses count their accepted bytes of
// the day.
func TestCounter(t *testing.T) {
	var log bytes.Buffer
	now := time.Unix(1_700_000_000, 0)
	counter := New(judge{}, slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
	answers := 0
	send := func(n int, kind host.Kind, author, address byte) {
		for range n {
			err := counter.Submit(t.Context(), &host.Item{
				Event:  &host.Event{PubKey: host.PubKey{author}, Kind: kind, JSON: make([]byte, 100)},
				Source: &host.Source{Addr: netip.AddrFrom4([4]byte{192, 0, 2, address})},
				Done:   func(host.Verdict, error) { answers++ },
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	send(19, 7, 1, 1)
	counter.sum()
	if log.Len() > 0 {
		t.Errorf("a quiet minute: %s", &log)
	}
	send(15, 7, 1, 1)
	send(10, 7, 2, 2)
	send(5, 1, 2, 2)
	counter.sum()
	line := log.String()
	for _, want := range []string{"events=30 refused=25", `reasons="blocked: é`, `× 25"`, `kinds="7 × 25, 1 × 5"`, `addresses="192.0.2.1 × 15, 192.0.2.2 × 15"`, host.PubKey{1}.String() + " × 15"} {
		if !strings.Contains(line, want) && !(strings.HasPrefix(want, "addresses") && strings.Contains(line, `addresses="192.0.2.2 × 15, 192.0.2.1 × 15"`)) {
			t.Errorf("the line lacks %s: %s", want, line)
		}
	}
	if strings.Count(line, "\n") != 1 || answers != 49 {
		t.Errorf("%d answers, log: %s", answers, line)
	}
	if got := counter.Addresses(10); len(got) != 1 || got[0].Key.String() != "192.0.2.2" || got[0].N != 500 {
		t.Errorf("addresses: %v", got)
	}
	now = now.Add(24 * time.Hour)
	if got := counter.Addresses(10); len(got) != 0 {
		t.Errorf("addresses of a new day: %v", got)
	}
	// A client has many addresses of one /64, among many clients that send less.
	for i := range 100_000 {
		event := &host.Event{PubKey: host.PubKey{byte(i), byte(i >> 8), byte(i >> 16)}, Kind: host.Kind(i), JSON: []byte("{}")}
		counter.count(event, networkOf(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})), host.Verdict{Code: host.Stored})
		if i%10 == 0 {
			counter.count(event, networkOf(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 13: byte(i >> 16), byte(i >> 8), byte(i)})), host.Verdict{Code: host.Stored})
		}
	}
	if got := counter.Addresses(1); len(got) != 1 || got[0].Key.String() != "2001:db8::/64" || got[0].N != 20_000 {
		t.Errorf("the largest of the day: %v", got)
	}
	if n := len(counter.bytes.Top(1 << 20)); n > 2*ofDay {
		t.Errorf("%d networks are remembered", n)
	}
	if n := len(counter.this.authors.Top(1 << 20)); n > 2*remembered {
		t.Errorf("%d authors are remembered", n)
	}
}

// TestRecent: the counts of this minute and the one before are one answer, and older ones are gone.
func TestRecent(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	counter := New(judge{}, slog.New(slog.DiscardHandler), func() time.Time { return now })
	send := func(n int, kind host.Kind) {
		for range n {
			err := counter.Submit(t.Context(), &host.Item{
				Event: &host.Event{PubKey: host.PubKey{byte(kind)}, Kind: kind}, Source: &host.Source{Addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(kind)})},
				Done: func(host.Verdict, error) {},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	began := now
	send(3, 1)
	now = now.Add(time.Minute)
	counter.sum()
	send(2, 7)
	send(4, 2)
	r := counter.Recent(2)
	if r.Events != 9 || r.Refused != 2 || !r.Since.Equal(began) || len(r.Kinds) != 2 || r.Kinds[0].Key != 2 || r.Kinds[1].Key != 1 ||
		len(r.Authors) != 2 || r.Addresses[0].N != 4 || len(r.Reasons) != 1 || r.Reasons[0].N != 2 {
		t.Errorf("two minutes: %+v", r)
	}
	now = now.Add(time.Minute)
	counter.sum()
	if r := counter.Recent(5); r.Events != 6 || len(r.Kinds) != 2 || !r.Since.Equal(began.Add(time.Minute)) {
		t.Errorf("a minute later: %+v", r)
	}
	counter.sum()
	if r := counter.Recent(5); r.Events != 0 || len(r.Kinds) != 0 {
		t.Errorf("two minutes later: %+v", r)
	}
}
