package sidecar

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// number returns a whole number within bounds, 0 if there is none.
func (t table) number(key string, least, most int64) int64 {
	value, ok := t.get(key)
	if !ok {
		return 0
	}
	n, ok := value.(int64)
	if !ok || n < least || n > most {
		t.wrong(key, fmt.Sprintf("a whole number from %d to %d", least, most))
		return 0
	}
	return n
}

var units = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1}}

// size returns a number of bytes within bounds, 0 if there is none.
func (t table) size(key string, least, most int64) int64 {
	value, ok := t.get(key)
	if !ok {
		return 0
	}
	n, ok := value.(int64)
	if text, is := value.(string); is {
		n, ok = parseSize(text)
	}
	if !ok || n < least || n > most {
		t.wrong(key, fmt.Sprintf("a number of bytes from %d to %d, such as 65536 or \"16MiB\"", least, most))
		return 0
	}
	return n
}

func parseSize(text string) (int64, bool) {
	for _, unit := range units {
		digits, ok := strings.CutSuffix(text, unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		return n * unit.bytes, err == nil && n >= 0 && n <= 1<<62/unit.bytes
	}
	return 0, false
}

// time returns milliseconds within bounds, 0 if there are none.
func (t table) time(key string, least, most int64, want string) int64 {
	value, ok := t.get(key)
	if !ok {
		return 0
	}
	text, _ := value.(string)
	ms, ok := parseTime(text)
	if !ok || ms < least || ms > most {
		t.wrong(key, want)
		return 0
	}
	return ms
}

// parseTime reads whole milliseconds or seconds.
func parseTime(text string) (ms int64, ok bool) {
	unit := int64(1)
	digits, ok := strings.CutSuffix(text, "ms")
	if !ok {
		unit = 1000
		if digits, ok = strings.CutSuffix(text, "s"); !ok {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	return int64(n) * unit, err == nil
}

// oneLine returns text that fits on one line, "" if there is none.
func (t table) oneLine(key string, most int) string {
	value, ok := t.get(key)
	if !ok {
		return ""
	}
	text, _ := value.(string)
	if text == "" || len(text) > most || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		t.wrong(key, fmt.Sprintf("text of one line, at most %d bytes", most))
		return ""
	}
	return text
}
