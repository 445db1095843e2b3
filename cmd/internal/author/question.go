package author

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"talon/host/plugin/guest"
	"talon/sdk/abi/manifest"
)

// Case is one question to a module, read from one line of a file. A line is one of
//
//   - an event, as NIP-01 has it; an id that is missing is computed, what else is
//     missing is zeros;
//   - a vector as manifests have them ([manifest.Vector]): "function" is admit if it
//     is absent, "name" and "want" may be absent;
//   - what strfry writes to a plugin: {"type": "new", "event": …, "receivedAt": …}.
type Case struct {
	Where  string // file and line
	Vector manifest.Vector
	Wants  bool // the vector says what the answer must be

	// Goes on where the line before ended, with the same instance and all that it
	// remembers.
	Then bool

	// Recorded is nil for a line that talon plugin record did not write.
	Recorded *manifest.Recorded
}

// Clock gives the time of a question whose line has none.
type Clock struct{ Now int64 } // 0: the time of its event

// line is the fields of a line that are not only a vector's.
type line map[string]json.RawMessage

// parseLine returns the fields of a line, never nil.
func parseLine(where string, text []byte) (l line, err error) {
	if err = json.Unmarshal(text, &l); err == nil && l == nil {
		err = errors.New("this is null")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: want one JSON object: %w", where, err)
	}
	return l, nil
}

// has reports whether a field is there.
func (l line) has(field string) bool { _, ok := l[field]; return ok }

// set gives a field a value if it has none.
func (l line) set(field string, value any) {
	if !l.has(field) {
		l[field], _ = json.Marshal(value)
	}
}

// maxWhere is how much of a file's name becomes the name of a vector.
const maxWhere = 40

// ParseQuestion reads one line.
func (c Clock) ParseQuestion(where string, text []byte) (*Case, error) {
	l, err := parseLine(where, text)
	if err != nil {
		return nil, err
	}
	if l.has("kind") && !l.has("event") {
		l = line{"event": text}
	}
	if l.has("receivedAt") || l.has("sourceType") {
		if err := l.fromStrfry(); err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
	}
	q := &Case{Where: where, Wants: l.has("want")}
	if err := unmarshal(l["then"], &q.Then); err != nil {
		return nil, fmt.Errorf("%s: then: want true or false", where)
	}
	if l.has("by") {
		var wrong *json.UnmarshalTypeError
		if err := json.Unmarshal(text, &q.Recorded); errors.As(err, &wrong) {
			return nil, fmt.Errorf("%s: %s is not as talon plugin record writes it", where, wrong.Field)
		}
	}
	name := filepath.Base(where)
	l.set("name", name[max(len(name)-maxWhere, 0):])
	l.set("function", "admit")
	// Only a policy gets a default for want: there is no usual answer of a throttle.
	if function := ""; unmarshal(l["function"], &function) == nil && slices.Contains(manifest.Functions(manifest.WorldPolicy), function) {
		l.set("want", map[string]string{"action": "pass"})
	}
	if c.Now != 0 {
		l.set("now", c.Now)
	}
	var dated struct {
		CreatedAt int64 `json:"created_at"`
	}
	if _ = unmarshal(l["event"], &dated); dated.CreatedAt > 0 {
		l.set("now", dated.CreatedAt)
	}
	whole, err := json.Marshal(l)
	if err == nil {
		err = json.Unmarshal(whole, &q.Vector)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, withoutName(err, q.Vector.Name, name))
	}
	return q, nil
}

// withoutName leaves out the name that an error begins with, where it is the line's.
func withoutName(err error, vector, name string) error {
	if !strings.HasSuffix(name, vector) {
		return err
	}
	return errors.New(strings.TrimPrefix(err.Error(), fmt.Sprintf("vector %.64q: ", vector)))
}

func unmarshal(text []byte, v any) error {
	if text == nil {
		return nil
	}
	return json.Unmarshal(text, v)
}

// strfrySource is how strfry says where an event comes from.
type strfrySource struct {
	Type       string `json:"type"`
	ReceivedAt int64  `json:"receivedAt"`
	SourceType string `json:"sourceType"`
	SourceInfo string `json:"sourceInfo"`
	Authed     string `json:"authed,omitempty"` // the key that the client has proven (NIP-42)
}

// fromStrfry makes a vector of what strfry writes to a plugin.
func (l line) fromStrfry() error {
	var s strfrySource
	for field, v := range map[string]any{"type": &s.Type, "receivedAt": &s.ReceivedAt, "sourceType": &s.SourceType, "sourceInfo": &s.SourceInfo, "authed": &s.Authed} {
		if err := unmarshal(l[field], v); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	if s.Type != "new" {
		return fmt.Errorf("type %.40q: want new, as strfry writes it", s.Type)
	}
	source := s.vector()
	if s.Authed != "" {
		source["authed"] = []string{s.Authed}
	}
	l.set("source", source)
	if s.ReceivedAt > 0 {
		l.set("now", s.ReceivedAt)
	}
	return nil
}

// vector is the source as a vector has it. strfry says Stored where it asks about
// an event that it has.
func (s *strfrySource) vector() map[string]any {
	switch s.SourceType {
	case "Import", "Stored":
		return map[string]any{"origin": "import"}
	case "Stream", "Sync":
		return map[string]any{"origin": "sync", "relay": s.SourceInfo}
	}
	if addr, err := netip.ParseAddr(s.SourceInfo); err == nil {
		return map[string]any{"origin": "client", "address": addr.WithZone("").Unmap().String()}
	}
	return map[string]any{"origin": "client"}
}

// Questions reads a file of questions and calls f for each until f fails.
func (c Clock) Questions(name string, r io.Reader, f func(*Case) error) error {
	return eachLine(name, r, func(where string, text []byte) error {
		q, err := c.ParseQuestion(where, bytes.Clone(text))
		if err != nil {
			return err
		}
		return f(q)
	})
}

// ServiceOf returns the service that the first line of a file names. It returns nil if
// there is none, or if it is wrong, which [Clock.Questions] reports. The caller must read
// the lines from the returned reader.
func ServiceOf(r io.Reader) (*manifest.VectorService, io.Reader) {
	in := bufio.NewReaderSize(r, 64<<10)
	var head []byte
	for len(head) <= maxLine {
		part, err := in.ReadSlice('\n')
		head = append(head, part...)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) || err == nil && len(bytes.TrimSpace(head)) > 0 {
			break
		}
	}
	var first struct {
		Service *manifest.VectorService `json:"service"`
	}
	_ = json.Unmarshal(head, &first) // as above
	return first.Service, io.MultiReader(bytes.NewReader(head), in)
}

// function is what the module is asked by.
func (q *Case) function() guest.Func {
	for f := guest.Admit; f < guest.ThrottleTick; f++ {
		if f.String() == q.Vector.Function {
			return f
		}
	}
	return guest.ThrottleTick
}
