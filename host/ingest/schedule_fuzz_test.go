package ingest

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"talon/host"
	"talon/host/bound"
)

// modelSchedule is the entries that a schedule has, as plain lists.
type modelSchedule struct {
	*testing.T
	*schedule
	submitted map[*lane][]*entry // in their order, without those that took effect
	deciding  []*entry
	again     map[*entry]int // how often each may still be decided again
}

// decide takes the next entry, as a worker does.
func (m *modelSchedule) decide() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.dequeue()
	if e == nil {
		return false
	}
	if slices.Contains(m.deciding, e) || e.decided {
		m.Fatal("an entry is given out twice")
	}
	m.schedule.deciding++
	if m.deciding = append(m.deciding, e); len(m.deciding) > m.workers {
		m.Fatalf("%d entries are decided by %d workers", len(m.deciding), m.workers)
	}
	return true
}

// decided ends one of the decisions under way.
func (m *modelSchedule) decided(i int, took time.Duration, module string) {
	e := m.deciding[i]
	m.deciding = slices.Delete(m.deciding, i, i+1)
	m.mu.Lock()
	defer m.mu.Unlock()
	e.waited = module
	m.stopDeciding()
	m.done(e, took)
}

// turns lets what is ready take effect, or be decided again.
func (m *modelSchedule) turns() {
	for _, e := range m.appendReady(nil) {
		for e != nil {
			if list := m.submitted[e.lane]; list[0] != e || !e.decided {
				m.Fatal("an entry takes effect before another of its source, or before it is decided")
			}
			if m.again[e] > 0 {
				m.again[e]--
				m.yield(e, true)
				m.retry(e)
				break
			}
			m.submitted[e.lane] = m.submitted[e.lane][1:]
			e = m.pop(e, 0)
		}
	}
}

func runSchedule(t *testing.T, program []byte) {
	workers := 2
	if len(program)%4 < 2 {
		workers = 12 // more than one network may use for slow decisions
	}
	s := newSchedule(workers, newMetrics())
	s.spawn = func() {}
	m := &modelSchedule{T: t, schedule: s, submitted: map[*lane][]*entry{}, again: map[*entry]int{}}
	sources := make([]*host.Source, 20) // the first has no name
	for i := range sources[1:] {
		sources[i+1] = &host.Source{}
		if i > 3 { // of three networks, two of them neighbours
			sources[i+1].Addr = netip.AddrFrom4([4]byte{192, 0, byte(2 + i%3/2), byte(1 + i%3)})
		}
	}
	for ; len(program) >= 2; program = program[2:] {
		b := int(program[1])
		switch program[0] % 8 {
		case 0, 1, 2:
			e := &entry{item: &host.Item{}}
			func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				by := bound.Holder{Known: b%3 == 0}
				source := sources[b%len(sources)]
				if source != nil {
					by.Addr = source.Addr
				}
				if b%6 == 0 {
					by.Key = host.PubKey{1}
				}
				s.add(source, by, e)
			}()
			m.submitted[e.lane] = append(m.submitted[e.lane], e)
			m.again[e] = max(0, b%16-12)
		case 3, 4:
			m.decide()
		case 5:
			if len(m.deciding) > 0 {
				took := time.Duration(b) * 400 * time.Microsecond // some are slow
				m.decided(b%len(m.deciding), took, []string{"", "a", "b"}[b%3])
			}
		case 6:
			m.turns()
		case 7:
			if b%32 == 0 {
				for _, l := range s.lanes {
					l.emptied = l.emptied.Add(-2 * idleLanes)
				}
				s.evictIdle()
			}
		}
		pending := 0
		for _, list := range m.submitted {
			pending += len(list)
		}
		if s.depth() != pending {
			t.Fatalf("%d entries are pending, want %d", s.depth(), pending)
		}
	}
	// All that was submitted takes effect in the end.
	for n := 0; s.depth() > 0; n++ {
		for m.decide() {
		}
		for len(m.deciding) > 0 {
			m.decided(0, time.Microsecond, "")
		}
		m.turns()
		if n > 10_000 {
			t.Fatalf("%d entries never take effect", s.depth())
		}
	}
	if s.deciding != 0 || s.slowing != 0 || s.queued != 0 || s.fast() != 0 || len(s.unnamed) != 0 || len(s.abandon()) != 0 {
		t.Fatalf("nothing is left, and %d are decided, %d of them slow; %d and %d lanes wait, %d have no name", s.deciding, s.slowing, s.queued, s.fast(), len(s.unnamed))
	}
	for _, c := range []*class{s.known, s.others} {
		if c.busy != 0 {
			t.Fatalf("%d of a class have work when nothing is left", c.busy)
		}
		for key, a := range c.accounts {
			if a.slowing != 0 || len(a.waiting) != 0 || a.busy != 0 {
				t.Fatalf("%v has %d slow decisions under way, %d lanes that wait and %d with work, when nothing is left", key, a.slowing, len(a.waiting), a.busy)
			}
		}
	}
	for _, l := range s.lanes {
		l.emptied = l.emptied.Add(-2 * idleLanes)
	}
	if s.evictIdle(); len(s.lanes)+len(s.known.accounts)+len(s.others.accounts) != 0 {
		t.Fatalf("%d lanes, %d and %d accounts are kept for ever", len(s.lanes), len(s.known.accounts), len(s.others.accounts))
	}
}

func FuzzSchedule(f *testing.F) {
	f.Add([]byte{0, 1, 0, 1, 3, 0, 3, 0, 5, 200, 5, 1, 6, 0, 0, 0, 0, 15, 3, 0, 5, 0, 6, 0, 3, 0})
	for seed := range uint64(16) {
		r := rand.New(rand.NewPCG(seed, 8))
		program := make([]byte, 1200+2*(seed%2))
		for i := range program {
			program[i] = byte(r.Uint32())
		}
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) { runSchedule(t, program[:min(len(program), 2000)]) })
}
