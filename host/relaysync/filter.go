package relaysync

import (
	"encoding/hex"

	"talon/host"
	"talon/host/relayclient"
	"talon/sdk/abi"
	rules "talon/sdk/grasp"
)

// filterOf returns a strategy's filter, and false for one that no relay would
// understand, or that matches nothing.
func filterOf(f *abi.Filter) (host.Filter, bool) {
	out := host.Filter{Since: f.Since, Until: f.Until, Limit: -1}
	if f.Limit > 0 {
		out.Limit = int(f.Limit)
	}
	for i := range f.IDs {
		out.IDs = append(out.IDs, f.IDs[i])
	}
	for i := range f.Authors {
		out.Authors = append(out.Authors, f.Authors[i])
	}
	for _, k := range f.Kinds {
		if k > 0xffff {
			return out, false
		}
		out.Kinds = append(out.Kinds, host.Kind(k))
	}
	names := map[string]bool{}
	for _, t := range f.Tags {
		if len(t.Name) != 1 || !isLetter(t.Name[0]) || len(t.Values) == 0 || names[t.Name] {
			return out, false
		}
		names[t.Name] = true
		out.Tags = append(out.Tags, host.TagFilter{Name: t.Name[0], Values: t.Values})
	}
	bad := func(at *int64) bool { return at != nil && *at < 0 }
	return out, !out.Empty() && !bad(f.Since) && !bad(f.Until)
}

// reposOf returns the repositories whose addresses a filter names.
func reposOf(f *host.Filter) (repos []string) {
	had := map[string]bool{}
	for _, t := range f.Tags {
		for _, v := range t.Values {
			if a, ok := host.ParseAddress(v); ok && a.Kind == rules.KindAnnouncement && !had[v] {
				had[v] = true
				repos = append(repos, v)
			}
		}
	}
	return repos
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// appendREQ appends ["REQ",id,filter…].
func appendREQ(b []byte, id string, filters ...host.Filter) []byte {
	b = append(b, `["REQ","`...)
	b = append(b, id...)
	b = append(b, '"')
	for i := range filters {
		b = relayclient.AppendFilter(append(b, ','), &filters[i])
	}
	return append(b, ']')
}

// appendNegOpen appends ["NEG-OPEN",id,filter,message] (NIP-77).
func appendNegOpen(b []byte, id string, f *host.Filter, msg []byte) []byte {
	b = append(b, `["NEG-OPEN","`...)
	b = append(b, id...)
	b = append(b, `",`...)
	b = relayclient.AppendFilter(b, f)
	b = append(b, ',', '"')
	b = hex.AppendEncode(b, msg)
	return append(b, '"', ']')
}
