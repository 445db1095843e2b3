package retry

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"talon/host"
)

// again takes the events whose pause is over.
func again(s *Expired, now int64) string {
	var list []string
	for r, ok := s.Next(now); ok; r, ok = s.Next(now) {
		list = append(list, fmt.Sprint(r.Event.ID[0], " from ", r.Source))
	}
	return strings.Join(list, ", ")
}

// An event is held for half an hour again and again. The pauses grow up to two hours, and there
// is none that begins more than a day after the event came, not even when the next check brings it.
func TestExpired(t *testing.T) {
	s := NewExpired(DefaultLimits)
	e := event(1, 30618, host.Tag{"d", "x"})
	s.Held(e.ID, "one", now)
	var held []string
	for minute := int64(0); minute < 10*24*60; minute++ {
		at := now + minute*60
		switch got := again(s, at); {
		case got == "1 from one":
			held = append(held, fmt.Sprint(minute))
			s.Held(e.ID, "two", at)
			minute += 29
			s.Expire(e, at+30*60)
		case got != "":
			t.Fatalf("minute %d: %q is tried again", minute, got)
		case minute == 30:
			s.Expire(e, at)
		case minute == 3*24*60:
			s.Held(e.ID, "one", at)
			s.Expire(e, at+30*60)
		}
	}
	if got := strings.Join(held, " "); got != "60 180 330 480 630 780 930 1080 1230 1380 1530" {
		t.Errorf("it is held again after %s minutes", got)
	}
	if len(s.entries)+len(s.sources)+s.order.Len()+s.pausing.Len()+s.bytes != 0 {
		t.Errorf("%d events are remembered after ten days", len(s.entries))
	}
}

// An event that came, or was held by another way, is not tried again. Nor is one that did not
// come from a relay.
func TestExpiredForget(t *testing.T) {
	s := NewExpired(DefaultLimits)
	var events [4]*host.Event
	for i := range events {
		events[i] = event(byte(i), 1618)
		if i > 0 {
			s.Held(events[i].ID, "one", now)
		}
		s.Expire(events[i], now+1800)
	}
	s.Forget(events[1].ID)
	s.Held(events[2].ID, "two", now+1900)
	if got := again(s, now+3600); got != "3 from one" {
		t.Errorf("%q are tried again", got)
	}
}

// Any order of calls keeps the bounds, and one source cannot push out others.
func TestExpiredBounds(t *testing.T) {
	small := event(0, 1618)
	limits := Limits{Events: 40, Bytes: 12 * len(small.JSON)}
	s := NewExpired(limits)
	random := rand.New(rand.NewPCG(1, 2))
	at := int64(now)
	for range 20_000 {
		at += random.Int64N(120)
		id, source := host.ID{byte(random.IntN(200)), 1}, "flood"
		if random.IntN(10) == 0 {
			id[1], source = 2, fmt.Sprint("other ", random.IntN(3))
		}
		e := event(id[0], 1618)
		e.ID = id
		switch random.IntN(4) {
		case 0, 1:
			s.Held(id, source, at)
		case 2:
			s.Expire(e, at)
		case 3:
			if random.IntN(3) == 0 {
				s.Forget(id)
			}
			s.Next(at)
		}
		bytes, mine := 0, 0
		for _, x := range s.pausing.Items() {
			bytes += len(x.event.JSON)
		}
		for _, l := range s.sources {
			mine += l.Len()
		}
		if n := len(s.entries); n > limits.Events || n != s.order.Len() || n != mine || bytes != s.bytes || bytes > limits.Bytes {
			t.Fatalf("%d events, %d in order, %d of sources; %d bytes, %d counted", n, s.order.Len(), mine, bytes, s.bytes)
		}
	}

	s = NewExpired(limits)
	s.Held(small.ID, "honest", at)
	for n := range 200 {
		s.Held(host.ID{byte(n), 9}, "flood", at)
	}
	if s.Expire(small, at+1800); !slices.ContainsFunc(s.pausing.Items(), func(x *expired) bool { return x.id == small.ID }) {
		t.Error("a source that sends much pushed out another's event")
	}
}
