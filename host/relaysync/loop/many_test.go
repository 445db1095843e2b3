package loop_test

import (
	"fmt"
	"runtime"
	"testing"

	"talon/host"
	"talon/host/relaysync/loop"
	"talon/internal/heap"
	"talon/internal/testkit"
	"talon/sdk/abi"
)

// rounds is a strategy that visits relays in turn, those that bring news more often.
type rounds struct {
	init   func() []byte
	fresh  bool
	room   int // connections
	every  int64
	relays map[string]*turn
	due    heap.Heap[*turn]
	told   map[string]int // how often each relay was compared to the end
}

type turn struct {
	url      string
	due      int64
	interval int64
}

func newRounds(room int, every int64, remotes []*remote) *rounds {
	before := func(a, b *turn) bool { return a.due < b.due || a.due == b.due && a.url < b.url }
	s := &rounds{room: room, every: every, relays: map[string]*turn{}, due: heap.New(before, nil), told: map[string]int{}}
	for _, r := range remotes {
		s.relays[r.url] = &turn{url: r.url, interval: every}
		s.due.Push(s.relays[r.url])
	}
	return s
}

func (s *rounds) begin(init func() []byte) { s.init, s.fresh = init, true }

func (s *rounds) Call(request []byte, _ int64) (answer []byte, fresh bool, err error) {
	if fresh = s.fresh; fresh {
		s.fresh = false
		request = s.init()
	}
	if request == nil {
		return nil, fresh, nil
	}
	var v abi.StepView
	if err := v.Decode(request); err != nil {
		return nil, fresh, err
	}
	do := func(a abi.StepAction) { answer = abi.AppendAction(answer, &a) }
	again := func(relay string, at int64) {
		t := s.relays[relay]
		t.due = at
		s.due.Push(t)
		s.room++
	}
	switch v.Kind {
	case abi.InputRelayConnected:
		relay := v.RelayConnected().Relay
		a := fetch(relay, "all", 1)
		a.Holdings = true
		do(a)
	case abi.InputHistoricDone:
		d := v.HistoricDone()
		s.told[d.Relay]++
		t := s.relays[d.Relay]
		if d.Kept > 0 {
			t.interval = max(s.every/12, t.interval/2)
		} else {
			t.interval = min(s.every, 2*t.interval)
		}
		do(abi.StepAction{Do: abi.DoDisconnect, Relay: d.Relay})
		again(d.Relay, v.Now+t.interval)
	case abi.InputRelayDisconnected:
		d := v.RelayDisconnected()
		do(abi.StepAction{Do: abi.DoDisconnect, Relay: d.Relay})
		again(d.Relay, max(d.RetryAt, v.Now+s.every))
	}
	for s.room > 0 && s.due.Len() > 0 && s.due.Top().due <= v.Now {
		s.room--
		do(connectTo(s.due.Pop().url))
	}
	if s.due.Len() > 0 && s.room > 0 {
		do(abi.StepAction{Do: abi.DoSetTimer, ID: "next", At: max(1, s.due.Top().due)})
	}
	return answer, fresh, nil
}

// TestThousandsOfRelays lets one host compare 5,000 relays every six hours, and those that bring
// news more often. Its memory must stay level. For a relay without a connection, it keeps a record
// of some hundred bytes in memory, and its believed content on disk.
func TestThousandsOfRelays(t *testing.T) {
	relays := testkit.Sized(1000, 5000)
	if testing.Short() {
		relays = 500
	}
	const hour = 3600_000
	const events, dead, lively, every = 400, 20, 50, 6 * hour // one in this number of relays is dead, or lively
	list := notes(events)
	remotes := make([]*remote, relays)
	for i := range remotes {
		remotes[i] = &remote{url: fmt.Sprintf("wss://relay-%04d.example", i), latency: 20 + int64(i%300), caps: abi.Capabilities{Negentropy: abi.SupportYes}}
		for k := range 5 + i%40 {
			remotes[i].events = append(remotes[i].events, list[(i*7+k)%events])
		}
	}
	s := newRounds(limits.Connections, every, remotes)
	n := &network{t: t, quiet: true}
	n.begin(s, remotes)
	for i, r := range remotes {
		r.setAway(i%dead == 1)
	}
	news, asked := 0, 0
	var memory []uint64
	for h := range 18 {
		for i, r := range remotes {
			if i%lively == 2 && h > 6 {
				e := *list[0]
				e.Content = "news"
				e.ID = host.ID{1, byte(h), byte(i >> 8), byte(i)}
				e.JSON = e.AppendJSON(nil)
				r.add(&e)
				news++
			}
		}
		n.pass(hour)
		var counted [3]int
		for _, r := range n.loop.Status() {
			for i, yes := range []bool{r.Kept, r.Up, r.State.Status == loop.StatusDead} {
				if yes {
					counted[i]++
				}
			}
		}
		if st := n.loop.Stats(); counted != [3]int{st.Tracked, st.Connected, st.Dead} {
			t.Fatalf("hour %d: %d relays are tracked, connected, dead, and the counters say %+v", h+1, counted, st)
		}
		if h == 5 {
			for _, r := range remotes {
				r.before, r.firsts = r.relay.Stats(), len(r.visits)
			}
		}
		if h%6 == 5 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			memory = append(memory, m.HeapAlloc)
			size := 0
			for _, b := range n.beliefs {
				size += len(b)
			}
			asked = 0
			for _, r := range remotes {
				questions, _ := r.asked()
				asked += questions
			}
			t.Logf("hour %d: %d events here, %.1f MB of memory, %.1f MB of beliefs, %d questions", h+1, len(n.stored), float64(m.HeapAlloc)/1e6, float64(size)/1e6, asked)
		}
	}
	n.pass(every)
	for i, r := range remotes {
		if i%dead == 1 {
			if s.told[r.url] != 0 || r.dials > 10 {
				t.Errorf("%s: %d attempts, %d comparisons", r.url, r.dials, s.told[r.url])
			}
			continue
		}
		at := int64(epoch * 1000)
		gap, latest := int64(0), int64(0)
		for _, v := range r.visits {
			gap, at = max(gap, v-at), v
		}
		if len(r.visits) > 5 {
			latest = (at - r.visits[len(r.visits)-5]) / 4
		}
		if gap > every+hour/4 || n.clock.Now()-at > every+hour/4 || s.told[r.url] != len(r.visits) {
			t.Errorf("%s: %d visits, %d comparisons, %d minutes between two", r.url, len(r.visits), s.told[r.url], gap/60_000)
		}
		if i%lively == 2 && (latest == 0 || latest > every/3) {
			t.Errorf("%s brings news every hour and is visited every %d minutes", r.url, latest/60_000)
		}
		fresh := 0
		for _, e := range r.relay.Store().Query(&host.Filter{Limit: -1}) {
			if n.stored[e.ID] == nil {
				t.Errorf("%s: event %s is not here", r.url, e.ID)
			}
			if e.Content == "news" {
				fresh++
			}
		}
		// Each visit asks once, and once more for what is new.
		visits := len(r.visits) - r.firsts
		questions, bytes := r.asked()
		if questions > visits+fresh {
			t.Errorf("%s: asked %d times in %d visits, with %d news", r.url, questions, visits, fresh)
		}
		if i%lively != 2 && bytes > 1000*visits {
			t.Errorf("%s: %d bytes in %d visits without news", r.url, bytes, visits)
		}
	}
	// Only the events and the visits that the test notes may grow.
	if first, last := memory[0], memory[len(memory)-1]; last > first+uint64(relays)*400+uint64(news)*2000 {
		t.Errorf("memory grows: %d", memory)
	}
}
