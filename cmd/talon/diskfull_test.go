package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// TestDiskFull serves where no file may grow beyond 8 MiB, which SQLite meets as a
// disk without room. Publishers hear of it, readers are served, nothing that was
// answered is lost; with room again the server goes on.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	// The machine code of the modules is larger than the limit: it is cached before.
	start(t, newData(t)).mustStop(t)
	data := newData(t)
	limited := exec.Command("bash", append([]string{"-c", `ulimit -f 8192 && exec talon "$@"`, "talon"}, serveArgs(t, data)...)...)
	s := startAs(t, limited, data)
	c := connect(t, s)

	stored := map[string]bool{}
	refused := 0
	big := strings.Repeat("0123456789abcdef", 6000)
	for i := 0; refused < 20; i++ {
		if i > 500 {
			t.Fatal("48 MB went into files of 8")
		}
		e := signAs(t, "hoarder", nostr.Event{Kind: 1, Content: strconv.Itoa(i) + big})
		switch a := c.publish(t, e); {
		case a.ok:
			stored[e.ID] = true
		case strings.HasPrefix(a.reason, "error: "):
			refused++
		default:
			t.Fatalf("refused with %q, want an error: the event is not to blame", a.reason)
		}
	}
	t.Logf("%d events stored before the disk was full", len(stored))
	if len(stored) == 0 {
		t.Fatal("nothing was stored")
	}

	// Reading goes on, on old and on new connections.
	for _, c := range []*client{c, connect(t, s)} {
		wantStored(t, c, stored)
	}
	if !strings.Contains(s.text(), `"level":"ERROR"`) {
		t.Error("the operator is not told")
	}
	s.mustStop(t)

	// With room it goes on.
	again := start(t, data)
	c = connect(t, again)
	wantStored(t, c, stored)
	for i := range 20 {
		e := signAs(t, "hoarder", nostr.Event{Kind: 1, Content: fmt.Sprint("more ", i, big)})
		if a := c.publish(t, e); !a.ok {
			t.Fatalf("refused although there is room: %s", a.reason)
		}
		stored[e.ID] = true
	}
	wantStored(t, c, stored)
	again.mustStop(t)
	mustCheck(t, data)
}

func wantStored(t *testing.T, c *client, want map[string]bool) {
	t.Helper()
	there := 0
	for _, e := range c.query(t, `{"limit":5000}`) {
		if want[e.ID] {
			there++
		}
	}
	if there != len(want) {
		t.Errorf("%d of %d events that were answered OK true are there", there, len(want))
	}
}
