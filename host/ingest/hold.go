package ingest

import (
	"context"

	"talon/host"
	"talon/host/maintainers"
	"talon/sdk/grasp"
)

// hold returns how an event that a policy holds goes into purgatory, or the verdict that it
// cannot.
func (p *Pipeline) hold(ctx context.Context, it *host.Item, ruling *host.Ruling, facts host.RepoFacts, v *view) (*host.HoldOptions, *host.Verdict, error) {
	over, waiting := p.quotas.reached(it, v)
	switch {
	case p.cfg.Held == nil:
		return nil, &host.Verdict{Code: host.Rejected, Reason: "blocked: this relay does not hold events back"}, nil
	case ruling.Wake != "": // the quota of git data is not for it
	case over == ofNetwork:
		p.metrics.overQuota.WithLabelValues(string(over)).Inc()
		return nil, over.verdict(waiting), nil
	}
	if it.Event.Kind.Class() == host.Ephemeral {
		return nil, &host.Verdict{Code: host.Rejected, Reason: "blocked: an ephemeral event cannot wait"}, nil
	}
	h := &host.HoldOptions{Reason: ruling.Reason, Synced: it.Source.Origin == host.FromSync, Parent: ruling.Parent}
	if h.Reason == "" {
		h.Reason = host.ReasonHeld
	}
	if ruling.Wake != "" {
		h.Wake, h.Wait, h.Parent = []byte(ruling.Wake), ruling.Wait, ""
		return h, nil, nil
	}
	if h.Parent != "" {
		return h, nil, nil // it brings no git data, so nothing starts again for it
	}
	if it.Event.Kind != grasp.KindState {
		return h, nil, nil
	}
	// The time of held announcements starts again: of those in whose recursive maintainer set
	// the author of the state is.
	identifier := it.Event.D()
	owners, err := maintainers.Owners(ctx, facts, identifier, it.Event.PubKey)
	if err != nil {
		return nil, nil, err
	}
	for _, owner := range owners {
		if owner.Held {
			h.ExtendDeadline = append(h.ExtendDeadline, host.Address{Kind: grasp.KindAnnouncement, PubKey: owner.PubKey, D: identifier})
		}
	}
	return h, nil, nil
}
