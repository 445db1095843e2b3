package session

import (
	"talon/host/relaysync/match"
	"talon/sdk/abi"
)

// subscription is one that the strategy asked for.
type subscription struct {
	cmd     *Subscribe // without its filters when it is open
	request *request   // nil until it is opened
	gone    bool
}

// subscribe opens a subscription when its turn comes.
func (s *Session) subscribe(cmd *Subscribe) {
	s.unsubscribe(cmd.ID)
	sub := &subscription{cmd: cmd}
	s.subs[cmd.ID] = sub
	s.pace.prune(s.limits)
	s.pace.opening = append(s.pace.opening, sub)
}

// unsubscribe ends a subscription or a fetch, silently.
func (s *Session) unsubscribe(id string) {
	if sub := s.subs[id]; sub != nil {
		sub.gone = true
		delete(s.subs, id)
		if sub.request != nil {
			s.hangUp(sub.request)
		}
	}
	if h := s.fetches[id]; h != nil {
		h.abandon(s)
	}
}

func (sub *subscription) open(s *Session) {
	cmd := sub.cmd
	sub.request = &request{
		owner: sub, purpose: cmd.Purpose, filters: cmd.Filters, matchers: s.cfg.Hash.Matchers(cmd.Filters), live: cmd.Live, lasting: true,
	}
	cmd.Filters = nil
	s.ask(sub.request)
}

func (sub *subscription) saw(*request, *match.Digest) bool { return true }

func (sub *subscription) complete(s *Session, r *request) {
	s.tell(&Eose{
		Serial: sub.cmd.Serial,
		Input:  abi.Eose{Relay: s.relay, ID: sub.cmd.ID, Events: uint32(r.events), New: uint32(r.fresh), MinCreatedAt: r.oldest},
		Gap:    gapOf(r.purpose, r.kept, r.first),
	})
}

func (sub *subscription) refused(s *Session, _ *request, class uint32, reason string) {
	delete(s.subs, sub.cmd.ID)
	sub.gone = true
	s.tell(&Closed{Serial: sub.cmd.Serial, Input: abi.Closed{Relay: s.relay, ID: sub.cmd.ID, Class: class, Reason: Quote(reason)}})
}
