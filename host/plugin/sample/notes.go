package sample

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"math/bits"
	random "math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
)

// notes are what was read for one decision.
type notes struct {
	stored, held events
	referenced   []string            // ids and addresses that stored events name
	sets         map[string][]string // members among those that were asked about
	unseen       []string            // capabilities whose answers no line can say
	bytes        int
}

// events are texts of events, each once.
type events struct {
	list []string
	has  map[string]bool
}

func (n *notes) event(to *events, text []byte) {
	if text == nil || n.full() || to.has[string(text)] {
		return
	}
	if to.has == nil {
		to.has = map[string]bool{}
	}
	own := string(text)
	to.has[own] = true
	to.list = append(to.list, own)
	n.bytes += len(own)
}

// full reports whether more was read than fits into a line.
func (n *notes) full() bool { return n.bytes > maxLine }

func (n *notes) use(capability string) {
	if !slices.Contains(n.unseen, capability) {
		n.unseen = append(n.unseen, capability)
	}
}

// noted are facts that note what they say. They are a guest.Observer.
type noted struct {
	facts host.Facts
	held  host.HeldFacts // nil: there is no purgatory
	notes *notes
}

// Asking implements host.Waiter by the facts, if they are one.
func (f *noted) Asking(module string) {
	if w, ok := f.facts.(host.Waiter); ok {
		w.Asking(module)
	}
}

// Wait implements host.Waiter by the facts, if they are one.
func (f *noted) Wait(g func()) {
	if w, ok := f.facts.(host.Waiter); ok {
		w.Wait(g)
		return
	}
	g()
}

// Parked implements host.Parked by the facts, if they are one.
func (f *noted) Parked() time.Duration {
	if p, ok := f.facts.(host.Parked); ok {
		return p.Parked()
	}
	return 0
}

func (f *noted) Get(ctx context.Context, id host.ID) ([]byte, error) {
	text, err := f.facts.Get(ctx, id)
	f.notes.event(&f.notes.stored, text)
	return text, err
}

func (f *noted) Query(ctx context.Context, filter host.Filter) ([][]byte, error) {
	filter.Header = false // a line holds whole events
	list, err := f.facts.Query(ctx, filter)
	for _, text := range list {
		f.notes.event(&f.notes.stored, text)
	}
	return list, err
}

func (f *noted) Referenced(ctx context.Context, idOrAddress string) (bool, error) {
	yes, err := f.facts.Referenced(ctx, idOrAddress)
	if yes && !f.notes.full() && !slices.Contains(f.notes.referenced, idOrAddress) {
		f.notes.referenced = append(f.notes.referenced, idOrAddress)
		f.notes.bytes += len(idOrAddress)
	}
	return yes, err
}

func (f *noted) Held(ctx context.Context, id host.ID) ([]byte, error) {
	if f.held == nil {
		return nil, nil
	}
	text, err := f.held.Held(ctx, id)
	f.notes.event(&f.notes.held, text)
	return text, err
}

func (f *noted) HeldBy(ctx context.Context, filter host.Filter) ([][]byte, error) {
	if f.held == nil {
		return nil, nil
	}
	filter.Header = false
	list, err := f.held.HeldBy(ctx, filter)
	for _, text := range list {
		f.notes.event(&f.notes.held, text)
	}
	return list, err
}

// maxSets and maxMembers bound what is noted of sets: as many as a vector may name, and
// more members than a sensible policy asks about.
const (
	maxSets    = 64
	maxMembers = 1000
)

func (f *noted) Contained(name, member []byte, yes, known bool) {
	n := f.notes
	if !known || n.full() {
		return
	}
	list, there := n.sets[string(name)]
	switch {
	case !there && len(n.sets) == maxSets, len(list) == maxMembers:
		n.use("sets.contains")
		return
	case !there && n.sets == nil:
		n.sets = map[string][]string{}
	}
	if !there {
		// That it is there, and does not have this member, is an answer too.
		list = []string{}
	}
	if yes {
		var text string
		switch {
		case len(member) == len(host.ID{}):
			text = host.ID(member).String()
		case utf8.Valid(member):
			text = string(member)
		default:
			n.use("sets.contains")
		}
		if text != "" && !slices.Contains(list, text) {
			list = append(list, text)
			n.bytes += len(text)
		}
	}
	n.sets[string(name)] = list
}

func (f *noted) Used(capability string) { f.notes.use(capability) }

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
