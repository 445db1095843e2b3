package text

import "strings"

// Natural compares names in which numbers count as numbers: v1.9 comes before v1.10.
func Natural(a, b string) int {
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
