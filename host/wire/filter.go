package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"talon/host"
)

// ParseFilter reads a filter (NIP-01). It keeps nothing of data. Tags, and the values
// of each, are in the order of the document: the HyperLogLog of NIP-45 follows from
// the first value of the first.
//
// An element that is not of NIP-01 is refused as "unsupported: …" rather than
// ignored: the answer would be to another question.
func ParseFilter(data []byte, lim *Limits) (host.Filter, error) {
	s, err := newScanner(data)
	if err != nil {
		return host.Filter{}, err
	}
	f, err := s.filter(lim)
	if err != nil {
		return host.Filter{}, err
	}
	return f, s.expectEnd()
}

// filter reads a filter object.
func (s *scanner) filter(lim *Limits) (host.Filter, error) {
	f := host.Filter{Limit: -1}
	if !s.accept('{') {
		return f, invalid("a filter must be a JSON object")
	}
	b := filterReader{scanner: s, filter: &f, remaining: lim.Values, max: lim.Values}
	for first := true; ; {
		more, err := s.next(&first, '}')
		if err != nil {
			return f, err
		}
		if !more {
			return f, nil
		}
		name, err := s.key()
		if err != nil {
			return f, err
		}
		if err := b.element(name); err != nil {
			return f, err
		}
	}
}

type filterReader struct {
	*scanner
	filter    *host.Filter
	remaining int // values that the filter may still hold
	max       int
	searches  bool // a search has been read
}

