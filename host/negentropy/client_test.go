package negentropy

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"talon/host"
)

// meeting is a reconciliation between two sets that is carried out in a test.
type meeting struct {
	client *Client
	server *Server
	sent   [][]byte // by both, the client first
}

func meet(t testing.TB, clientSet, serverSet *Set, frame int) *meeting {
	t.Helper()
	return meetBy(t, (*Client).Initiate, clientSet, serverSet, frame)
}

// meetBy is meet with another first message.
func meetBy(t testing.TB, initiate func(*Client) ([]byte, error), clientSet, serverSet *Set, frame int) *meeting {
	t.Helper()
	m := &meeting{server: mustServer(t, serverSet, frame)}
	var err error
	m.client, err = NewClient(clientSet, ClientLimits{Frame: frame, IDs: 1 << 20, Rounds: 5000})
	if err != nil {
		t.Fatal(err)
	}
	msg, err := initiate(m.client)
	for done := false; ; {
		if err != nil {
			t.Fatalf("client: %v", err)
		}
		if done {
			return m
		}
		m.sent = append(m.sent, msg)
		reply, serr := m.server.Reconcile(msg)
		if serr != nil {
			t.Fatalf("server: %v", serr)
		}
		m.sent = append(m.sent, reply)
		msg, done, err = m.client.Reconcile(reply)
	}
}

// check compares what the client found with the difference of the sets.
func (m *meeting) check(t testing.TB) {
	t.Helper()
	mine, theirs := m.client.session.set, m.server.session.set
	if got, want := sortedHex(m.client.Have()), minus(mine, theirs); !slices.Equal(got, want) {
		t.Errorf("have %d ids, want %d", len(got), len(want))
	}
	if got, want := sortedHex(m.client.Need()), minus(theirs, mine); !slices.Equal(got, want) {
		t.Errorf("need %d ids, want %d", len(got), len(want))
	}
	full := m.server.session.full + headroom
	for i, msg := range m.sent {
		if len(msg) > full {
			t.Errorf("message %d has %d bytes, the frame %d", i, len(msg), full)
		}
	}
}

func minus(a, b *Set) []string {
	in := make(map[Item]bool, b.Len())
	for _, it := range b.list() {
		in[it] = true
	}
	ids := []host.ID{}
	for _, it := range a.list() {
		if !in[it] {
			ids = append(ids, it.ID)
		}
	}
	return sortedHex(ids)
}

// randomSets draws items that go to one side, the other, or both.
func randomSets(rnd *rand.Rand, common, mine, theirs int, times uint64) (client, server *Set) {
	var c, s Builder
	for i := range common + mine + theirs {
		it := item(rnd.Int(), 1_600_000_000+rnd.Uint64N(times))
		if i < common+mine {
			c.Add(it)
		}
		if i < common || i >= common+mine {
			s.Add(it)
		}
	}
	return c.Build(), s.Build()
}

func TestConverge(t *testing.T) {
	for _, frame := range []int{0, MinFrame, 10_000} {
		for _, n := range [][3]int{
			{0, 0, 0}, {0, 1, 0}, {0, 0, 1}, {31, 1, 0}, {32, 0, 1}, {1000, 0, 0}, {0, 3000, 0}, {0, 0, 3000},
			{0, 2000, 2000}, {20_000, 3, 0}, {20_000, 0, 3}, {20_000, 200, 200}, {5000, 5000, 0}, {5000, 0, 5000},
		} {
			for _, times := range []uint64{1, 50, 100_000_000} {
				t.Run(fmt.Sprintf("frame=%d/common=%d,mine=%d,theirs=%d/times=%d", frame, n[0], n[1], n[2], times), func(t *testing.T) {
					client, server := randomSets(rand.New(rand.NewPCG(7, 8)), n[0], n[1], n[2], times)
					meet(t, client, server, frame).check(t)
				})
			}
		}
	}
}

func FuzzConverge(f *testing.F) {
	f.Add(uint64(1), uint16(500), uint16(5), uint16(7), uint32(1000), uint16(0))
	f.Add(uint64(2), uint16(2000), uint16(300), uint16(300), uint32(1), uint16(5000))
	f.Add(uint64(3), uint16(0), uint16(1000), uint16(40), uint32(100000), uint16(4096))
	f.Fuzz(func(t *testing.T, seed uint64, common, mine, theirs uint16, times uint32, frame uint16) {
		if frame > 0 && frame < MinFrame {
			frame = MinFrame + frame
		}
		rnd := rand.New(rand.NewPCG(seed, 9))
		client, server := randomSets(rnd, int(common%4096), int(mine%2048), int(theirs%2048), 1+uint64(times))
		meet(t, client, server, int(frame)).check(t)
	})
}

