package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"talon/host"
)

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
	for _, t := range f.Tags {
		name("#" + string(rune(t.Name)))
		b = appendList(b, len(t.Values), func(b []byte, i int) []byte { return host.AppendString(b, t.Values[i]) })
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
