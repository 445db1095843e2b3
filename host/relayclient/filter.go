package relayclient

import (
	"encoding/hex"
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
