package session

// IgnoreReason is the reason why something that a relay sent was ignored.
type IgnoreReason uint8

// Reasons.
const (
	DropUnasked  IgnoreReason = iota // no open subscription asked for it
	DropForged                       // id or signature are wrong
	DropKnown                        // it is here, or was refused lately
	DropNonsense                     // it was not understood
)

// Drops is the number of reasons.
const Drops = int(DropNonsense) + 1

func (d IgnoreReason) String() string {
	return [Drops]string{"unasked", "forged", "known", "nonsense"}[d]
}

// breach is something that a relay does, and that the session passes over.
type breach uint8

const (
	eventForged breach = iota
	comparisonUnreadable
	messageUnreadable
	verbUnknown
	idUnknown
	answerEndless
	eventRepeated
	challengeRepeated
	okUnasked
	noticeUncalled
	answerLate
	eventOutsideLive
	eventLate
	eventKnownLive
	eventOutside
	eventOfClosed
	eventKnown
	noticeBeyond
)

// breaches is the only place of weights. docs/strategies.md shows it. Whatever honest
// relays do by the hundred weighs nothing, or so little that one a second is forgiven.
var breaches = [...]struct {
	reason IgnoreReason
	weight float64
	what   string // the relay does
	why    string // it weighs that much
}{
	eventForged:          {DropForged, 5, "sends an event whose id or signature is wrong", "Each costs a verification. A relay that stores without verifying has few of them."},
	comparisonUnreadable: {DropNonsense, 5, "sends a message of NIP-77 that cannot be read, or that does not end", "One comparison ends with the first such message, so an honest relay has one for each fetch."},
	messageUnreadable:    {DropNonsense, 1, "sends a message that is not a message of nostr", "No known relay does so."},
	verbUnknown:          {DropUnasked, 0.5, "sends a message with an unknown verb", "Extensions are not forbidden."},
	idUnknown:            {DropUnasked, 1, "answers a subscription id that was never used", "No known relay does so."},
	answerEndless:        {DropUnasked, 1, "sends more events than one answer may have, after our CLOSE", "khatru sends the rest of an answer, which has an end."},
	eventRepeated:        {DropUnasked, 0.2, "sends an event twice in one answer to a fetch, or another one than the ids that were asked for", "Fetches have one filter, of which no known relay repeats anything."},
	challengeRepeated:    {DropUnasked, 1, "sends a fourth AUTH challenge on one connection", "strfry and nostream send one."},
	okUnasked:            {DropUnasked, 0.5, "answers OK to an event that was not sent", "No known relay does so."},
	noticeUncalled:       {DropUnasked, 0.5, "sends more than 20 NOTICEs in a minute, and more than it got messages", "Relays send one for each message that they refuse."},
	answerLate:           {DropUnasked, 0.2, "sends EOSE, CLOSED or NEG-ERR for a request that ended long ago", "Slow relays do so, once for each request."},
	eventOutsideLive:     {DropUnasked, 0.1, "sends a genuine new event that nobody asked for", "A relay may pass over a condition. 10 a second are forgiven, a firehose is not."},
	eventLate:            {DropUnasked, 0.05, "sends an event for a request that ended long ago", "nostr-rs-relay and khatru may have lost, or do not heed, our CLOSE."},
	eventKnownLive:       {DropKnown, 0.001, "sends a new event that is here already", "Another relay was faster. A thousand a second are forgiven."},
	eventOutside:         {DropUnasked, 0, "sends a genuine stored event that nobody asked for", "badger's index finds values that begin as the one asked for. The answer has a bound."},
	eventOfClosed:        {DropUnasked, 0, "sends an event for a request that we closed", "It was on its way. The answer has a bound."},
	eventKnown:           {DropKnown, 0, "sends a stored event that is here already", "A REQ cannot say what is here."},
	noticeBeyond:         {DropUnasked, 0, "sends more than 20 NOTICEs in a minute, one for each message that it got", "Relays without CLOSED refuse that way."},
}

// violation passes over something that the relay sent, and counts it by its weight. Too
// many violations end the session. They are forgiven over time.
func (s *Session) violation(b breach) {
	s.stats.Dropped[breaches[b].reason]++
	if s.violations += breaches[b].weight; s.violations > float64(s.limits.Violations) {
		s.close(EndViolations)
	}
}
