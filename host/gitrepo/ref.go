package gitrepo

import "strings"

// maxRef bounds the name of a ref: a component is a file name.
const (
	branches = "refs/heads/"

	maxRef       = 1 << 10
	maxComponent = 255 - len(".lock")
)

// IsRef reports whether name is the full name of a ref, such as refs/heads/main,
// by the rules of git check-ref-format, and short enough for a file system.
func IsRef(name string) bool {
	return strings.HasPrefix(name, "refs/") && len(name) <= maxRef && isRefFormat(name) && !hasLong(name)
}

func hasLong(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > maxComponent {
			return true
		}
	}
	return false
}

// isRefFormat is git check-ref-format without options.
func isRefFormat(name string) bool {
	if !strings.Contains(name, "/") || strings.HasSuffix(name, ".") ||
		strings.Contains(name, "..") || strings.Contains(name, "@{") {
		return false
	}
	for i := 0; i < len(name); i++ {
		if c := name[i]; c <= ' ' || c == 0x7f || strings.IndexByte(`~^:?*[\`, c) >= 0 {
			return false
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

// IsPushable reports whether a push may name the ref at all: a branch, a tag, or
// refs/nostr/ and the id of an event (GRASP-01).
func IsPushable(name string) bool {
	if id, ok := strings.CutPrefix(name, "refs/nostr/"); ok {
		return len(id) == 64 && IsID(id)
	}
	return IsRef(name) && (strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/"))
}
