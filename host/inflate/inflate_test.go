package inflate

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
)

// deflated compresses a text as a websocket sends it.
func deflated(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte(text))
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte(SyncTail))
}

func TestAppend(t *testing.T) {
	for _, n := range []int{0, 1, 99, 100, 101, 5000, 1 << 20} {
		for _, room := range []int{0, 7, 200} {
			text := strings.Repeat("x", n)
			got, err := Append(make([]byte, 0, room), deflated(t, text), 100)
			switch {
			case n <= 100 && (err != nil || string(got) != text):
				t.Errorf("%d bytes into room for %d: got %d, %v", n, room, len(got), err)
			case n > 100 && !errors.Is(err, ErrTooLong):
				t.Errorf("%d bytes into room for %d: %v, want ErrTooLong", n, room, err)
			case len(got) > 101:
				t.Errorf("%d bytes were kept of a message that may have 100", len(got))
			}
		}
	}
	if got, err := Append([]byte("before "), deflated(t, "after"), 100); err != nil || string(got) != "before after" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestDamaged(t *testing.T) {
	for _, packed := range []string{"\xff", "\x07", strings.Repeat("\x55", 20)} {
		if _, err := Append(nil, []byte(packed), 100); !errors.Is(err, ErrDamaged) {
			t.Errorf("%q: %v, want ErrDamaged", packed, err)
		}
	}
}
