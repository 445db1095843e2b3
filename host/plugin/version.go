package plugin

import (
	"strconv"
	"strings"
)

// older reports whether a version comes before another: numbers with dots between them. A
// mark after a hyphen, such as in 1.2.0-rc1, comes before the same without. Versions of
// another form are not compared.
func older(version, than string) bool {
	a, aMark, aOK := parseVersion(version)
	b, bMark, bOK := parseVersion(than)
	if !aOK || !bOK {
		return false
	}
	for i := range max(len(a), len(b)) {
		if x, y := numberAt(a, i), numberAt(b, i); x != y {
			return x < y
		}
	}
	switch {
	case aMark == bMark:
		return false
	case aMark == "" || bMark == "":
		return bMark == ""
	}
	return aMark < bMark
}

// numberAt returns the number at a place, 0 behind the end.
func numberAt(numbers []uint64, i int) uint64 {
	if i < len(numbers) {
		return numbers[i]
	}
	return 0
}

func parseVersion(text string) (numbers []uint64, preRelease string, ok bool) {
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "v"), "+")
	text, preRelease, _ = strings.Cut(text, "-")
	for part := range strings.SplitSeq(text, ".") {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return nil, "", false
		}
		numbers = append(numbers, n)
	}
	return numbers, preRelease, true
}
