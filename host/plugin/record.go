package plugin

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	random "math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"time"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
)

// ErrRecording says that another recording is under way.
var ErrRecording = errors.New("another recording is under way, try again later")

// Bounds of a recording, whatever is asked for.
const (
	MaxRecordTime  = 10 * time.Minute
	MaxRecordLines = 100_000
	maxRecordBytes = 256 << 20

	maxLine    = 1 << 20 // bytes of one line
	maxWaiting = 8 << 20 // bytes of lines that nobody has fetched
)

// Recording says what is recorded.
type Recording struct {
	// Plugin is the one whose requests and answers are recorded, also in shadow mode.
	// Empty: those of the chain.
	Plugin string

	For    time.Duration // at most MaxRecordTime
	Max    int           // lines, at most MaxRecordLines
	Redact Redaction
}

// Recorded is the result of a recording.
type Recorded struct {
	Lines     int            `json:"lines"`
	Functions map[string]int `json:"functions"` // lines by function
	Bytes     int64          `json:"bytes"`
	Dropped   int            `json:"dropped"`   // decisions that came faster than lines were fetched
	TooLarge  int            `json:"too_large"` // decisions whose line would be larger than 1 MiB
	Unseen    int            `json:"unseen"`    // lines whose answer rests on what no line can say

	// Ended is why it ended: time, count, bytes, or stopped.
	Ended string `json:"ended"`
}

// Record passes lines of decisions to write as they are taken, until the time is up,
// there are enough, or ctx ends; at first none, when it has begun. Each is a vector with
// the verdict that was given, as talon plugin test, run and replay read them. No decision waits for write.
func (r *Registry) Record(ctx context.Context, o Recording, write func(lines []byte) error) (Recorded, error) {
	if o.Plugin != "" {
		r.inspecting.Lock()
		known := r.slots[o.Plugin] != nil
		r.inspecting.Unlock()
		if !known {
			return Recorded{}, fmt.Errorf("%w: %.80q", ErrUnknown, o.Plugin)
		}
	}
	o.Max = min(o.Max, MaxRecordLines)
	s := newSample(o, maxRecordBytes, r.o.Service)
	if !r.recording.CompareAndSwap(nil, s) {
		return Recorded{}, ErrRecording
	}
	stop := func() {
		if r.recording.CompareAndSwap(s, nil) {
			s.close()
		}
	}
	defer stop()
	timed, cancel := context.WithTimeout(ctx, min(o.For, MaxRecordTime))
	defer cancel()
	// What has been taken is fetched, also when the time is up.
	defer context.AfterFunc(timed, stop)()
	var lines []byte
	for {
		if err := write(lines); err != nil {
			return Recorded{}, fmt.Errorf("write the recording: %w", err)
		}
		if lines = s.next(); len(lines) == 0 {
			break
		}
	}
	result := s.result()
	switch {
	case result.Ended != "":
	case ctx.Err() != nil:
		result.Ended = "stopped"
	default:
		result.Ended = "time"
	}
	return result, nil
}

// record takes part in the decision, if somebody records; nil if not.
func (r *Registry) record() *decisionRecord {
	if s := r.recording.Load(); s != nil {
		return s.begin()
	}
	return nil
}

// witnessed are the facts that a plugin reads, noted if they are recorded.
func (q *question) witnessed(g *generation, facts host.Facts) host.Facts {
	if q.record == nil {
		return facts
	}
	return q.record.facts(g.name, g.shadow(), facts, q.held)
}

// heard notes what counts as the answer of a plugin, if it is recorded.
func (q *question) heard(plugin string, ruling host.Ruling) {
	if q.record != nil {
		q.record.heard(plugin, ruling)
	}
}

// recording is the lines of a recording. Its methods may be called by many goroutines.
//
// It is asked before a decision, and gives a take, or nil. The take hands on the facts and
// notes what they said; in the end it receives the answer, and writes the line. Whoever
// records fetches the lines with next.
//
//  1. A decision never waits for the one who fetches lines: what does not fit into a
//     bounded queue is dropped and counted.
//  2. Lines, bytes and the size of one line are bounded, whatever is asked for.
//  3. A line holds nothing that the decision still changes.
//  4. What is to be redacted is in no line, also not among the facts.
type recording struct {
	o        Recording
	maxBytes int64        // of all lines
	service  host.Service // how the relay is reached, as plugins have it
	mask     *mask
	wake     chan struct{} // holds a value if there is something for next

	mu     sync.Mutex // guards the fields below
	over   bool
	queue  [][]byte
	queued int      // bytes of queue
	counts Recorded // so far; Ended says what the sample is full of: count or bytes
}

func newSample(o Recording, maxBytes int64, service host.Service) *recording {
	return &recording{
		o: o, maxBytes: maxBytes, service: service, mask: newMask(o.Redact), wake: make(chan struct{}, 1), counts: Recorded{Functions: map[string]int{}},
	}
}

// begin takes part in a decision, unless the sample is over or lines wait.
func (s *recording) begin() *decisionRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return nil
	case s.queued >= maxWaiting:
		s.counts.Dropped++
		return nil
	}
	return &decisionRecord{recording: s}
}

// add appends a line, if there is room.
func (s *recording) add(function string, line []byte, unseen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return
	case len(line) > maxLine:
		s.counts.TooLarge++
		return
	case s.queued+len(line) > maxWaiting:
		s.counts.Dropped++
		return
	case s.counts.Bytes+int64(len(line)) > s.maxBytes:
		s.closeLocked("bytes")
		return
	}
	s.queue = append(s.queue, line)
	s.queued += len(line)
	s.counts.Lines++
	s.counts.Bytes += int64(len(line))
	s.counts.Functions[function]++
	if unseen {
		s.counts.Unseen++
	}
	if s.counts.Lines >= s.o.Max {
		s.closeLocked("count")
	}
	s.ring()
}

