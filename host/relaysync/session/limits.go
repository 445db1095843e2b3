package session

// Limits bounds what a relay can make the host do, and how hard it is pressed. Every
// number must be positive; lengths of time are milliseconds.
type Limits struct {
	Subscriptions int // that the loop keeps open at once
	Fetches       int // running at once
	Waiting       int // fetches that wait for their turn

	InFlight   int // events submitted and not answered
	EventBytes int // of their texts
	Violations int // breaches of the rules; one is forgiven each second
	Notices    int // told in a minute
	PageEvents int // of one answer to a REQ that asks for past events
	Rounds     int // pages, or messages, of one fetch
	Need       int // ids that are fetched before the comparison begins again
	Push       int // events that one fetch sends

	Page     int     // events of one page
	Chunk    int     // ids of one REQ
	Chunks   int     // such REQs at once
	Requests float64 // subscriptions and fetches that begin in a second, after a burst
	Burst    int

	AnswerTime int64 // of silence about something that was asked
	PageTime   int64 // of one answer, however much comes
	PingAfter  int64 // of silence
	PongTime   int64
}
