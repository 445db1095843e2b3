package admin

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"talon/host/plugin"
)

func TestRecord(t *testing.T) {
	f := &fake{}
	c := serve(t, API{Plugins: f}, private(t))
	begun := 0
	ask := func(r Record) (string, plugin.Recorded, error) {
		var out bytes.Buffer
		came, err := c.Record(t.Context(), r, &out, func() { begun++ })
		return out.String(), came, err
	}
	text, came, err := ask(Record{})
	if err != nil || text != "{\"\": 10000}\n[1m0s, {false false}]\n" || came.Ended != "count" || came.Lines != 2 || begun != 1 {
		t.Errorf("%q, %+v, %v", text, came, err)
	}
	text, _, err = ask(Record{Plugin: "a b", For: 10 * time.Minute, Max: 7, Redact: "content"})
	if err != nil || text != "{\"a b\": 7}\n[10m0s, {true false}]\n" {
		t.Errorf("%q, %v", text, err)
	}
	// Half a line is not written, and half a recording is not taken for a whole one.
	text, _, err = ask(Record{Plugin: "broken"})
	if err == nil || !strings.HasPrefix(err.Error(), "read the recording: ") || !strings.HasSuffix(text, "]\n") {
		t.Errorf("%q, %v", text, err)
	}
	for want, r := range map[string]Record{
		`for "10m0.000000001s" is wrong`: {For: plugin.MaxRecordTime + 1}, `for "-1s" is wrong`: {For: -time.Second},
		`most "-1" is wrong`: {Max: -1}, `most "100001" is wrong`: {Max: plugin.MaxRecordLines + 1}, `redact "x"`: {Redact: "x"},
	} {
		if text, _, err := ask(r); err == nil || !strings.HasPrefix(err.Error(), want) || text != "" {
			t.Errorf("%+v: %q, %v; want %s", r, text, err, want)
		}
	}
	f.err = plugin.ErrRecording
	if _, _, err := ask(Record{}); err == nil || err.Error() != plugin.ErrRecording.Error() || begun != 3 {
		t.Errorf("%v, begun %d times", err, begun)
	}
}

// TestRecordStops ends a recording from both sides: the client's by its signal, the
// server's when it stops.
func TestRecordStops(t *testing.T) {
	c := serve(t, API{Plugins: &fake{}}, private(t))
	ctx, stop := context.WithCancel(t.Context())
	lines := writer(func(text []byte) error {
		if strings.HasPrefix(string(text), "[") {
			stop()
		}
		return nil
	})
	if _, err := c.Record(ctx, Record{Plugin: "endless"}, lines, func() {}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	full := errors.New("the disk is full")
	if _, err := c.Record(t.Context(), Record{Plugin: "endless"}, writer(func([]byte) error { return full }), func() {}); !errors.Is(err, full) {
		t.Error(err)
	}
}

type writer func([]byte) error

func (w writer) Write(text []byte) (int, error) { return len(text), w(text) }
