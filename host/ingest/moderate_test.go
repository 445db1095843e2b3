package ingest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"talon/host"
	"talon/host/moderation"
)

// moderate adds one row and fails the test if that fails.
func moderate(t *testing.T, p *Pipeline, action moderation.Action, target moderation.Target) {
	t.Helper()
	added, err := p.Moderate(t.Context(), []moderation.Row{{Action: action, Target: target, Reason: "spam"}})
	if err != nil || len(added) != 1 {
		t.Fatalf("got %v, %v", added, err)
	}
}

// TestModerate shows that no event is stored after a row that bars it, also if its decision was
// made before.
func TestModerate(t *testing.T) {
	deciding, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r := start(t, func(_ context.Context, it *host.Item, _ host.Facts) host.Ruling {
		if it.Event.ID == event(1).ID {
			once.Do(func() { close(deciding); <-goOn })
		}
		return host.Ruling{Action: host.Accept}
	}, nil)
	answers := make(chan reply, 2)
	r.send(t, &host.Source{}, answers, event(1))
	<-deciding
	moderate(t, r.Pipeline, moderation.Ban, moderation.EventTarget(event(1).ID))
	moderate(t, r.Pipeline, moderation.Ban, moderation.EventTarget(event(2).ID))
	close(goOn)
	if got := <-answers; got.verdict.Reason != "blocked: banned by the operator: spam" {
		t.Errorf("the event that was being decided: %v %v", got.verdict, got.err)
	}
	if got := r.submit(t, &host.Source{}, event(2))[0]; got.verdict.Reason != "blocked: banned by the operator: spam" {
		t.Errorf("a later event: %v %v", got.verdict, got.err)
	}
	if got := r.submit(t, &host.Source{}, event(3))[0]; got.verdict.Code != host.Stored {
		t.Errorf("another event: %v %v", got.verdict, got.err)
	}
	moderate(t, r.Pipeline, moderation.Unban, moderation.EventTarget(event(2).ID))
	if got := r.submit(t, &host.Source{}, event(2))[0]; got.verdict.Code != host.Stored {
		t.Errorf("after the unban: %v %v", got.verdict, got.err)
	}
	r.stop()
	if _, err := r.Moderate(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// TestModerateFails shows that a row whose commit fails does not count, and that a wrong row
// harms no event.
func TestModerateFails(t *testing.T) {
	r := start(t, acceptAll, nil)
	row := moderation.Row{Action: moderation.Ban, Target: moderation.EventTarget(event(1).ID)}
	r.store.preFails = 1
	if _, err := r.Moderate(t.Context(), []moderation.Row{row}); !errors.Is(err, errDisk) {
		t.Errorf("got %v", err)
	}
	if _, err := r.Moderate(t.Context(), []moderation.Row{{Action: "x", Target: row.Target}}); err == nil || !strings.Contains(err.Error(), "unknown action") {
		t.Errorf("got %v", err)
	}
	if got := r.submit(t, &host.Source{}, event(1))[0]; got.verdict.Code != host.Stored {
		t.Errorf("got %v %v", got.verdict, got.err)
	}
	r.stop()
}
