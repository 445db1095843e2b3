package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"talon/host"
)

// programCause says why a program failed: the closed set of labels for metrics.
type programCause string

const (
	programCauseStart   programCause = "start"   // it could not be started
	programCauseTime    programCause = "time"    // it did not answer in time
	programCauseExit    programCause = "exit"    // it ended instead
	programCauseOutput  programCause = "output"  // an answer longer than the cap
	programCauseGarbage programCause = "garbage" // an answer that is none, or to something else
	programCauseBusy    programCause = "busy"    // no process was free in time
)

// programFailure reports that a program failed, and not the host.
type programFailure struct {
	cause programCause

	what string // completes "the program …"
	err  error
}

func (f *programFailure) Error() string {
	if f.err == nil {
		return "the program " + f.what
	}
	return fmt.Sprintf("the program %s: %v", f.what, f.err)
}

func (f *programFailure) Unwrap() error { return f.err }

// asProgramFailure returns the failure in err, nil if there is none.
func asProgramFailure(err error) *programFailure {
	var f *programFailure
	errors.As(err, &f)
	return f
}

// programAnswer is what a program says about an event.
type programAnswer struct {
	Action  host.Action // Accept, Reject or ShadowReject
	Message string      // for the client, as the program gave it
}

// requestLine is the line about an event, as strfry writes it.
func requestLine(it *host.Item, now int64) []byte {
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

var programActions = map[string]host.Action{"accept": host.Accept, "reject": host.Reject, "shadowReject": host.ShadowReject}

// parseAnswer reads the answer about an event.
func parseAnswer(text []byte, id host.ID) (programAnswer, error) {
	var a struct{ ID, Action, Msg string }
	if err := json.Unmarshal(text, &a); err != nil {
		return programAnswer{}, &programFailure{cause: programCauseGarbage, what: fmt.Sprintf("answered %.100q, which is no answer", text), err: err}
	}
	if a.ID != id.String() {
		return programAnswer{}, &programFailure{cause: programCauseGarbage, what: fmt.Sprintf("answered for the id %.80q, and was asked about %s", a.ID, id)}
	}
	action, ok := programActions[a.Action]
	if !ok {
		return programAnswer{}, &programFailure{cause: programCauseGarbage, what: fmt.Sprintf("answered with the action %.40q: want accept, reject or shadowReject", a.Action)}
	}
	return programAnswer{action, a.Msg}, nil
}
