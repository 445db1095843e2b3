package relaysync

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/abi"
)

// TestEndlessPages has a relay that answers each page with valid events which are older than those
// of the page before. The fetch ends at its limit of pages, and the strategy hears that it is not
// complete.
func TestEndlessPages(t *testing.T) {
	const page, rounds = 20, 10
	var next atomic.Int64
	r := newRemote(t, onReq(func(p *peer, sub string) {
		for range page {
			n := next.Add(1)
			p.event(sub, signed(t, alice, 1, epoch-n, fmt.Sprint("older ", n)))
		}
		p.say(`["EOSE","%s"]`, sub)
	}))
	w := start(t, onConnect(r.url, fetch(r.url, "h", abi.MethodREQ, kinds(1))), func(cfg *Config, _ *Deps) {
		cfg.Limits.Page, cfg.Limits.Rounds = page, rounds
	})
	got := w.plan.wait(t, 1, "done h")
	if !strings.Contains(got, "complete=false") {
		t.Errorf("the strategy hears %q of pages without an end", got)
	}
	if n := next.Load(); n > (rounds+1)*page {
		t.Errorf("the relay gave %d events, want at most those of %d pages", n, rounds)
	}
}

// TestUnaskedInPages has a relay that ends each page with an event that is newer than the page may be.
// The fetch makes no progress by it: it ends, and is not complete.
func TestUnaskedInPages(t *testing.T) {
	var requests atomic.Int64
	unasked, list := signed(t, alice, 1, epoch, "newest"), notes(t, 3)
	r := newRemote(t, onReq(func(p *peer, sub string) {
		if requests.Add(1) == 1 {
			p.event(sub, list[0])
		}
		p.event(sub, unasked)
		p.say(`["EOSE","%s"]`, sub)
	}))
	f := fetch(r.url, "h", abi.MethodREQ, kinds(1))
	w := start(t, onConnect(r.url, f), nil)
	got := w.plan.wait(t, 1, "done h")
	if n := requests.Load(); n > 4 || !strings.Contains(got, "complete=false") {
		t.Errorf("%d requests, and the strategy hears %q", n, got)
	}
}

// TestEndlessPage has a relay that answers one request with valid events and no end. It loses its
// connection, and takes no more than the limit of one page.
func TestEndlessPage(t *testing.T) {
	const maxPage = 100
	list := notes(t, 4*maxPage)
	r := newRemote(t, onReq(func(p *peer, sub string) {
		go func() {
			for _, e := range list {
				p.event(sub, e)
			}
		}()
	}))
	w := start(t, onConnect(r.url, fetch(r.url, "h", abi.MethodREQ, kinds(1))), func(cfg *Config, _ *Deps) {
		cfg.Limits.PageEvents, cfg.Limits.Page, cfg.Limits.Violations = maxPage, maxPage/2, 20
	})
	w.plan.wait(t, 1, fmt.Sprintf("disconnected class=%d connected=true", abi.ClassError))
	if stored := w.store.Len(); stored > maxPage+20 {
		t.Errorf("%d events of one answer were taken, want at most %d", stored, maxPage)
	}
}

// TestFutureEvents has a relay whose valid events are of the far future, and refused for it. The
// next fetch does not take them again, and the page before them is found.
func TestFutureEvents(t *testing.T) {
	real := notes(t, 10)
	r := newRemote(t, func(r *remote) { r.neg = false })
	r.add(real...)
	var future []*host.Event
	for i := range int64(50) {
		future = append(future, signed(t, alice, 1, math.MaxInt32*2+i, fmt.Sprint("future ", i)))
	}
	r.add(future...)
	w := start(t, nil, func(cfg *Config, _ *Deps) { cfg.Limits.Page = 20 })
	w.store.SetPolicy(func(e *host.Event) host.Verdict {
		if e.CreatedAt > time.Now().Unix()+900 {
			return host.Verdict{Code: host.Rejected, Reason: "invalid: created_at is too far in the future"}
		}
		return host.Verdict{Code: host.Stored}
	})
	w.plan.swap(onConnect(r.url, fetch(r.url, "first", abi.MethodREQ, kinds(1))))
	w.plan.wait(t, 1, "done first")
	for _, e := range real {
		if !w.store.Has(e.ID) {
			t.Fatalf("a present event is hidden behind those of the future")
		}
	}
	before := w.store.Submitted()
	w.plan.swap(func(v *abi.StepView) []abi.StepAction {
		if v.Kind != abi.InputInit {
			return nil
		}
		return []abi.StepAction{fetch(r.url, "second", abi.MethodREQ, kinds(1))}
	})
	w.plan.wait(t, 1, "done second")
	if n := w.store.Submitted() - before; n > 0 {
		t.Errorf("%d events were decided again that are refused for their date", n)
	}
}

// TestNegentropyWithoutEnd has a relay that answers every message of a comparison with the claim
// that all differs. The comparison ends at its limit of messages; the connection stays.
func TestNegentropyWithoutEnd(t *testing.T) {
	var messages atomic.Int64
	// It differs from everything: a fingerprint of nothing for the whole range, again and again.
	endless := []byte{0x61, 0, 0, 1}
	endless = append(endless, make([]byte, 16)...)
	r := newRemote(t, func(r *remote) {
		r.script = func(p *peer, m *wire.Message) bool {
			if m.Verb == wire.NegOpen || m.Verb == wire.NegMsg {
				n := messages.Add(1)
				endless[4] = byte(n)
				p.say(`["NEG-MSG","%s","%x"]`, m.SubID, endless)
				return true
			}
			return false
		}
	})
	w := start(t, nil, func(cfg *Config, _ *Deps) { cfg.Limits.Rounds = 50 })
	w.put(notes(t, 200)...)
	w.plan.swap(onConnect(r.url, fetch(r.url, "h", abi.MethodNegentropy, kinds(1))))
	got := w.plan.wait(t, 1, "done h")
	if !strings.Contains(got, "complete=false") {
		t.Errorf("the strategy hears %q", got)
	}
	if n := messages.Load(); n > 60 {
		t.Errorf("%d messages were sent in one comparison, want at most 50", n)
	}
}
