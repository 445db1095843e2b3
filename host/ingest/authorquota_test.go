package ingest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"talon/host"
)

// TestAuthorQuota: decisions that are made at the same time do not give an author more bytes than
// a policy allows. An author who has used them up can still delete, and replace.
func TestAuthorQuota(t *testing.T) {
	size := int64(len(event(1).JSON))
	limit := 20*size + size/2
	deciding := make(chan struct{}) // closed when many events have been decided by the same usage
	var mu sync.Mutex
	decided := 0
	r := start(t, func(ctx context.Context, it *host.Item, _ host.Facts) host.Ruling {
		mu.Lock()
		if decided++; decided == 4 {
			close(deciding)
		}
		mu.Unlock()
		<-deciding
		return host.Ruling{Action: host.Accept, Limits: host.UsageLimits{Author: limit}}
	}, nil)
	replies := make(chan reply, 100)
	for n := range 100 {
		r.send(t, &host.Source{}, replies, event(100+n))
	}
	stored := 0
	for range 100 {
		got := <-replies
		switch {
		case got.err != nil:
			t.Fatal(got.err)
		case got.verdict.Code == host.Stored:
			stored++
		case got.verdict.Code != host.Rejected || !strings.HasPrefix(got.verdict.Reason, "blocked: your events and git data take ") ||
			!strings.HasSuffix(got.verdict.Reason, " of the "+host.BytesText(limit)+" that this relay allows, and this event adds more than is left"):
			t.Errorf("got %v", got.verdict)
		}
	}
	if stored != 20 {
		t.Errorf("%d events are stored, want 20", stored)
	}
	deletion := event(1, host.Tag{"e", event(9999).ID.String()})
	deletion.Kind = host.KindDeletion
	if got := r.submit(t, &host.Source{}, deletion)[0]; got.verdict.Code != host.Stored {
		t.Errorf("a deletion at the limit: %v %v", got.verdict, got.err)
	}
	other := event(2)
	other.PubKey = host.PubKey{7}
	if got := r.submit(t, &host.Source{}, other)[0]; got.verdict.Code != host.Stored {
		t.Errorf("another author: %v %v", got.verdict, got.err)
	}
	r.stop()
}

// TestQuotaOfReplacements: what replaces an event counts by the bytes that it adds.
func TestQuotaOfReplacements(t *testing.T) {
	address := func(n, length int) *host.Event {
		e := event(n, host.Tag{"d", "x"})
		e.Kind, e.CreatedAt, e.Content = 30023, int64(1000+n), strings.Repeat("x", length)
		e.JSON = e.AppendJSON(nil)
		return e
	}
	limit := int64(len(address(1, 100).JSON)) + 50
	r := start(t, func(context.Context, *host.Item, host.Facts) host.Ruling {
		return host.Ruling{Action: host.Accept, Limits: host.UsageLimits{Author: limit}}
	}, nil)
	for n, test := range []struct {
		length int
		want   host.Code
	}{{100, host.Stored}, {151, host.Rejected}, {150, host.Stored}} {
		if got := r.submit(t, &host.Source{}, address(n+1, test.length))[0]; got.verdict.Code != test.want {
			t.Errorf("%d: %v %v, want %v", n, got.verdict, got.err, test.want)
		}
		if test.want == host.Stored {
			// The store of these tests replaces nothing.
			for _, e := range r.store.events {
				if e.ID != address(n+1, 0).ID {
					delete(r.store.events, e.ID)
				}
			}
		}
	}
	r.stop()
}

// TestEndReachesClient: what a policy says of the connection is in the verdict.
func TestEndReachesClient(t *testing.T) {
	r := start(t, func(_ context.Context, it *host.Item, _ host.Facts) host.Ruling {
		return host.Ruling{Action: host.Reject, Reason: "blocked: no", End: it.Event.ID == event(1).ID}
	}, nil)
	for n := 1; n <= 2; n++ {
		if got := r.submit(t, &host.Source{}, event(n))[0]; got.verdict.End != (n == 1) {
			t.Error(fmt.Sprint("event ", n, ": "), got.verdict)
		}
	}
	r.stop()
}
