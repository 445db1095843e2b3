package ingest

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"talon/host"
)

// verify applies what no policy may bend: the protocol's rules, the id, the signature. It
// returns nil if the event passes. An event that was stored lately is a duplicate, and costs
// no signature check.
func (p *Pipeline) verify(e *entry, facts *host.FactReader, now int64) *host.Verdict {
	it := e.item
	// A stored event may be deleted before the turn of this copy. The id is only what the
	// sender claims: if it is not the hash of this event, another event is stored.
	if !e.atTurn && p.recent.has(it.Event.ID) && it.Event.CheckID() == nil {
		facts.Stored = append(facts.Stored, host.Filter{IDs: []host.ID{it.Event.ID}})
		return &host.Verdict{Code: host.Duplicate, Reason: "duplicate: already have this event"}
	}
	if v := rule(it, now); v != nil {
		return v
	}
	start := time.Now()
	err := p.cfg.Verify(it.Event)
	p.metrics.verify.Observe(time.Since(start).Seconds())
	switch {
	case err == nil:
		return nil
	case errors.Is(err, host.ErrID):
		return &host.Verdict{Code: host.Rejected, Reason: "invalid: " + host.ErrID.Error()}
	}
	return &host.Verdict{Code: host.Rejected, Reason: "invalid: event signature is not valid"}
}

// Kinds of reposts (NIP-18).
const (
	kindRepost        host.Kind = 6
	kindGenericRepost host.Kind = 16
)

// rule applies the rules of the protocol that need nothing but the event and its
// source. It returns nil if the event passes.
func rule(it *host.Item, now int64) *host.Verdict {
	e := it.Event
	refuse := func(reason string) *host.Verdict {
		return &host.Verdict{Code: host.Rejected, Reason: reason}
	}
	if e.Kind == host.KindAuth {
		return refuse("invalid: an authentication event belongs in an AUTH message (NIP-42)")
	}
	if at, ok := e.Expiration(); ok && at <= now {
		return refuse("invalid: event has expired (NIP-40)")
	}
	if e.Protected() {
		switch {
		case it.Source.Origin == host.FromImport || slices.Contains(it.Authed, e.PubKey):
		case it.Source.Origin != host.FromClient:
			return refuse("blocked: a protected event is taken from its author only (NIP-70)")
		case len(it.Authed) == 0:
			return &host.Verdict{Code: host.AuthRequired, Reason: "auth-required: a protected event is taken from its author only (NIP-70)"}
		default:
			return refuse("restricted: a protected event is taken from its author only (NIP-70)")
		}
	}
	if (e.Kind == kindRepost || e.Kind == kindGenericRepost) && embedsProtected(e.Content) {
		return refuse("blocked: a repost must not contain a protected event (NIP-70)")
	}
	return nil
}

// embedsProtected reports whether the content of a repost is an event with a "-"
// tag.
func embedsProtected(content string) bool {
	// Most reposts end here; one that escapes its tag's name does not.
	if !strings.Contains(content, `"-"`) && !strings.Contains(content, `\u`) {
		return false
	}
	var embedded struct{ Tags [][]string }
	if json.Unmarshal([]byte(content), &embedded) != nil {
		return false
	}
	return slices.ContainsFunc(embedded.Tags, func(tag []string) bool { return len(tag) > 0 && tag[0] == "-" })
}
