package program

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"talon/host"
)

// Answer is what a program says about an event.
type Answer struct {
	Action  host.Action // Accept, Reject or ShadowReject
	Message string      // for the client, as the program gave it
}

// request is the line about an event, as strfry writes it.
func request(it *host.Item, now int64) []byte {
	s := struct {
		Type       string          `json:"type"`
		Event      json.RawMessage `json:"event"`
		ReceivedAt int64           `json:"receivedAt"`
		SourceType string          `json:"sourceType"`
		SourceInfo string          `json:"sourceInfo"`
		Authed     string          `json:"authed,omitempty"`
	}{Type: "new", Event: it.Event.JSON, ReceivedAt: now, SourceType: "IP4"}
	if len(it.Event.JSON) == 0 {
		s.Event = it.Event.AppendJSON(nil)
	}
	switch source := it.Source; {
	case source == nil:
	case source.Origin == host.FromImport:
		s.SourceType = "Import"
	case source.Origin == host.FromSync:
		s.SourceType, s.SourceInfo = "Sync", source.Relay
	case source.Addr.IsValid():
		addr := source.Addr.Unmap().WithZone("")
		if addr.Is6() {
			s.SourceType = "IP6"
		}
		s.SourceInfo = addr.String()
	}
	if len(it.Authed) > 0 {
		s.Authed = it.Authed[0].String()
	}
	// It writes the event without white space: a client cannot make two lines of one.
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	_ = e.Encode(&s) // what was parsed as JSON can be written as JSON
	return line.Bytes()
}

var actions = map[string]host.Action{"accept": host.Accept, "reject": host.Reject, "shadowReject": host.ShadowReject}

// parse reads the answer about an event.
func parse(text []byte, id host.ID) (Answer, error) {
	var a struct{ ID, Action, Msg string }
	if err := json.Unmarshal(text, &a); err != nil {
		return Answer{}, &Failure{Cause: CauseGarbage, what: fmt.Sprintf("answered %.100q, which is no answer", text), err: err}
	}
	if a.ID != id.String() {
		return Answer{}, &Failure{Cause: CauseGarbage, what: fmt.Sprintf("answered for the id %.80q, and was asked about %s", a.ID, id)}
	}
	action, ok := actions[a.Action]
	if !ok {
		return Answer{}, &Failure{Cause: CauseGarbage, what: fmt.Sprintf("answered with the action %.40q: want accept, reject or shadowReject", a.Action)}
	}
	return Answer{action, a.Msg}, nil
}

// clean makes a line fit for the log.
func clean(line []byte) string {
	return strings.ToValidUTF8(string(bytes.TrimRight(line, "\r\n")), "\uFFFD")
}

// maxRate is how many lines of a program are logged in a second.
const maxRate = 10

// rate counts what is logged in each second.
type rate struct {
	clock func() time.Time

	mu     sync.Mutex // guards the fields below
	second int64
	taken  int
	missed int
}

// take reports whether a line may be logged, and how many could not be before it.
func (r *rate) take() (ok bool, missed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.clock().Unix(); now != r.second {
		r.second, r.taken = now, 0
	}
	if r.taken == maxRate {
		r.missed++
		return false, 0
	}
	r.taken++
	missed, r.missed = r.missed, 0
	return true, missed
}
