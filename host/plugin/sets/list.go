package sets

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"talon/host"
	"talon/host/plugin/sidecar"
	"talon/host/wire"
	"talon/internal/smallfile"
	"talon/sdk/nip19"
)

// list is a nostr list that sets follow. Sets.mu guards it.
type list struct {
	address host.Address
	sets    []*set

	version *version // nil: there is none
	changes int      // counts what Published did
	stale   bool     // to be read from the store
}

// version is what is to be known of a list's event beside its members. The event
// itself may be large.
type version struct {
	id      host.ID
	at      int64 // created_at
	expires int64 // unix seconds; math.MaxInt64 is never
}

func versionOf(e *host.Event) *version {
	v := &version{id: e.ID, at: e.CreatedAt, expires: math.MaxInt64}
	if at, ok := e.Expiration(); ok {
		v.expires = at
	}
	return v
}

// replaces reports whether the event takes the place of the version (NIP-01).
func replaces(e *host.Event, v *version) bool {
	return v == nil || e.CreatedAt > v.at || e.CreatedAt == v.at && bytes.Compare(e.ID[:], v.id[:]) < 0
}

// readMembers returns the members of a list.
func readMembers(e *host.Event) (*members, error) {
	m := new(members)
	for _, tag := range e.Tags {
		if len(tag) < 2 {
			continue
		}
		value := tag[1]
		switch tag[0] {
		case "p", "e":
			var key [32]byte
			if host.ParseHex(key[:], value) {
				m.addKey(key)
			}
		case "a":
			if _, ok := host.ParseAddress(value); ok && len(value) <= maxText {
				m.addText(value)
			}
		case "t", "word", "r", "relay":
			if value != "" && len(value) <= maxText {
				m.addText(value)
			}
		}
		if m.len() > maxMembers {
			return nil, errMembers
		}
	}
	return m, nil
}

// fetch reads the version of the list that is stored, nil if there is none.
func fetch(ctx context.Context, facts host.Facts, a host.Address) (*host.Event, error) {
	f := host.Filter{Authors: []host.PubKey{a.PubKey}, Kinds: []host.Kind{a.Kind}, Limit: 1}
	if a.Kind.Class() == host.Addressable {
		// An event's address is in its first d tag, and a missing one is an empty
		// one: filters know neither.
		f.Limit = maxCandidates
		if a.D != "" {
			f.Tags = []host.TagFilter{{Name: 'd', Values: []string{a.D}}}
		}
	}
	texts, err := facts.Query(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("read list %s: %w", a, err)
	}
	for _, text := range texts {
		e, err := wire.ParseEvent(text)
		if err != nil {
			return nil, fmt.Errorf("read list %s: %w", a, err)
		}
		if b, ok := e.Address(); ok && a == b {
			return e, nil
		}
	}
	return nil, nil
}

// maxCandidates is how many of an author's lists of one kind are searched.
const maxCandidates = 500

// deletes reports whether the deletion, by the list's author, takes its version
// away (NIP-09).
func (l *list) deletes(deletion *host.Event) bool {
	if l.version == nil {
		return false
	}
	for _, tag := range deletion.Tags {
		if len(tag) < 2 {
			continue
		}
		switch tag[0] {
		case "e":
			var id host.ID
			if host.ParseHex(id[:], tag[1]) && id == l.version.id {
				return true
			}
		case "a":
			if a, ok := host.ParseAddress(tag[1]); ok && a == l.address && l.version.at <= deletion.CreatedAt {
				return true
			}
		}
	}
	return false
}

const maxFile = 64 << 20 // bytes

// grain is how far apart two changes of a file may be and have one time.
const grain = 2 * time.Second

// stamp tells one version of a file from another.
type stamp struct {
	info fs.FileInfo // nil: not read yet
	read time.Time
}

// same reports whether the file is the one that was read.
func (s stamp) same(info fs.FileInfo) bool {
	return s.info != nil && os.SameFile(s.info, info) && s.info.Size() == info.Size() && s.info.ModTime().Equal(info.ModTime()) &&
		s.read.Sub(info.ModTime()) > grain
}

// stat looks at a file before it is opened: to open a pipe would wait for
// somebody to write.
func stat(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", path)
	case info.Size() > maxFile:
		return nil, tooLarge(path)
	}
	return info, nil
}

