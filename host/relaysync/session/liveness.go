package session

// liveness is whether the relay is there.
type liveness struct {
	heard  int64 // when bytes came last
	pinged bool  // since then
}

// Heard takes how many bytes the relay has sent so far, messages that are not whole
// included.
func (s *Session) Heard(now, total int64) {
	if s.at(now) && total != s.stats.Bytes {
		s.stats.Bytes = total
		s.liveness = liveness{heard: s.now}
	}
}

// alive pings a relay that is silent, and ends the session if it stays so.
func (s *Session) alive() bool {
	v, l := &s.liveness, s.limits
	silence := s.now - v.heard
	switch {
	case silence > l.PingAfter+l.PongTime:
		s.end(EndSilent)
		return false
	case silence > l.PingAfter:
		if !v.pinged {
			v.pinged = true
			s.do(Ping{})
		}
		s.check(v.heard + l.PingAfter + l.PongTime + 1)
	default:
		s.check(v.heard + l.PingAfter + 1)
	}
	return true
}
