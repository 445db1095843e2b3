package negentropy

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// smallSet has items at times 100 to 100+n-1, a quarter of them at one time.
func smallSet(n int) *Set {
	var b Builder
	for i := range n {
		b.Add(item(i, 100+uint64(i)-min(uint64(i), uint64(n/4))))
	}
	return b.Build()
}

func mustServer(t testing.TB, set *Set, frame int) *Server {
	t.Helper()
	s, err := NewServer(set, frame)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFrameLimit(t *testing.T) {
	for frame, ok := range map[int]bool{
		0: true, MinFrame: true, MaxFrame: true,
		-1: false, 1: false, MinFrame - 1: false, MaxFrame + 1: false,
	} {
		if _, err := NewServer(new(Set), frame); (err == nil) != ok {
			t.Errorf("frame limit %d: got %v, want ok %v", frame, err, ok)
		}
	}
}

func TestServerVersions(t *testing.T) {
	for _, tt := range []struct {
		msg, want string
		err       error
	}{
		{"61", "61", nil},
		{"60", "61", nil},
		{"62", "61", nil},
		{"6fffff", "61", nil},
		{"62000200", "61", nil},
		{"", "", ErrTruncated},
		{"5f", "", ErrVersion},
		{"70", "", ErrVersion},
		{"00", "", ErrVersion},
	} {
		got, err := mustServer(t, smallSet(3), 0).Reconcile(unhex(t, tt.msg))
		if hex.EncodeToString(got) != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("answer %q: got %x, %v; want %s, %v", tt.msg, got, err, tt.want, tt.err)
		}
	}
}

const (
	zeroID = "0000000000000000000000000000000000000000000000000000000000000000"
	zeroFP = "00000000000000000000000000000000"
)

func TestServerRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, msg string
		want      error
	}{
		{"no prefix length", "00", ErrTruncated},
		{"no mode", "0000", ErrTruncated},
		{"no fingerprint", "000001", ErrTruncated},
		{"short fingerprint", "000001" + zeroFP[2:], ErrTruncated},
		{"no number of ids", "000002", ErrTruncated},
		{"one id claimed, none there", "00000201", ErrTruncated},
		{"two ids claimed, one there", "00000202" + zeroID, ErrTruncated},
		{"50 million ids claimed", "00000297ebe100" + zeroID, ErrTruncated},
		{"2^64-1 ids claimed", "00000281ffffffffffffffff7f" + zeroID, ErrTruncated},
		{"2^59 ids claimed: 32 times as many is 0", "0000028880808080808080" + "00" + zeroID, ErrTruncated},
		{"number of ids overflows", "000002ffffffffffffffffff7f", ErrVarint},
		{"number of ids too long", "00000280808080808080808080808001", ErrVarint},
		{"timestamp overflows", "ffffffffffffffffff7f0000", ErrVarint},
		{"timestamp is infinity the long way", "81ffffffffffffffff7f0000" + "020000", ErrTimestamp},
		{"timestamps add up to more than 64 bits", "81808080808080808000" + "0000" + "81808080808080808002" + "0000", ErrTimestamp},
		{"prefix of 33 bytes", "0221" + zeroID + "0000", ErrPrefix},
		{"prefix of 2^64-1 bytes", "0281ffffffffffffffff7f" + zeroID, ErrPrefix},
		{"prefix longer than the message", "0220" + zeroID[2:], ErrTruncated},
		{"prefix descends", "0201ff00" + "01017f00", ErrOrder},
		{"no prefix after a prefix", "0201ff00" + "010000", ErrOrder},
		{"mode 3", "000003", ErrMode},
		{"mode 2^63", "000081808080808080808000", ErrMode},
		{"trailing byte", "000000" + "00", ErrTruncated},
		{"trailing text", "00000200" + hex.EncodeToString([]byte("garbage")), ErrMessage},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := mustServer(t, smallSet(100), 0).Reconcile(message(t, tt.msg))
			if got != nil || !errors.Is(err, tt.want) || !errors.Is(err, ErrMessage) {
				t.Fatalf("got %x, %v; want %v", got, err, tt.want)
			}
			if len(err.Error()) > 100 {
				t.Errorf("long error: %v", err)
			}
		})
	}
}

func TestServerRefusesEveryTruncation(t *testing.T) {
	set := smallSet(1000)
	c, err := NewClient(setOf(item(-1, 3)), ClientLimits{IDs: 1, Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.Initiate()
	if err != nil {
		t.Fatal(err)
	}
	var w writer
	session := session{set: smallSet(500)}
	session.split(&w, 0, 500, &bound{time: infinity})
	for _, msg := range [][]byte{list, append([]byte{protocolVersion}, w.b...)} {
		refused := 0
		for n := range msg {
			_, err := mustServer(t, set, 0).Reconcile(msg[:n])
			if err != nil && !errors.Is(err, ErrTruncated) {
				t.Errorf("first %d bytes: got %v, want %v", n, err, ErrTruncated)
			}
			if err != nil {
				refused++
			}
		}
		// A cut between two ranges leaves a message that is complete.
		if complete := len(msg) - refused; complete > buckets {
			t.Errorf("%d truncations were taken for complete", complete)
		}
	}
}

// TestServerTakesEqualBounds checks that a later range without a bound of its own is accepted. The
// reference ends a frame with a second range up to infinity.
func TestServerTakesEqualBounds(t *testing.T) {
	if _, err := mustServer(t, smallSet(10), 0).Reconcile(message(t, "00000200", "000001", zeroFP)); err != nil {
		t.Fatal(err)
	}
}

func TestAnswersFitTheFrame(t *testing.T) {
	const n = 200_000 // 6.4 MB of ids
	set := smallSet(n)
	prefix := fmt.Sprintf("%064x", 1)
	for name, msg := range map[string][]byte{
		"all ids":              message(t, "00000200"),
		"all ids, long bounds": message(t, "0220", prefix, "00", "81ffffffffffffff7f20", prefix, "000220", prefix, "0200"),
		"many mismatches":      message(t, strings.Repeat("0b0001"+zeroFP, 100_000)),
		"mismatches with gaps": message(t, strings.Repeat("020001"+zeroFP+"020000", 100_000)),
		"empty lists":          message(t, strings.Repeat("01000200", 300_000)),
		"small lists":          message(t, strings.Repeat("02000200", 150_000)),
	} {
		for frame, limit := range map[int]int{0: MaxFrame, MinFrame: MinFrame, 65536: 65536} {
			got, err := mustServer(t, set, frame).Reconcile(msg)
			if err != nil {
				t.Errorf("%s, frame limit %d: %v", name, frame, err)
			}
			if len(got) > limit {
				t.Errorf("%s, frame limit %d: answer of %d bytes", name, frame, len(got))
			}
		}
	}
}

func TestClaimedNumbersAllocateNothing(t *testing.T) {
	server := mustServer(t, smallSet(10), 0)
	msg := message(t, "00000297ebe100", zeroID) // 50 million ids
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		if _, err := server.Reconcile(msg); !errors.Is(err, ErrTruncated) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("100 refusals allocated %d bytes", got)
	}
}

func TestSetIsShared(t *testing.T) {
	set := smallSet(5000)
	server := mustServer(t, set, 0)
	msg := message(t, "000001", zeroFP)
	want, err := server.Reconcile(msg)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if got, err := server.Reconcile(msg); err != nil || !bytes.Equal(got, want) {
					t.Errorf("got %x, %v; want %x", got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}
