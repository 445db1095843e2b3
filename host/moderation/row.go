package moderation

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Action says what a row does. See the package documentation.
type Action string

// The actions.
const (
	Ban     Action = "ban"
	Unban   Action = "unban"
	Hide    Action = "hide"
	Unhide  Action = "unhide"
	Purge   Action = "purge"
	Allow   Action = "allow"
	Unallow Action = "unallow"
)

// ends has the actions that a lifting action ends.
var ends = map[Action][]Action{Unban: {Ban, Purge}, Unhide: {Hide}, Unallow: {Allow}}

func (a Action) known() bool {
	switch a {
	case Ban, Unban, Hide, Unhide, Purge, Allow, Unallow:
		return true
	}
	return false
}

// Row is a row of the log.
type Row struct {
	Number int64  `json:"number,omitempty"` // 1, 2, 3, …; 0 until the row is added
	UID    string `json:"uid"`              // the same in every database: 32 hex digits
	At     int64  `json:"at"`               // unix seconds; never less than that of an earlier row that was added here
	Action Action `json:"action"`
	Target Target `json:"target"`
	Reason string `json:"reason,omitempty"` // clients and readers of pages see it
	By     string `json:"by,omitempty"`     // who asked for it
	Until  int64  `json:"until,omitempty"`  // unix seconds; 0 is forever
}

// Bounds of the texts of a row, in bytes.
const (
	MaxReason = 1000
	maxBy     = 200
	maxLine   = 128 << 10
)

// ErrRow says that a row is wrong.
var ErrRow = errors.New("this row of the moderation log is wrong")

// Check returns why a row cannot be added, and makes its text printable. It gives a new row its
// UID.
func (r *Row) Check() error {
	if !r.Action.known() {
		return fmt.Errorf("%w: unknown action %.40q", ErrRow, r.Action)
	}
	if r.Target.class == "" {
		return fmt.Errorf("%w: it has no target", ErrRow)
	}
	if r.Until < 0 || r.At < 0 {
		return fmt.Errorf("%w: its time is negative", ErrRow)
	}
	if r.UID == "" {
		var b [16]byte
		rand.Read(b[:])
		r.UID = hex.EncodeToString(b[:])
	}
	if _, err := hex.DecodeString(r.UID); err != nil || len(r.UID) != 32 || strings.ToLower(r.UID) != r.UID {
		return fmt.Errorf("%w: its uid %.40q is not 32 lower-case hex digits", ErrRow, r.UID)
	}
	r.Reason, r.By = printable(r.Reason, MaxReason), printable(r.By, maxBy)
	return nil
}

// printable makes a text one line of valid UTF-8, of a bounded length.
func printable(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), 0x202a <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	s = strings.Join(strings.Fields(s), " ")
	for len(s) > limit {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return strings.TrimSpace(s)
}

// inForce reports whether the row's time is not over.
func (r *Row) inForce(now int64) bool { return r.Until == 0 || now < r.Until }

// verbs say what the operator did, for clients.
var verbs = map[Action]string{Ban: "banned", Hide: "hidden", Purge: "removed"}

// Text says what the operator did, and why.
func (r *Row) Text() string {
	text := verbs[r.Action] + " by the operator"
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

// Refusal is the answer to a client whose event the row refuses, with the prefix of NIP-01.
func (r *Row) Refusal() string { return "blocked: " + r.Text() }

// Line returns the row as a line of JSON, with its end.
func (r *Row) Line() []byte {
	line, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return append(line, '\n')
}

// ParseLine reads a line that Line wrote, and checks it.
func ParseLine(line []byte) (r Row, err error) {
	if len(line) > maxLine {
		return r, fmt.Errorf("%w: it has %d bytes, more than %d", ErrRow, len(line), maxLine)
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return Row{}, fmt.Errorf("%w: %w", ErrRow, err)
	}
	return r, r.Check()
}
