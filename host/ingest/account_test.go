package ingest

import (
	"net/netip"
	"testing"
	"time"

	"talon/host"
	"talon/host/bound"
)

// networkSources makes the sources of a network or neighbourhood that floods.
var networkSources = map[string]func(n int) *host.Source{
	"one address": func(int) *host.Source { return &host.Source{Addr: netip.MustParseAddr("198.51.100.7")} },
	"neighbours of IPv4": func(n int) *host.Source {
		return &host.Source{Addr: netip.AddrFrom4([4]byte{198, 51, 100, byte(n)})}
	},
	"one network of IPv6": func(n int) *host.Source {
		return &host.Source{Addr: netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: byte(n)})}
	},
	"neighbours of IPv6": func(n int) *host.Source {
		return &host.Source{Addr: netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 7: byte(n)})}
	},
}

// TestNetworksShareWorkers has one network send without a pause over 100 connections, or over
// a new connection for each event. A client of another network gets half of the workers' time
// if it sends without a pause too, and goes first if it sends now and then.
func TestNetworksShareWorkers(t *testing.T) {
	for name, source := range networkSources {
		for _, fresh := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s := newSchedule(1, newMetrics())
				honest := &host.Source{Addr: netip.MustParseAddr("192.0.2.1")}
				send := func(source *host.Source) *entry {
					e := &entry{item: &host.Item{Source: source}}
					s.add(source, bound.Holder{Addr: source.Addr}, e)
					return e
				}
				sent := 0
				attack := func(source *host.Source) {
					sent++
					send(source)
				}
				for n := range 100 {
					attack(source(n))
				}
				// serve decides once, and returns who had sent that.
				serve := func() *host.Source {
					e := s.dequeue()
					s.done(e, time.Millisecond)
					for _, e := range s.appendReady(nil) {
						for ; e != nil; e = s.pop(e, 0) {
							if from := e.lane.source; from != honest && fresh {
								attack(source(sent % 200))
							} else if from != honest {
								attack(from)
							}
						}
					}
					return e.item.Source
				}
				send(honest)
				mine := 0
				for range 1000 {
					if serve() == honest {
						mine++
						send(honest)
					}
				}
				if mine < 450 || mine > 550 {
					t.Errorf("a client got %d of 1,000 decisions beside one network, want half", mine)
				}
				for n := 0; serve() != honest; n++ { // until its last one
					if n == 1000 {
						t.Fatal("a client is not served beside one network")
					}
				}
				for round := range 100 {
					for range 1 + round%7 {
						serve()
					}
					send(honest)
					if serve() != honest {
						t.Fatalf("round %d: a client that sends now and then does not go first", round)
					}
				}
			})
		}
	}
}

// TestNetworksShareSlowDecisions has one network send events with slow decisions over 100
// connections. It does not use up the decisions that wait for a module at one time.
func TestNetworksShareSlowDecisions(t *testing.T) {
	for name, source := range networkSources {
		t.Run(name, func(t *testing.T) {
			s := newSchedule(1000, newMetrics())
			s.spawn = func() {}
			honest := &host.Source{Addr: netip.MustParseAddr("192.0.2.1")}
			send := func(source *host.Source) {
				s.add(source, bound.Holder{Addr: source.Addr}, &entry{item: &host.Item{Source: source}})
			}
			var sources []*host.Source
			for n := range 100 {
				sources = append(sources, source(n))
			}
			// begin takes what may be decided now.
			begin := func() (list []*entry) {
				for e := s.dequeue(); e != nil; e = s.dequeue() {
					list = append(list, e)
				}
				return list
			}
			end := func(list []*entry) {
				for _, e := range list {
					e.waited = "hangs"
					s.done(e, time.Second)
				}
				for _, e := range s.appendReady(nil) {
					for ; e != nil; e = s.pop(e, 0) {
					}
				}
			}
			for _, source := range append(sources, honest) { // they are known to be slow then
				send(source)
			}
			end(begin())
			for _, source := range sources {
				send(source)
			}
			under := begin()
			if len(under) != maxSlowNetwork {
				t.Errorf("%d slow decisions of one network are under way, want %d", len(under), maxSlowNetwork)
			}
			send(honest)
			if mine := begin(); len(mine) != 1 || mine[0].item.Source != honest {
				t.Errorf("the slow decision of somebody else does not begin: %d others do", len(mine))
			}
			decided := 0
			for ; len(under) > 0; under = begin() {
				if decided += len(under); len(under) > maxSlowNetwork {
					t.Errorf("%d slow decisions are under way", len(under))
				}
				end(under)
			}
			if decided != len(sources) {
				t.Errorf("%d of %d events were decided", decided, len(sources))
			}
		})
	}
}
