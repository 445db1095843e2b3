package plugin

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"math/bits"
	random "math/rand/v2"
	"net/netip"
	"strings"

	"talon/host"
	"talon/host/wire"
)

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

// content returns words of lower-case letters in place of a text. They are as long as the
// text in bytes, rounded up to a power of two. An empty text stays empty.
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