// TestRestIsNotTakenForAgreement checks an answer with no room for a range in which the peer holds
// nothing. It must not claim that we hold nothing there either.
func TestRestIsNotTakenForAgreement(t *testing.T) {
	const lists, each = 4, 30 // as many ids as just fit the smallest frame
	set := smallSet(lists*each + 40)
	var w writer
	for i := range lists {
		b := set.boundBetween((i + 1) * each)
		w.fingerprint(&b, fingerprint{}) // differs, so we list our ids
	}
	w.fingerprint(&bound{time: infinity}, emptyFingerprint)

	s, err := newSession(set, MinFrame)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := s.answer(w.b, func(int, int, []byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	want := set.fingerprint(lists*each, set.Len())
	if !bytes.HasSuffix(reply, append([]byte{0, 0, modeFingerprint}, want[:]...)) {
		t.Errorf("the rest is said to be %x, want %x", reply[len(reply)-len(want):], want)
	}
}

func newTestClient(t testing.TB, set *Set, limits ClientLimits) *Client {
	t.Helper()
	c, err := NewClient(set, limits)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Initiate(); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClientCapsIDs(t *testing.T) {
	theirs := append(message(t, "00000203"), bytes.Repeat([]byte{1}, 32)...)
	theirs = append(append(theirs, bytes.Repeat([]byte{2}, 32)...), bytes.Repeat([]byte{3}, 32)...)
	for _, tt := range []struct {
		name       string
		set        *Set
		msg        []byte
		have, need int
	}{
		{"need", new(Set), theirs, 0, 2},
		{"have", smallSet(5), message(t, "00000200"), 2, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newTestClient(t, tt.set, ClientLimits{IDs: 2, Rounds: 10})
			_, done, err := c.Reconcile(tt.msg)
			if !errors.Is(err, ErrTooManyIDs) || done {
				t.Errorf("got done %v, %v; want %v", done, err, ErrTooManyIDs)
			}
			if len(c.Have()) != tt.have || len(c.Need()) != tt.need {
				t.Errorf("have %d, need %d; want %d and %d", len(c.Have()), len(c.Need()), tt.have, tt.need)
			}
			if _, _, err := c.Reconcile(tt.msg); !errors.Is(err, errNotOpen) {
				t.Errorf("after an error: got %v, want %v", err, errNotOpen)
			}
		})
	}
}

func TestClientCapsRounds(t *testing.T) {
	c := newTestClient(t, smallSet(100), ClientLimits{IDs: 10, Rounds: 3})
	msg := message(t, "000001", zeroFP) // never agrees
	for range 3 {
		if _, done, err := c.Reconcile(msg); done || err != nil {
			t.Fatalf("got done %v, %v", done, err)
		}
	}
	if _, done, err := c.Reconcile(msg); done || !errors.Is(err, ErrTooManyRounds) {
		t.Errorf("fourth round: got done %v, %v; want %v", done, err, ErrTooManyRounds)
	}
}

func TestClientNamesEachIDOnce(t *testing.T) {
	set := smallSet(3)
	foreign := item(99, 1)
	c := newTestClient(t, set, ClientLimits{IDs: 4, Rounds: 3})
	msg := message(t, "00000202", foreign.ID.String(), foreign.ID.String(), "000001", zeroFP)
	for range 2 {
		if _, _, err := c.Reconcile(msg); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.Need(); !slices.Equal(got, []host.ID{foreign.ID}) {
		t.Errorf("need %v, want one id", got)
	}
	if got := c.Have(); len(got) != set.Len() {
		t.Errorf("have %d ids, want %d", len(got), set.Len())
	}
}

func TestClientStates(t *testing.T) {
	c, err := NewClient(new(Set), ClientLimits{IDs: 1, Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Reconcile(message(t)); !errors.Is(err, errNotOpen) {
		t.Errorf("reconcile before initiate: got %v, want %v", err, errNotOpen)
	}
	if _, err := c.Initiate(); err != nil {
		t.Error(err)
	}
	if _, err := c.Initiate(); !errors.Is(err, errInitiated) {
		t.Errorf("second initiate: got %v, want %v", err, errInitiated)
	}
	if reply, done, err := c.Reconcile(message(t)); reply != nil || !done || err != nil {
		t.Errorf("got %x, done %v, %v; want done", reply, done, err)
	}
	if _, _, err := c.Reconcile(message(t)); !errors.Is(err, errNotOpen) {
		t.Errorf("reconcile when done: got %v, want %v", err, errNotOpen)
	}
}

func TestClientRefuses(t *testing.T) {
	for _, tt := range []struct {
		msg  string
		want error
	}{
		{"", ErrTruncated},
		{"60", ErrVersion},
		{"62", ErrVersion},
		{"00", ErrVersion},
		{"6100000297ebe100", ErrTruncated},
		{"61000003", ErrMode},
	} {
		c := newTestClient(t, smallSet(50), ClientLimits{IDs: 10, Rounds: 10})
		if _, done, err := c.Reconcile(unhex(t, tt.msg)); done || !errors.Is(err, tt.want) {
			t.Errorf("%s: got done %v, %v; want %v", tt.msg, done, err, tt.want)
		}
	}
	for _, limits := range []ClientLimits{{}, {IDs: 1}, {Rounds: 1}, {IDs: 1, Rounds: 1, Frame: 1}} {
		if _, err := NewClient(new(Set), limits); err == nil {
			t.Errorf("limits %+v were accepted", limits)
		}
	}
}

// One fingerprint finds the same differences as many, and costs next to nothing where there
// are none.
func TestInitiateAlike(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, common := range []int{0, 1, 31, 32, 5000} {
		for _, more := range [][2]int{{0, 0}, {1, 0}, {0, 1}, {100, 0}, {0, 100}, {70, 90}} {
			client, server := randomSets(rnd, common, more[0], more[1], 1000)
			m := meetBy(t, (*Client).InitiateAlike, client, server, MinFrame)
			m.check(t)
			sent := 0
			for _, msg := range m.sent {
				sent += len(msg)
			}
			if more == [2]int{} && (len(m.sent) != 2 || sent > 25) {
				t.Errorf("%d events that are alike: %d bytes in %d messages", common, sent, len(m.sent))
			}
		}
	}
}
