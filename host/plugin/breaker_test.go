package plugin

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"talon/host"
	"talon/host/plugin/guest"
)

// guarded is a relay whose guard traps on some events and refuses the others.
func guarded(t *testing.T, sidecar string) *world {
	w := newWorld(t)
	w.drop("open.wasm", accepting("1").wasm(t))
	p := rejecting("x")
	p.trap = true
	w.drop("guard.wasm", p.wasm(t))
	w.drop("guard.toml", []byte(sidecar))
	w.mustOpen()
	return w
}

// from is an event of somebody; with an id of 255, the guard traps.
func from(source *host.Source, author uint32, id byte) *host.Item {
	it := item(id)
	it.Source = source
	binary.BigEndian.PutUint32(it.Event.PubKey[:], author)
	return it
}

func (w *world) asks(it *host.Item) string {
	w.t.Helper()
	r, err := w.Admit(w.t.Context(), it, nil, now)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Module + " " + r.Action.String() + " " + r.Rule
}

func client(n byte) *host.Source {
	return &host.Source{Addr: netip.AddrFrom4([4]byte{192, 0, 2, n})}
}

// TestBreakerIsForWhoCausesIt has somebody trigger a failure 50 times a second, for ten
// seconds: from one connection, from many of one network, and as one author from
// everywhere. Who has nothing to do with it is judged as ever, whatever the side-car
// says, and the guard is not got past.
func TestBreakerIsForWhoCausesIt(t *testing.T) {
	connection := client(1)
	for _, test := range []struct {
		name     string
		attacker func(i int) *host.Item
		passes   int // of its events get past the guard if that fails open
	}{
		{"a connection", func(i int) *host.Item { return from(connection, uint32(1000+i), 255) }, 4},
		{"a network", func(i int) *host.Item { return from(client(1), uint32(1000+i), 255) }, 12},
		{"an author", func(i int) *host.Item { return from(client(byte(i)), 1, 255) }, 4},
		{"a relay", func(i int) *host.Item {
			return from(&host.Source{Origin: host.FromSync, Relay: "wss://bad.example.com"}, uint32(1000+i), 255)
		}, 12},
	} {
		for _, sidecar := range []string{"", `on-failure = "open"`} {
			t.Run(test.name+" "+sidecar, func(t *testing.T) {
				w := guarded(t, sidecar)
				passed := 0
				for i := range 500 {
					if said := w.asks(test.attacker(i)); said != "guard reject failed" {
						passed++
					}
					if said := w.asks(from(client(200), uint32(2_000_000+i%7), 1)); said != "guard reject x" {
						t.Fatalf("event %d of somebody else: %s", i, said)
					}
					w.later(20 * time.Millisecond)
				}
				if sidecar == "" && passed > 0 || passed > test.passes {
					t.Errorf("%d of 500 got past the guard, want at most %d", passed, test.passes)
				}
				st := w.of("guard")
				if st.Failures > uint64(test.passes) || st.BreakerOpen || st.Refused == 0 {
					t.Errorf("%d failures, resting %v, %d refused; want at most %d failures", st.Failures, st.BreakerOpen, st.Refused, test.passes)
				}
				w.later(time.Hour)
				it := test.attacker(0)
				it.Event.ID[0] = 1
				if said := w.asks(it); said != "guard reject x" {
					t.Errorf("an hour later: %s", said)
				}
			})
		}
	}
}

// TestBreakerRests has a guard that fails for everybody: it rests, is tried once a
// second, and is back when it works.
func TestBreakerRests(t *testing.T) {
	w := guarded(t, "")
	for i := range 100 {
		w.asks(from(client(byte(i)), uint32(i), 255))
	}
	if st := w.of("guard"); st.Failures != openSources || !st.BreakerOpen {
		t.Errorf("%d failures, resting %v; want %d", st.Failures, st.BreakerOpen, openSources)
	}
	for i := range 5 {
		w.later(openTime)
		for j := range 10 {
			w.asks(from(client(byte(100+10*i+j)), uint32(1000+10*i+j), 255))
		}
	}
	if st := w.of("guard"); st.Failures != openSources+5 {
		t.Errorf("%d failures, want one a second more than %d", st.Failures, openSources)
	}
	w.later(openTime)
	for i := range 3 {
		if said := w.asks(from(client(byte(250+i)), uint32(5000+i), 1)); said != "guard reject x" {
			t.Errorf("when it works: %s", said)
		}
	}
	if w.of("guard").BreakerOpen {
		t.Error("it rests, though it works")
	}
}

// TestBreakerIsBounded has failures by more sources than are remembered.
func TestBreakerIsBounded(t *testing.T) {
	at := time.Unix(now, 0)
	b := breaker{now: func() time.Time { return at }}
	for i := range 3 * maxCulprits {
		who := causesOf(from(&host.Source{Origin: host.FromSync, Relay: fmt.Sprint("wss://", i)}, uint32(i), 255))
		b.asked.Add(10)
		b.failed(&who, ofSource)
	}
	if len(b.culprit) != maxCulprits || b.order.Len() != maxCulprits {
		t.Errorf("%d and %d are remembered, want %d", len(b.culprit), b.order.Len(), maxCulprits)
	}
	at = at.Add(forgetTime + time.Second)
	if b.worked(); b.watched.Load() || len(b.culprit) != 0 {
		t.Errorf("%d are remembered for ever", len(b.culprit))
	}
}

// TestCausesOfQuestions checks whom a failure counts against, for each kind of question.
func TestCausesOfQuestions(t *testing.T) {
	addr := netip.MustParseAddr("192.0.2.7")
	client := &host.Client{Addr: addr}
	for name, test := range map[string]struct {
		question question
		want     []causeKind
	}{
		"an event of a client":                     {question{item: from(&host.Source{Addr: addr}, 1, 1)}, []causeKind{byAuthor, byConnection, byNetwork}},
		"an event of a client on this machine":     {question{item: from(&host.Source{}, 1, 1)}, []causeKind{byAuthor, byConnection}},
		"an event of a relay":                      {question{item: from(&host.Source{Origin: host.FromSync, Relay: "wss://r"}, 1, 1)}, []causeKind{byAuthor, byRelay}},
		"an event of an import":                    {question{item: from(&host.Source{Origin: host.FromImport}, 1, 1)}, []causeKind{byAuthor}},
		"an event of nobody":                       {question{item: from(nil, 1, 1)}, []causeKind{byAuthor}},
		"filters":                                  {question{function: guest.Query, client: client}, []causeKind{byConnection, byNetwork}},
		"ref updates":                              {question{function: guest.Push, client: client}, []causeKind{byConnection, byNetwork}},
		"ref updates of nobody":                    {question{function: guest.Push}, nil},
		"a client that has come":                   {question{function: guest.Connect, client: client}, []causeKind{byNetwork}},
		"a client that has come from this machine": {question{function: guest.Connect, client: &host.Client{}}, nil},
	} {
		causes := test.question.causes()
		var got []causeKind
		for _, c := range causes.list[:causes.n] {
			got = append(got, c.kind)
		}
		if fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s counts against %v, want %v", name, got, test.want)
		}
	}
}
