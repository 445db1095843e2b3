package semantics

import "talon/host"

// MaxUnknownVanished is how many requests to vanish a database keeps of authors of whom nothing was
// here. Anybody can sign such requests, so the oldest give way. A row takes about 150 bytes.
const MaxUnknownVanished = 100_000

// VanishRows are the requests to vanish in the open transaction of an engine.
type VanishRows interface {
	// VanishedTotal returns how many authors have asked to vanish.
	VanishedTotal() int64

	// VanishedOf returns the requests of these authors.
	VanishedOf(authors []host.PubKey) ([]host.VanishRequest, error)

	// InsertVanished adds a request with the next number, in the place of an earlier one of its
	// author. Of requests without JSON it keeps the newest, at most limit.
	InsertVanished(v *host.VanishRequest, limit int64) error
}

// Vanish notes a request to vanish. From then on nothing that the request concerns is stored or
// held. Callers take down the events that are here, in slices.
func Vanish(rows VanishRows, v *host.VanishRequest) (out host.Outcome, err error) {
	before, err := rows.VanishedOf([]host.PubKey{v.PubKey})
	if err != nil {
		return out, err
	}
	for _, have := range before {
		if v.Until <= have.Until {
			return host.Outcome{Code: host.Duplicate, Reason: ReasonHave}, nil
		}
		if have.JSON != nil && v.JSON == nil {
			// It must not give way to requests of strangers.
			known := *v
			known.JSON = have.JSON
			v = &known
		}
	}
	return host.Outcome{Code: host.Stored}, rows.InsertVanished(v, MaxUnknownVanished)
}

// vanishRefusal returns why an event is neither stored nor held because somebody has vanished, and no
// reason if it may be.
func vanishRefusal(rows VanishRows, k *Known, e *host.Event) (code host.Code, reason string, err error) {
	switch {
	case rows.VanishedTotal() == 0:
		return 0, "", nil
	case k.Vanished && e.CreatedAt <= k.VanishedUntil:
		return host.Rejected, ReasonVanished, nil
	case e.Kind != host.KindGiftWrap:
		return 0, "", nil
	}
	gone, err := rows.VanishedOf(e.Recipients())
	for i := range gone {
		if gone[i].Concerns(e) {
			return host.Rejected, ReasonRecipientVanished, err
		}
	}
	return 0, "", err
}
