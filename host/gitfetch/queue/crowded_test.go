package queue

import (
	"fmt"
	"testing"

	"talon/sdk/abi"
)

// TestCrowded has forty domains at one address that takes three connections. Whoever
// finds no room is asked as soon as another request has ended: nothing is counted against
// a domain or a search, and the address never idles.
func TestCrowded(t *testing.T) {
	const domains, room, took = 40, 3, 3000
	q := New(byTheBook(), DefaultClamps)
	now := int64(0)
	for i := range domains {
		if !q.Hurry(now, fmt.Sprint(i), "") {
			t.Fatal("the search is not taken")
		}
	}
	type request struct {
		ticket Ticket
		ends   int64
	}
	var open []request
	refused, complete := 0, 0
	for complete < domains {
		for {
			list := q.Work(now)
			if len(list) == 0 {
				break
			}
			for _, w := range list {
				switch {
				case w.Do == Look:
					q.Looked(now, w.Ticket, Plan{Missing: 1, URLs: []URL{{"https://d" + w.Key + "/x", "d" + w.Key}}})
				case len(open) == room:
					refused++
					q.Done(now, w.Ticket, Result{Crowded: true, Missing: 1})
				default:
					open = append(open, request{w.Ticket, now + took})
				}
			}
		}
		for _, e := range q.Ended() {
			if complete++; e.End != Complete {
				t.Errorf("the search for %s ends %v", e.Key, e.End)
			}
		}
		if len(open) == 0 {
			if complete < domains {
				t.Fatalf("the address idles at %d s, %d of %d searches are complete", now/second, complete, domains)
			}
			break
		}
		if complete+len(open) < domains && len(open) < room {
			t.Fatalf("%d requests are open at %d s, though others wait", len(open), now/second)
		}
		now = open[0].ends
		q.Done(now, open[0].ticket, Result{Outcome: abi.OutcomeOK, Found: 1})
		open = open[1:]
	}
	nothingLeft(t, q)
	for _, d := range q.Domains(now, domains) {
		if d.Requests != 1 || d.Failures != 0 {
			t.Errorf("%s: %d requests, %d failures", d.Name, d.Requests, d.Failures)
		}
	}
	// Forty find the address full once, and each end of a request lets one try.
	if refused > 2*domains {
		t.Errorf("%d attempts found no room", refused)
	}
}

// TestCrowdedByOthers: what takes the room may be no request of the queue's own. A domain
// that found none is looked at again after a while.
func TestCrowdedByOthers(t *testing.T) {
	q := New(byTheBook(), DefaultClamps)
	q.Hurry(0, "x", "")
	now, last, tries := int64(0), int64(0), 0
	for tries < 4 {
		list := q.Work(now)
		for _, w := range list {
			switch w.Do {
			case Look:
				q.Looked(now, w.Ticket, Plan{Missing: 1, URLs: []URL{{"https://d/x", "d"}}})
			case Fetch:
				if now-last > crowdedRest {
					t.Errorf("the domain rests for %d s", (now-last)/second)
				}
				tries, last = tries+1, now
				q.Done(now, w.Ticket, Result{Crowded: true, Missing: 1})
			}
		}
		if at, ok := q.Due(); ok && len(list) == 0 {
			now = max(now, at)
		} else if !ok && len(list) == 0 {
			t.Fatal("nothing is ever due")
		}
	}
}
