package relaysync

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"talon/host"
	"talon/host/bound"
	"talon/host/netguard"
	"talon/host/relaysync/loop"
	"talon/internal/testkit"
	"talon/sdk/abi"
)

// TestStrangersShares shows that one network's announcements bring an eighth of the relays that
// announcements without git data may bring, and that a newcomer's relay takes the place of one of
// theirs when all are taken.
func TestStrangersShares(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	const connections = 64 // 32 places, 4 for one network
	origins := map[host.ID]netip.Addr{}
	s := newStrangers(connections, func(id host.ID, author host.PubKey) bound.Namer {
		return bound.Namer{Addr: origins[id], Author: string(author[:])}
	}, func() time.Time { return now })
	var displaced int
	admit := func(network, n byte) bool {
		id := host.ID{network, n}
		origins[id] = netip.AddrFrom4([4]byte{198, 18, network, n})
		_, ok := s.Admit(id, host.PubKey{network, n}, func() { displaced++ })
		return ok
	}
	for network := range byte(8) {
		for n := range byte(6) {
			if ok := admit(network, n); ok != (n < 4) {
				t.Fatalf("relay %d of network %d: %v", n, network, ok)
			}
		}
	}
	if !admit(100, 1) || displaced != 1 {
		t.Errorf("a newcomer's relay took the place of %d others, want 1", displaced)
	}
	if _, ok := s.Admit(host.ID{99}, host.PubKey{99}, nil); ok {
		t.Error("a relay of a synced announcement displaces another")
	}
	s = newStrangers(connections, synced, func() time.Time { return now })
	for n := range byte(40) {
		if _, ok := s.Admit(host.ID{n}, host.PubKey{n}, func() { t.Error("a synced announcement's relay was displaced") }); ok != (n < 32) {
			t.Errorf("relay %d of synced announcements: %v, want those of half the connections", n, ok)
		}
	}
}

// synced is the namer of announcements that came from relays.
func synced(_ host.ID, author host.PubKey) bound.Namer { return bound.Namer{Author: string(author[:])} }

// TestStrangersAddress shows that any number of names of one address are dialed as often as the
// address may be, and that a relay that has to wait is reported so.
func TestStrangersAddress(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := newStrangers(100, synced, func() time.Time { return now })
	guard := s.guard(netguard.Guard{Private: true})
	dials := 0
	var last error
	for range 1000 {
		if last = guard.Charge(netip.MustParseAddr("192.0.2.80")); last == nil {
			dials++
		}
	}
	if dials > 36 {
		t.Errorf("1,000 names of one address led to %d connections, want a few dozen", dials)
	}
	ended := Classify(fmt.Errorf("dial: %w", last), false)
	if ended.Postponed <= 0 || ended.Postponed > time.Hour.Milliseconds() {
		t.Errorf("the relay waits %d ms, want up to an hour", ended.Postponed)
	}
}

// TestStrangersDial shows that relays which only held announcements name are dialed by the dialer
// that charges addresses.
func TestStrangersDial(t *testing.T) {
	r := newRemote(t, nil)
	var s *Sync
	w := start(t, func(*abi.StepView) []abi.StepAction { return nil }, func(cfg *Config, deps *Deps) {
		deps.Namer = synced
	})
	s = w.sync
	dialed := make(chan string, 2)
	for name, stranger := range map[string]bool{"plain": false, "charged": true} {
		record := recorder{name, dialed}
		v := &Sync{cfg: s.cfg, dialer: record, charged: record}
		if stranger {
			v.dialer = nil
		} else {
			v.charged = nil
		}
		l := newLine(t.Context(), v, loop.Dial{Relay: r.url, Stranger: stranger})
		if _, _, err := l.dial(); err == nil {
			t.Error("the recorder connects to nothing, and a connection came of it")
		}
		if got := testkit.Receive(t, "the dialer", dialed); got != name {
			t.Errorf("stranger %v is dialed by the dialer %s", stranger, got)
		}
	}
	if s.dialer == s.charged {
		t.Error("both dialers are the same")
	}
}

// recorder is a Dialer that connects to nothing.
type recorder struct {
	name   string
	dialed chan string
}

func (r recorder) Inform(context.Context, string) (*Information, error) { return nil, errSilent }
func (r recorder) Dial(context.Context, string) (Conn, error) {
	r.dialed <- r.name
	return nil, errSilent
}
