package purgatory

import (
	"talon/host/bound"
	"talon/host/store/semantics"
)

// knownShare is the part of purgatory that only known people use: a quarter.
const knownShare = 4

func shareOf(w Weight) Weight { return Weight{bound.Share(w.Events), bound.Share(w.Bytes)} }

// Bounds returns the limits of purgatory, for the table of bounds.
func Bounds(l *semantics.HeldLimits) []bound.Spec {
	git, verdicts := quotaOf(l, CauseGit), quotaOf(l, CauseVerdict)
	known, knownAwaiting := git.known(), verdicts.known()
	const yields = "events that depend on others, then dormant announcements, then the newest event of the heaviest network or author"
	const yieldsAwaiting = "the newest event of the heaviest network or author"
	return []bound.Spec{
		{
			Name: "events that wait for git data", Unit: "events", Total: l.Events, Network: bound.Share(l.Events),
			Key: l.ByAuthor, Known: known.Events, Yields: yields,
		},
		{
			Name: "text of events that wait for git data", Unit: "bytes", Total: l.Bytes, Network: bound.Share(l.Bytes),
			Known: known.Bytes, Yields: yields,
		},
		{
			Name: "events that depend on waiting ones", Unit: "events", Total: l.Dependents, Network: bound.Share(l.Dependents),
			Yields: "the newest event of the network that has most; those of known people count above only",
		},
		{
			Name: "events that depend on the same waiting one", Unit: "events", Total: l.ByParent, Network: bound.Share(l.ByParent),
			Yields: "nobody, and the next event is refused; those of known people count above only",
		},
		{
			Name: "events that a policy holds until another event comes", Unit: "events", Total: l.Verdicts, Network: bound.Share(l.Verdicts),
			Key: l.VerdictsByAuthor, Known: knownAwaiting.Events, Yields: yieldsAwaiting,
		},
		{
			Name: "text of events that a policy holds until another event comes", Unit: "bytes", Total: l.VerdictBytes, Network: bound.Share(l.VerdictBytes),
			Known: knownAwaiting.Bytes, Yields: yieldsAwaiting,
		},
		{
			Name: "refs that wait for their events", Unit: "refs", Total: l.Placeholders, Network: 0,
			Yields: "nobody; each network may push few in an hour, and each ref goes after 20 minutes",
		},
		{
			Name: "events that were taken down, by id, for sync", Unit: "events", Total: semantics.MaxRefused,
			Yields: "the oldest, which sync may fetch and refuse once more; only takedowns and requests to vanish add to them",
		},
		{
			Name: "requests to vanish of authors of whom nothing was here", Unit: "requests", Total: semantics.MaxUnknownVanished,
			Yields: "the oldest; each network may add few in an hour, and requests of authors of whom something was here count separately and stay",
		},
	}
}
