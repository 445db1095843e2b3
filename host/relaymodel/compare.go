package relaymodel

import (
	"encoding/binary"
	"slices"
	"strconv"

	"talon/host"
	"talon/host/negentropy"
	"talon/host/wire"
)

// session is one comparison (NIP-77).
type session struct {
	id     string
	heard  int64
	server *negentropy.Server
}

// compare answers the messages of comparisons.
func (r *Relay) compare(c *conn, m *wire.Message) {
	p := &r.profile.Negentropy
	i := slices.IndexFunc(c.sessions, func(s *session) bool { return s.id == m.SubID })
	switch m.Verb {
	case wire.NegOpen:
		r.stats.Comparisons++
		if !r.mayAsk(c, m, true) {
			return
		}
		if i >= 0 {
			c.sessions = slices.Delete(c.sessions, i, i+1)
		}
		if p.Sessions > 0 && len(c.sessions) >= p.Sessions {
			r.refuse(c, m.SubID, Answer{By: "notice", Text: p.SessionsText}, 0, 0)
			return
		}
		s := r.begin(c, m)
		if s == nil {
			return
		}
		c.sessions = append(c.sessions, s)
		i = len(c.sessions) - 1
		if p.IdleS > 0 {
			r.clock.After(millis(p.IdleS), func() { r.idle(c, s.id) })
		}
	case wire.NegMsg:
		if i < 0 {
			r.stats.Refused++
			r.send(c, wire.AppendNegErr(nil, m.SubID, p.Unknown))
			return
		}
	case wire.NegClose:
		if i >= 0 {
			c.sessions = slices.Delete(c.sessions, i, i+1)
		}
		return
	}
	s := c.sessions[i]
	s.heard = r.clock.Now()
	reply, err := s.server.Reconcile(m.Neg)
	if err != nil {
		r.stats.Refused++
		c.sessions = slices.Delete(c.sessions, i, i+1)
		if p.Wrong != "" {
			r.send(c, wire.AppendNegErr(nil, m.SubID, p.Wrong))
		}
		return
	}
	r.send(c, wire.AppendNegMsg(nil, m.SubID, reply))
}

// begin makes a session, nil if it is refused.
func (r *Relay) begin(c *conn, m *wire.Message) *session {
	p := &r.profile.Negentropy
	f := m.Filters[0]
	if !p.HonoursLimit {
		f.Limit = -1
	}
	list := r.store.matching(&f, r.profile.Answer.AnyLetter)
	if r.withholds(c) {
		list = slices.DeleteFunc(list, func(e *entry) bool { return r.isWithheld(e.Event) })
	}
	slices.SortFunc(list, newestFirst)
	if f.Limit >= 0 && len(list) > f.Limit {
		list = list[:f.Limit]
	}
	if p.Records > 0 && len(list) > p.Records {
		r.stats.Refused++
		text := wire.AppendNegErr(nil, m.SubID, p.TooMany)
		if p.TooManyCount {
			text = append(strconv.AppendInt(append(text[:len(text)-1], ','), int64(p.Records), 10), ']')
		}
		r.send(c, text)
		return nil
	}
	var b negentropy.Builder
	for _, e := range list {
		b.Add(negentropy.Item{CreatedAt: uint64(e.CreatedAt), ID: e.ID})
	}
	for i := range uint64(r.profile.Lies.Claims) {
		var id host.ID
		for k := range 4 {
			binary.LittleEndian.PutUint64(id[8*k:], Mix(r.seed+i*4+uint64(k)))
		}
		b.Add(negentropy.Item{CreatedAt: uint64(r.clock.Now()/1000) - i, ID: id})
	}
	server, err := negentropy.NewServer(b.Build(), p.FrameBytes)
	if err != nil {
		panic(err) // the profile was checked
	}
	return &session{id: m.SubID, heard: r.clock.Now(), server: server}
}

// idle ends a session that the client has left alone, or looks again later.
func (r *Relay) idle(c *conn, id string) {
	p := &r.profile.Negentropy
	i := slices.IndexFunc(c.sessions, func(s *session) bool { return s.id == id })
	if i < 0 || c.gone {
		return
	}
	if due := c.sessions[i].heard + millis(p.IdleS); due > r.clock.Now() {
		r.clock.At(due, func() { r.idle(c, id) })
		return
	}
	c.sessions = slices.Delete(c.sessions, i, i+1)
	r.send(c, wire.AppendNegErr(nil, id, p.IdleText))
}