func (r *filterReader) element(name string) (err error) {
	f := r.filter
	twice := false
	switch name {
	case "ids":
		twice = f.IDs != nil
		f.IDs, err = hexes[host.ID](r, name)
	case "authors":
		twice = f.Authors != nil
		f.Authors, err = hexes[host.PubKey](r, name)
	case "kinds":
		twice = f.Kinds != nil
		f.Kinds, err = r.kinds()
	case "since":
		twice = f.Since != nil
		f.Since, err = r.timestamp(name)
	case "until":
		twice = f.Until != nil
		f.Until, err = r.timestamp(name)
	case "limit":
		twice = f.Limit >= 0
		f.Limit, err = r.limit()
	case "search":
		twice = r.searches
		r.searches = true
		err = r.search()
	default:
		if len(name) != 2 || name[0] != '#' || !letter(name[1]) {
			return &Error{Reason: "unsupported: filter contains the unknown element " + strconv.Quote(excerpt(name))}
		}
		for _, t := range f.Tags {
			twice = twice || t.Name == name[1]
		}
		t := host.TagFilter{Name: name[1]}
		t.Values, err = r.strings(name, t.Name == 'e' || t.Name == 'p')
		f.Tags = append(f.Tags, t)
	}
	if err == nil && twice {
		err = invalid("the filter element %s stands twice", name)
	}
	return err
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// list reads a list and calls value at the start of each element.
func (r *filterReader) list(name string, value func() error) error {
	if !r.accept('[') {
		return invalid("%s must be a list", name)
	}
	for first := true; ; {
		more, err := r.next(&first, ']')
		if err != nil || !more {
			return err
		}
		if r.remaining--; r.remaining < 0 {
			return invalid("a filter may hold at most %d values", r.max)
		}
		if err := value(); err != nil {
			return err
		}
	}
}

func hexes[T ~[32]byte](r *filterReader, name string) ([]T, error) {
	list := []T{}
	var seen once[T]
	err := r.list(name, func() error {
		if r.space() != '"' {
			return invalid("%s must be a list of strings", name)
		}
		text, err := r.str()
		if err != nil {
			return err
		}
		var v T
		if !host.ParseHex(v[:], text) {
			return notHex(name, text)
		}
		if seen.add(v, list) {
			list = append(list, v)
		}
		return nil
	})
	return list, err
}

// strings reads a list of strings. NIP-01 has ids and keys in #e and #p, which are hex.
func (r *filterReader) strings(name string, hex bool) ([]string, error) {
	list := []string{}
	var seen once[string]
	err := r.list(name, func() error {
		if r.space() != '"' {
			return invalid("%s must be a list of strings", name)
		}
		v, err := r.str()
		if err != nil {
			return err
		}
		if hex && !host.ParseHex(new([32]byte)[:], v) {
			return notHex(name, v)
		}
		if seen.add(v, list) {
			list = append(list, v)
		}
		return nil
	})
	return list, err
}

func notHex(name, text string) error {
	return invalid("%s must hold values of 64 lower-case hex characters, not %s", name, strconv.Quote(excerpt(text)))
}

// search reads the text of a search (NIP-50).
func (r *filterReader) search() error {
	if r.space() != '"' {
		return invalid("search must be a string")
	}
	text, err := r.str()
	if err != nil {
		return err
	}
	words, err := host.Search(text)
	if err != nil {
		return invalid("%v", err)
	}
	if r.remaining -= len(words); r.remaining < 0 {
		return invalid("a filter may hold at most %d values", r.max)
	}
	r.filter.Tags = append(r.filter.Tags, words...)
	return nil
}

// kinds reads the list of kinds. A number above 65535 is no kind of an event: it matches nothing,
// and is left out.
func (r *filterReader) kinds() ([]host.Kind, error) {
	list := []host.Kind{}
	var seen once[host.Kind]
	err := r.list("kinds", func() error {
		n, err := r.integer("each of kinds")
		if err != nil {
			return err
		}
		if n < 0 {
			return invalid("kinds must not be negative")
		}
		if k := host.Kind(n); n <= math.MaxUint16 && seen.add(k, list) {
			list = append(list, k)
		}
		return nil
	})
	return list, err
}

func (r *filterReader) timestamp(name string) (*int64, error) {
	n, err := r.integer(name)
	return &n, err
}

func (r *filterReader) limit() (int, error) {
	n, err := r.integer("limit")
	if err == nil && n < 0 {
		err = invalid("limit must not be negative")
	}
	return int(min(n, math.MaxInt32)), err
}

// once tells which values of a list are new. Short lists are searched, long ones
// get a map.
type once[T comparable] struct {
	seen map[T]struct{}
}

func (o *once[T]) add(v T, list []T) bool {
	const short = 16
	if len(list) < short {
		for _, w := range list {
			if w == v {
				return false
			}
		}
		return true
	}
	if o.seen == nil {
		o.seen = make(map[T]struct{}, 4*short)
		for _, w := range list {
			o.seen[w] = struct{}{}
		}
	}
	if _, ok := o.seen[v]; ok {
		return false
	}
	o.seen[v] = struct{}{}
	return true
}

// AppendFilter appends a filter as JSON (NIP-01).
func AppendFilter(b []byte, f *host.Filter) []byte {
	b = append(b, '{')
	first := true
	name := func(s string) {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(append(append(b, '"'), s...), '"', ':')
	}
	if f.IDs != nil {
		name("ids")
		b = appendList(b, len(f.IDs), func(b []byte, i int) []byte { return appendHex(b, f.IDs[i][:]) })
	}
	if f.Authors != nil {
		name("authors")
		b = appendList(b, len(f.Authors), func(b []byte, i int) []byte { return appendHex(b, f.Authors[i][:]) })
	}
	if f.Kinds != nil {
		name("kinds")
		b = appendList(b, len(f.Kinds), func(b []byte, i int) []byte { return strconv.AppendUint(b, uint64(f.Kinds[i]), 10) })
	}
	var words []string
	for _, t := range f.Tags {
		if t.Name == host.WordOf {
			words = append(words, t.Values...)
			continue
		}
		name("#" + string(rune(t.Name)))
		b = appendList(b, len(t.Values), func(b []byte, i int) []byte { return host.AppendString(b, t.Values[i]) })
	}
	if words != nil {
		name("search")
		b = host.AppendString(b, strings.Join(words, " "))
	}
	if f.Since != nil {
		name("since")
		b = strconv.AppendInt(b, *f.Since, 10)
	}
	if f.Until != nil {
		name("until")
		b = strconv.AppendInt(b, *f.Until, 10)
	}
	if f.Limit >= 0 {
		name("limit")
		b = strconv.AppendInt(b, int64(f.Limit), 10)
	}
	return append(b, '}')
}

func appendList(b []byte, n int, item func(b []byte, i int) []byte) []byte {
	b = append(b, '[')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = item(b, i)
	}
	return append(b, ']')
}

func appendHex(b, v []byte) []byte {
	b = append(b, '"')
	b = hex.AppendEncode(b, v)
	return append(b, '"')
}

// AppendReq appends ["REQ",id,filter…] (NIP-01).
func AppendReq(b []byte, subID string, filters ...host.Filter) []byte {
	b = append(b, `["REQ","`...)
	b = append(b, subID...)
	b = append(b, '"')
	for i := range filters {
		b = AppendFilter(append(b, ','), &filters[i])
	}
	return append(b, ']')
}

// AppendNegOpen appends ["NEG-OPEN",id,filter,message] (NIP-77).
func AppendNegOpen(b []byte, subID string, f *host.Filter, msg []byte) []byte {
	b = append(b, `["NEG-OPEN","`...)
	b = append(b, subID...)
	b = append(b, `",`...)
	b = AppendFilter(b, f)
	b = append(b, ',', '"')
	b = hex.AppendEncode(b, msg)
	return append(b, '"', ']')
}

// NegAnswer reads the first three elements of a relay's message, all strings, as those
// of NIP-77 are.
func NegAnswer(text []byte) (verb, id, body string, ok bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return "", "", "", false
	}
	for _, s := range []*string{&verb, &id, &body} {
		t, err := d.Token()
		if err != nil {
			return verb, id, body, false
		}
		if *s, ok = t.(string); !ok {
			return verb, id, body, false
		}
	}
	return verb, id, body, true
}
