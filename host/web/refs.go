package web

import (
	"slices"
	"strings"

	"talon/sdk/grasp"
)

// maxRefs bounds how many branches, and how many tags, a page shows.
const maxRefs = 50

// ref is a branch or a tag.
type ref struct {
	Name string // without refs/heads/ or refs/tags/
	ID   string // short
	HEAD bool
}

// refList is the branches or the tags of a repository.
type refList struct {
	Title string
	List  []ref
	Count int
}

// Hidden returns how many refs the page does not show.
func (l refList) Hidden() int { return l.Count - len(l.List) }

// branches returns the heads, the one that HEAD names first.
func branches(refs []grasp.Ref, head string) refList {
	l := pick("Branches", refs, "refs/heads/", func(a, b grasp.Ref) int {
		switch {
		case a.Name == head:
			return -1
		case b.Name == head:
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	if len(l.List) > 0 {
		l.List[0].HEAD = slices.ContainsFunc(refs, func(r grasp.Ref) bool { return r.Name == head && strings.HasPrefix(head, "refs/heads/") })
	}
	return l
}

// tags returns the tags, the highest version first.
func tags(refs []grasp.Ref) refList {
	return pick("Tags", refs, "refs/tags/", func(a, b grasp.Ref) int { return natural(b.Name, a.Name) })
}

func pick(title string, refs []grasp.Ref, prefix string, compare func(a, b grasp.Ref) int) refList {
	var all []grasp.Ref
	for _, r := range refs {
		if strings.HasPrefix(r.Name, prefix) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, compare)
	l := refList{Title: title, Count: len(all)}
	for _, r := range all[:min(len(all), maxRefs)] {
		l.List = append(l.List, ref{Name: identifier(r.Name[len(prefix):]), ID: shortID(r.Object)})
	}
	return l
}

// natural compares names in which numbers count as numbers: v1.9 comes before v1.10.
func natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		n, m := digits(x), digits(y)
		if n > 0 && m > 0 {
			i, j := strings.TrimLeft(x[:n], "0"), strings.TrimLeft(y[:m], "0")
			if len(i) != len(j) {
				return len(i) - len(j)
			}
			if c := strings.Compare(i, j); c != 0 {
				return c
			}
			x, y = x[n:], y[m:]
			continue
		}
		if x[0] != y[0] {
			return int(x[0]) - int(y[0])
		}
		x, y = x[1:], y[1:]
	}
	if x != y { // one of them has ended
		return len(x) - len(y)
	}
	return strings.Compare(a, b)
}

// digits is how many digits s starts with.
func digits(s string) int {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return i
		}
	}
	return len(s)
}
