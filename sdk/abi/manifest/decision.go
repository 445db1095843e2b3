package manifest

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"slices"

	"talon/sdk/abi"
)

// Decision is a decision as one line of a recording: a [Vector] that a relay writes
// while it decides, and what vectors do not have. Its parts are those of Vector, which
// reads it; events are as the relay has them.
type Decision struct {
	Function    string              `json:"function"`
	Now         int64               `json:"now"`
	Service     VectorService       `json:"service"`
	Event       json.RawMessage     `json:"event,omitempty"`
	Source      *VectorSource       `json:"source,omitempty"`
	Client      *VectorClient       `json:"client,omitempty"`
	Verb        string              `json:"verb,omitempty"`
	Filters     []VectorFilter      `json:"filters,omitempty"`
	Open        int                 `json:"open,omitempty"`
	FromAddress int                 `json:"from_address,omitempty"`
	Push        *VectorPush         `json:"push,omitempty"`
	Stored      []json.RawMessage   `json:"stored,omitempty"`
	Held        []json.RawMessage   `json:"held,omitempty"`
	Sets        map[string][]string `json:"sets,omitempty"`
	Want        VectorWant          `json:"want"`
	Recorded
}

// Recorded is what a recording says of a decision beside the vector.
type Recorded struct {
	By string `json:"by"` // the plugin that gave the answer; empty if none had an opinion

	// Chain are the plugins that decide, in order, and Asked is how many of them were
	// asked. The chain is null if the line is about what one plugin said.
	Chain []string `json:"chain"`
	Asked int      `json:"asked,omitempty"`

	// Unseen are the capabilities on which the answer rests too: a line cannot say what
	// repositories hold, and what a module remembered before the first line.
	Unseen []string `json:"unseen,omitempty"`
}

// Line returns the decision as a line of JSON.
func (d *Decision) Line() ([]byte, error) { return readable(d) }

// readable returns the JSON of a value, and a line feed. What HTML has a meaning for
// stands there as it is.
func readable(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return text.Bytes(), err
}

// Keys returns ids or keys as vectors have them.
func Keys[K ~[32]byte](list []K) (keys []Key) {
	for _, k := range list {
		keys = append(keys, Key(k))
	}
	return keys
}

func (k Key) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, k[:]), nil }

// FilterOf returns a filter as vectors have it.
func FilterOf[I, P ~[32]byte, K ~uint16, T ~struct {
	Name   byte
	Values []string
}](f *abi.QueryFilter[I, P, K, T]) VectorFilter {
	var to VectorFilter
	to.filter.IDs, to.filter.Authors = Keys(f.IDs), Keys(f.Authors)
	for _, kind := range f.Kinds {
		to.filter.Kinds = append(to.filter.Kinds, uint16(kind))
	}
	for _, tag := range f.Tags {
		to.filter.Tags = append(to.filter.Tags, tagCondition(tag))
	}
	to.filter.Since, to.filter.Until, to.filter.Limit = f.Since, f.Until, f.Limit
	return to
}

func (f VectorFilter) MarshalJSON() ([]byte, error) {
	to := map[string]any{}
	if f.filter.IDs != nil {
		to["ids"] = f.filter.IDs
	}
	if f.filter.Authors != nil {
		to["authors"] = f.filter.Authors
	}
	if f.filter.Kinds != nil {
		to["kinds"] = f.filter.Kinds
	}
	for _, tag := range f.filter.Tags {
		to["#"+string(rune(tag.Name))] = tag.Values
	}
	if f.filter.Since != nil {
		to["since"] = *f.filter.Since
	}
	if f.filter.Until != nil {
		to["until"] = *f.filter.Until
	}
	if f.filter.Limit >= 0 {
		to["limit"] = f.filter.Limit
	}
	return readable(to)
}

func (u VectorUpdate) MarshalJSON() ([]byte, error) {
	return readable(struct {
		Ref string `json:"ref"`
		Old string `json:"old"`
		New string `json:"new"`
	}(u))
}

// answers are the actions that make sense for each function of the policy world.
var answers = map[string][]uint32{
	"admit":   {abi.ActionPass, abi.ActionAccept, abi.ActionReject, abi.ActionShadowReject, abi.ActionHold, abi.ActionRequireAuth},
	"query":   {abi.ActionPass, abi.ActionAccept, abi.ActionReject, abi.ActionShadowReject, abi.ActionRequireAuth},
	"connect": {abi.ActionPass, abi.ActionAccept, abi.ActionReject},
	"push":    {abi.ActionPass, abi.ActionAccept, abi.ActionReject},
}

// MayAnswer reports whether a function of the policy world may answer with an
// action: only an event can be held, and only a client that sends events or
// queries can be asked to authenticate.
func MayAnswer(function string, action uint32) bool {
	return slices.Contains(answers[function], action)
}

// ActionName returns an action's name as a vector has it.
func ActionName(action uint32) string {
	if action < uint32(len(actionNames)) {
		return actionNames[action]
	}
	return "an unknown action"
}

// pickWanted is the message PickAnswer.
type pickWanted struct {
	Index uint32 `json:"index"`
	None  bool   `json:"none"`

	waiting int // repositories of the request
}

func (q *pickRequestForm) answer() throttleWanted { return &pickWanted{waiting: len(q.Waiting)} }

func (w *pickWanted) read(answer []byte) error {
	a, err := abi.DecodePickAnswer(answer, w.waiting)
	w.Index, w.None = a.Index, a.None
	return err
}

func (w *pickWanted) append(b []byte) []byte {
	return abi.AppendPickAnswer(b, &abi.PickAnswer{Index: w.Index, None: w.None})
}

// tickWanted has no limits where the answer leaves them as they are.
type tickWanted struct {
	Limits *clientLimitsForm `json:"limits"`
}

func (*tickRequestForm) answer() throttleWanted { return new(tickWanted) }

func (w *tickWanted) read(answer []byte) error {
	a, err := abi.DecodeTickAnswer(answer)
	if w.Limits = nil; a.Set {
		w.Limits = (*clientLimitsForm)(&a.Limits)
	}
	return err
}

func (w *tickWanted) append(b []byte) []byte {
	if w.Limits == nil {
		return b
	}
	return abi.AppendTickAnswer(b, &abi.TickAnswer{Set: true, Limits: w.Limits.encoded()})
}
