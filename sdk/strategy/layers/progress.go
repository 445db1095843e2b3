package layers

import "talon/sdk/strategy"

// Report has the driver report the progress with a relay, if it has changed.
func (p *Peer) Report() { p.driver.ready(p) }

// resumes notes that requests to a relay continue from the end of its last connection. Only a
// comparison then finds events with old dates.
func (p *Peer) resumes(method uint32) {
	if p.Caps.Negentropy != strategy.SupportYes || method == strategy.MethodREQ {
		p.OldDates, p.everything = true, false
	}
}

// reportProgress reports how far the strategy has come with the relay, if that has changed.
func (p *Peer) reportProgress(t *stepBudget) bool {
	now := strategy.Progress{
		Past:      p.Unchecked || p.Due || !p.Later.Empty() || p.waiting() || p.behind(),
		Closed:    len(p.lost) > 0,
		Anew:      p.anew,
		NextCheck: p.NextCheck,
	}
	if p.everything && !now.Past {
		p.OldDates = false
	}
	now.OldDates = p.OldDates
	if daily := p.driver.timers.when(p.key(Daily)); now.NextCheck == 0 || daily != 0 && daily < now.NextCheck {
		now.NextCheck = daily
	}
	if now == p.progress {
		return true
	}
	if !t.room(1, len(p.URL)) {
		return false
	}
	t.left -= workDo
	t.out.Progress(p.URL, now)
	p.progress = now
	return true
}