// tooLarge counts a decision that read more than a line may hold.
func (s *recording) tooLarge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.counts.TooLarge++
	}
}

// close ends the recording: it takes no more lines.
func (s *recording) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeLocked("")
}

func (s *recording) closeLocked(full string) {
	if !s.over {
		s.over, s.counts.Ended = true, full
		s.ring()
	}
}

// ring wakes the one who fetches.
func (s *recording) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// next waits for lines and returns them, each with its line feed; none when the sample
// is over and all have been fetched. It is for one goroutine.
func (s *recording) next() []byte {
	for {
		s.mu.Lock()
		lines, over := s.queue, s.over
		s.queue, s.queued = nil, 0
		s.mu.Unlock()
		if len(lines) > 0 || over {
			return bytes.Join(lines, nil)
		}
		<-s.wake
	}
}

// result returns what came of it so far.
func (s *recording) result() Recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	result := s.counts
	result.Functions = maps.Clone(result.Functions)
	return result
}

// The parts of a request as vectors have them.

func (m *mask) source(it *host.Item) *manifest.VectorSource {
	s := &manifest.VectorSource{Origin: host.FromClient.String(), Authed: manifest.Keys(it.Authed)}
	if from := it.Source; from != nil {
		s.Origin, s.Address, s.Relay = from.Origin.String(), manifest.Address(m.address(from.Addr)), from.Relay
	}
	return s
}

func (m *mask) client(c *host.Client) *manifest.VectorClient {
	if c == nil {
		return nil
	}
	return &manifest.VectorClient{
		Address: manifest.Address(m.address(c.Addr)), Authed: manifest.Keys(c.Authed), UserAgent: c.UserAgent, Origin: c.Origin, Path: c.Path,
	}
}

func filterOf(f *host.Filter) manifest.VectorFilter {
	return manifest.FilterOf(&abi.QueryFilter[host.ID, host.PubKey, host.Kind, host.TagFilter]{
		IDs: f.IDs, Authors: f.Authors, Kinds: f.Kinds, Tags: f.Tags, Since: f.Since, Until: f.Until, Limit: f.Limit,
	})
}

func pushOf(p *host.Push) *manifest.VectorPush {
	to := &manifest.VectorPush{
		Repo: p.Repo.String(), Maintainers: manifest.Keys(p.Maintainers), Bytes: p.Bytes, Stored: p.Stored, PRs: p.PRs,
	}
	for _, u := range p.Updates {
		to.Updates = append(to.Updates, manifest.VectorUpdate(u))
	}
	return to
}

// Redaction is what is left out of lines.
type Redaction struct {
	Content bool // of events: another text of the same class of length
	Address bool // of clients: another address, the same one for the same client
}

// ParseRedaction reads a list such as "content,address".
func ParseRedaction(text string) (r Redaction, err error) {
	if text == "" {
		return r, nil
	}
	for what := range strings.SplitSeq(text, ",") {
		switch strings.TrimSpace(what) {
		case "content":
			r.Content = true
		case "address":
			r.Address = true
		default:
			return r, fmt.Errorf("redact %.40q: want content, address, or both with a comma between them", what)
		}
	}
	return r, nil
}

// mask replaces what is redacted. Its key is nowhere else, so that nobody can find
// out by trying what was replaced; what was equal stays equal.
type mask struct {
	Redaction
	key [32]byte
}

func newMask(r Redaction) *mask {
	m := &mask{Redaction: r}
	_, _ = rand.Read(m.key[:]) // it never fails
	return m
}

func (m *mask) digest(what string, text []byte) [32]byte {
	h := hmac.New(sha256.New, m.key[:])
	h.Write([]byte(what))
	h.Write(text)
	return [32]byte(h.Sum(nil))
}

// content returns words of lower-case letters. Their length is that of the text in
// bytes, rounded up to a power of two; nothing stays nothing.
func (m *mask) content(text string) string {
	if !m.Content || text == "" {
		return text
	}
	seed := m.digest("content", []byte(text))
	words := make([]byte, 1<<bits.Len(uint(len(text)-1)))
	_, _ = random.NewChaCha8(seed).Read(words) // it never fails
	for i, b := range words {
		if words[i] = 'a' + b%26; i%8 == 7 && i+1 < len(words) {
			words[i] = ' '
		}
	}
	return string(words)
}

// event returns the JSON of an event without what is redacted.
func (m *mask) event(text []byte) ([]byte, error) {
	if !m.Content {
		return text, nil
	}
	e, err := wire.ParseEvent(text)
	if err != nil {
		return nil, err
	}
	e.Content = m.content(e.Content)
	return e.AppendJSON(nil), nil
}

// address returns an address as vectors have it, empty where there is none. Another
// one is of the same family, in the network of the others of its /64 (IPv6), and none
// of a client's. This machine stays this machine.
func (m *mask) address(a netip.Addr) string {
	a = a.WithZone("")
	switch {
	case !a.IsValid():
		return ""
	case !m.Address, a.Unmap().IsLoopback():
		return a.String()
	case a.Unmap().Is4():
		sum := m.digest("address", a.Unmap().AsSlice())
		return netip.AddrFrom4([4]byte{10, sum[0], sum[1], sum[2]}).String()
	}
	var other [16]byte
	copy(other[:], []byte{0x20, 0x01, 0x0d, 0xb8}) // for documentation (RFC 3849)
	network := m.digest("network", host.NetworkOf(a).Addr().AsSlice())
	copy(other[4:8], network[:])
	sum := m.digest("address", a.AsSlice())
	copy(other[8:], sum[:])
	return netip.AddrFrom16(other).String()
}