// readFile reads a set from a file.
func readFile(path string) (*members, error) {
	f, err := smallfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := &io.LimitedReader{R: f, N: maxFile + 1}
	m, line, err := parse(all)
	switch {
	case all.N == 0: // it has grown since stat
		return nil, tooLarge(path)
	case err == nil:
		return m, nil
	case line == 0:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return nil, fmt.Errorf("%s: line %d: %w", path, line, err)
}

func tooLarge(path string) error { return fmt.Errorf("%s has more than %d MiB", path, maxFile>>20) }

// maxLine bounds a line: a member, white space and a comment.
const maxLine = 16 << 10

var (
	errLine    = fmt.Errorf("it is longer than %d bytes", maxLine)
	errText    = fmt.Errorf("the member is longer than %d bytes", maxText)
	errUTF8    = errors.New("it is not valid UTF-8")
	errControl = errors.New("it has a control character: is this a text file?")
	errSecret  = errors.New("it is a secret key: take it out, and consider it known to others")
)

// parse reads members. The line is that of the error, 0 where it has none. Errors
// do not repeat what the line says.
func parse(r io.Reader) (m *members, line int, err error) {
	m = new(members)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		line++
		text := lines.Bytes()
		if line == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		if err := m.addLine(string(text)); err != nil {
			return nil, line, err
		}
		if m.len() > maxMembers {
			return nil, 0, errMembers
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, line + 1, errLine
	case err != nil:
		return nil, 0, err
	}
	return m, 0, nil
}

func (m *members) addLine(text string) error {
	if !utf8.ValidString(text) {
		return errUTF8
	}
	text = strings.TrimSpace(uncomment(text))
	lower := strings.ToLower(text)
	switch {
	case text == "":
		return nil
	case len(text) > maxText:
		return errText
	case strings.ContainsFunc(text, unicode.IsControl):
		return errControl
	case strings.HasPrefix(lower, "nsec1"):
		return errSecret
	case strings.HasPrefix(lower, "npub1"):
		key, err := nip19.DecodeNpub(text)
		if err != nil {
			return err
		}
		m.addKey(key)
		return nil
	}
	m.addText(text)
	return nil
}

// uncomment cuts off a comment: # at the start, or after white space.
func uncomment(text string) string {
	for i := 0; i < len(text); i++ {
		if text[i] == '#' && (i == 0 || text[i-1] == ' ' || text[i-1] == '\t') {
			return text[:i]
		}
	}
	return text
}

const (
	maxSets = 64 // of one plugin
	maxName = 64 // characters
	maxPath = 4096

	followList host.Kind = 3 // NIP-02
)

// check returns what is wrong with where a set comes from, in one sentence. A file is
// relative to the folder of the plugins, or absolute. A list is the address of one, as
// kind:pubkey:d or naddr; or a public key, as npub or 64 hex digits, which means that
// key's follow list.
func check(s *sidecar.Set) error {
	if s.Name == "" || len(s.Name) > maxName || strings.Trim(s.Name, nameLetters) != "" {
		return fmt.Errorf("the name of a set must be 1 to %d of the characters a-z A-Z 0-9 . _ -, not %.70q", maxName, s.Name)
	}
	switch {
	case s.File == "" && s.List == "":
		return fmt.Errorf("set %s needs a file or a list", s.Name)
	case s.File != "" && s.List != "":
		return fmt.Errorf("set %s has both a file and a list: give one of them", s.Name)
	case len(s.File) > maxPath || strings.ContainsRune(s.File, 0):
		return fmt.Errorf("the file of set %s is not a path", s.Name)
	}
	if s.List != "" {
		if _, err := addressOf(s); err != nil {
			return fmt.Errorf("set %s: %w", s.Name, err)
		}
	}
	return nil
}

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

var errAddress = errors.New("the list must be kind:pubkey:d with a kind that has addresses, naddr1…, npub1… or 64 hex digits")

// addressOf returns what the list of a set names.
func addressOf(s *sidecar.Set) (host.Address, error) {
	if strings.HasPrefix(strings.ToLower(s.List), "naddr1") {
		n, err := nip19.DecodeNaddr(s.List)
		if err != nil {
			return host.Address{}, err
		}
		a := host.Address{Kind: host.Kind(n.Kind), PubKey: n.PubKey, D: n.D}
		if again, ok := host.ParseAddress(a.String()); !ok || again != a {
			return host.Address{}, fmt.Errorf("the naddr names kind %d with identifier %.70q, which is no address", n.Kind, n.D)
		}
		return a, nil
	}
	if a, ok := host.ParseAddress(s.List); ok {
		return a, nil
	}
	key, err := nip19.ParsePubKey(s.List)
	if err != nil {
		return host.Address{}, errAddress
	}
	return host.Address{Kind: followList, PubKey: key}, nil
}

// origin says for people where a set comes from.
func origin(s *sidecar.Set) string {
	if s.File != "" {
		return "file " + s.File
	}
	return "list " + s.List
}
