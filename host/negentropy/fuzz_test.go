package negentropy

import (
	"errors"
	"slices"
	"testing"
)

// addMessages seeds a fuzz target with the messages of a real reconciliation
// and with hostile ones.
func addMessages(f *testing.F) {
	for _, m := range meet(f, smallSet(900), smallSet(1000), MinFrame).sent {
		f.Add(m)
	}
	for _, pieces := range []string{
		"", "000000", "00000200", "000001" + zeroFP, "00000297ebe100", "81ffffffffffffffff7f0000",
		"0220" + zeroID + "00" + "000001" + zeroFP, "0201ff00" + "01017f00", "ffffffffffffffffffff",
	} {
		f.Add(message(f, pieces))
	}
}

func FuzzServer(f *testing.F) {
	addMessages(f)
	set := smallSet(700)
	small, large := mustServer(f, set, MinFrame), mustServer(f, set, 0)
	f.Fuzz(func(t *testing.T, msg []byte) {
		for _, s := range []*Server{small, large} {
			reply, err := s.Reconcile(msg)
			checkAnswer(t, reply, err, s.session.full+headroom)
			if limit := 40*set.Len() + 4*len(msg) + 1000; len(reply) > limit {
				t.Fatalf("answer of %d bytes to a message of %d", len(reply), len(msg))
			}
		}
	})
}

func FuzzClient(f *testing.F) {
	addMessages(f)
	set := smallSet(700)
	f.Fuzz(func(t *testing.T, msg []byte) {
		c := newTestClient(t, set, ClientLimits{Frame: MinFrame, IDs: 100, Rounds: 3})
		for done := false; !done; {
			var reply []byte
			var err error
			reply, done, err = c.Reconcile(msg)
			if err != nil {
				if !errors.Is(err, ErrMessage) && !errors.Is(err, ErrTooManyIDs) && !errors.Is(err, ErrTooManyRounds) {
					t.Fatal(err)
				}
				break
			}
			if !done {
				checkAnswer(t, reply, nil, MinFrame)
			}
		}
		for _, ids := range [][]string{sortedHex(c.Have()), sortedHex(c.Need())} {
			if len(ids) > 100 || len(slices.Compact(slices.Clone(ids))) != len(ids) {
				t.Fatalf("%d ids, too many or some twice", len(ids))
			}
		}
	})
}

// checkAnswer wants an answer that a peer can read, or an error that blames the
// message.
func checkAnswer(t *testing.T, reply []byte, err error, frame int) {
	t.Helper()
	if err != nil {
		if !errors.Is(err, ErrMessage) || reply != nil {
			t.Fatalf("got %x, %v", reply, err)
		}
		return
	}
	if len(reply) > frame {
		t.Fatalf("answer of %d bytes does not fit %d", len(reply), frame)
	}
	peer := session{set: new(Set), full: MaxFrame}
	if _, err := peer.answer(reply[1:], nil); err != nil {
		t.Fatalf("answer cannot be read: %v: %x", err, reply)
	}
}
