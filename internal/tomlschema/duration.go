package tomlschema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time of at least a millisecond, or none. A text of it is written
// with the units d, h, m, s and ms, such as "1d12h".
type Duration time.Duration

// MaxDuration is the longest one.
const MaxDuration = 10 * 366 * 24 * time.Hour

// Milliseconds returns it in milliseconds.
func (d Duration) Milliseconds() int64 { return time.Duration(d).Milliseconds() }

var errDuration = errors.New("it is no length of time")

var units = []struct {
	name string
	long time.Duration
}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}

// ParseDuration reads a length of time, at most [MaxDuration].
func ParseDuration(text string) (Duration, error) {
	if text == "0" {
		return 0, nil
	}
	if text == "" {
		return 0, errDuration
	}
	var all time.Duration
	for text != "" {
		end := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if end <= 0 {
			return 0, errDuration
		}
		n, err := strconv.ParseFloat(text[:end], 64)
		text = text[end:]
		unit := text
		if end := strings.IndexAny(text, "0123456789."); end >= 0 {
			unit = text[:end]
		}
		text = text[len(unit):]
		found := false
		for _, u := range units {
			if u.name == unit && err == nil && n <= float64(MaxDuration/u.long) {
				all += time.Duration(n * float64(u.long)).Round(time.Millisecond)
				found = true
			}
		}
		if !found || all > MaxDuration {
			return 0, errDuration
		}
	}
	return Duration(all), nil
}

// String writes it so that ParseDuration reads the same.
func (d Duration) String() string {
	if d == 0 {
		return "0"
	}
	var b strings.Builder
	rest := time.Duration(d)
	for _, u := range units {
		if n := rest / u.long; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			rest -= n * u.long
		}
	}
	return b.String()
}
