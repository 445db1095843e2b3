package plugin

import (
	"errors"
	"strings"
	"time"

	"talon/host/plugin/folder"
	"talon/host/plugin/sidecar"
)

// ErrUnknown says that there is no plugin of a name.
var ErrUnknown = errors.New("there is no plugin of this name")

// ErrRefused is in every error that says what is wrong with a plugin, rather
// than with the host.
var ErrRefused = errors.New("refused")

// slot is a name: its files in the folder, and the generation that runs.
type slot struct {
	seen    seen
	applied key         // of the source that counts now
	running *generation // made of it; nil: off, or none has passed
	off     bool        // the side-car says so, or the choice of policies leaves it out
	leftOut bool        // that choice does not name it
	record  folder.Record
	refused *refused // what lies in the folder does not run

	required bool // by its side-car; see Registry.requires
	position int  // that it had when it ran last
	gone     bool // its files are not in the folder, and it is required
}

// seen are the files as they were when they were looked at last.
type seen struct {
	wasm, sidecar, signature, sidecarSignature folder.Stamp

	bundled bool // the module is the bundled one, and no file
}

func seenOf(e folder.Entry) (s seen) {
	s.bundled = e.Bundled
	if e.Wasm != nil {
		s.wasm = e.Wasm.Stamp
	}
	if e.Sidecar != nil {
		s.sidecar = e.Sidecar.Stamp
	}
	if e.Signature != nil {
		s.signature = e.Signature.Stamp
	}
	if e.SidecarSignature != nil {
		s.sidecarSignature = e.SidecarSignature.Stamp
	}
	return s
}

type refused struct {
	key    key
	at     time.Time
	reason string
}

// oneLine makes a reason of an error: one line of bounded length.
func oneLine(err error) string {
	text := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}

const maxReason = 1 << 10

// readRequired learns from a side-car whether the plugin is required. One that shadows
// or is off judges nothing.
func (s *slot) readRequired(file *sidecar.File) {
	s.required = file.Required && file.Mode == sidecar.Enforce
	if file.Place != nil {
		s.position = *file.Place
	}
}

// restore learns it from what ran last, as the history keeps it.
func (s *slot) restore() {
	if s.record.Current == nil {
		return
	}
	if file, err := sidecar.Parse(s.record.Current.Sidecar); err == nil {
		s.readRequired(file)
	}
}

// program reports whether what runs under the name, or was refused last, is a
// program.
func (s *slot) program() bool {
	return s.applied.program || s.refused != nil && s.refused.key.program ||
		s.record.Current != nil && s.record.Current.Wasm == emptySum
}
