package retry

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"talon/host"
	"talon/host/bound"
)

// runQueue carries out operations, three bytes each, on a queue, and counts again after each what is
// kept of whom.
func runQueue(t *testing.T, program []byte) {
	q := New(nil)
	for ; len(program) >= 3; program = program[3:] {
		a, b := program[1], program[2]
		author := host.PubKey{a % 32}
		addr := netip.AddrFrom4([4]byte{10, 0, 0, b % 8})
		if b%8 == 0 {
			addr = netip.MustParseAddr("127.0.0.1") // it is not counted
		}
		e := &host.Event{PubKey: author, Kind: host.Kind(b % 5), CreatedAt: int64(b)}
		e.JSON = e.AppendJSON(nil)
		it := &host.Item{Event: e, Source: &host.Source{Origin: host.FromClient, Addr: addr}}
		switch program[0] % 6 {
		case 0, 1, 2:
			life := time.Hour
			if a%8 == 0 {
				life = time.Nanosecond
			}
			q.decided(it, host.Verdict{Code: host.Rejected, Retry: life}, nil)
		case 3:
			q.decided(it, host.Verdict{Code: host.Stored}, nil)
		case 4:
			before := len(q.authors[author])
			_, accepted := q.accepted[author]
			list := q.due()
			if accepted && len(q.authors[author]) > 0 || !accepted && len(q.authors[author]) != before {
				t.Fatalf("of an author who was accepted: %v, %d of %d are kept", accepted, len(q.authors[author]), before)
			}
			for _, e := range list {
				if time.Now().After(e.until) {
					t.Fatal("an event is due whose time is over")
				}
			}
		case 5:
			q.expire()
		}
		n, networks := 0, map[netip.Prefix]int{}
		for author, list := range q.authors {
			if len(list) == 0 {
				t.Fatal("an author has an empty list")
			}
			kinds := map[host.Kind]bool{}
			for _, e := range list {
				n++
				if narrow, _ := bound.Networks(e.source.Addr); narrow.IsValid() {
					networks[narrow]++
				}
				if e.event.PubKey != author || kinds[e.event.Kind] {
					t.Fatal("an author has an event of another, or two of a kind")
				}
				kinds[e.event.Kind] = true
			}
		}
		if int64(n) != q.places.Used() {
			t.Fatalf("%d events are kept, and %d are counted", n, q.places.Used())
		}
		for network, n := range networks {
			if n > maxNetwork {
				t.Fatalf("%d events of %v are kept", n, network)
			}
		}
	}
}

func FuzzQueue(f *testing.F) {
	f.Add([]byte{0, 1, 1, 0, 1, 2, 3, 1, 1, 4, 1, 1, 0, 8, 1, 5, 0, 0})
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 5))
		program := make([]byte, 1500)
		for i := range program {
			program[i] = byte(r.Uint32())
		}
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) { runQueue(t, program[:min(len(program), 1500)]) })
}
